"""Tests of measurement_kernels/ and test_kernels/: one empty kernel, correct results, sizes that fit in memory."""

import re
from dataclasses import replace

import numpy as np
import pytest

from loopyperf.measurement.arguments import allocated_bytes
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.opencl import OpenCLBackend
from loopyperf.measurement.campaign import EMPTY_KERNEL, plan
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from tests import sample_and_all

LIMITS = DeviceLimits(group_size=256, local_memory=2**15, global_memory=2**30)
FOLDERS = ("measurement_kernels", "test_kernels")
FILES = {file.name: file for folder in FOLDERS for file in load_kernel_files(bundled_folder(folder))}
FORMS = [
    (name, configuration)
    for name, configuration in plan(FILES.values(), LIMITS)
    # Only the largest group size, one length of the arithmetic sums, and a few strides of each access width.
    if configuration.label.endswith(("group 256", "group 16x16", "group 32x8"))
    and not re.search("k=512|k=728|-bit, stride (?!0|1,|2/3|4/>4)|pitch (2|4|8|16),", configuration.label)
]
OTHER_FORMS = [
    each
    for folder in ("rodinia", "optimization_steps")
    for each in plan(load_kernel_files(bundled_folder(f"test_kernels/{folder}")), LIMITS)
]


def test_exactly_one_bundled_file_is_the_empty_kernel():
    files = load_kernel_files(bundled_folder("measurement_kernels"))
    assert [file.path.name for file in files if file.name == EMPTY_KERNEL] == ["empty.py"]


def test_classes_have_the_group_sizes_of_the_paper():
    # Section 4.1, for the Titan X: transpose 2-D Med, vector scale and add 1-D Large, the others the large sets.
    def groups(name: str, group_size: int) -> list[str]:
        configurations = FILES[name].configurations(replace(LIMITS, group_size=group_size))
        return list(dict.fromkeys(c.label.rpartition("group ")[2] for c in configurations))

    assert groups("transpose", 1024) == groups("transpose", 512) == ["16x12", "16x16", "32x16"]
    assert groups("transpose", 256) == ["16x12", "16x14", "16x16"]
    assert groups("vector scale and add", 1024) == groups("vector scale and add", 512) == ["256", "384", "512"]
    assert groups("vector scale and add", 256) == ["192", "224", "256"]
    assert groups("matrix multiplication", 1024) == ["16x16", "24x16", "32x16"]
    assert groups("stride-2 filled global access", 512) == ["128", "256", "384"]


@pytest.fixture(scope="module")
def backend() -> OpenCLBackend:
    return OpenCLBackend()


@sample_and_all(9)
def test_results_match_numpy(subtests: pytest.Subtests, backend: OpenCLBackend, step: int):
    for name, form in [*FORMS, *OTHER_FORMS][::step]:
        with subtests.test(name=name, form=form.label):
            assert backend.time(BenchmarkCase(name, form, form.sizes[0]), 1)


# {{{ memory: the campaign limits the sizes, the files need not


def test_allocated_bytes_match_the_arguments(subtests: pytest.Subtests):
    for name in FILES:
        with subtests.test(name=name):
            form = FILES[name].configurations(LIMITS)[0]
            for sizes in form.sizes[:2]:
                arguments = form.arguments(np.random.default_rng(0), sizes).values()
                taken = sum(value.nbytes for value in arguments if isinstance(value, np.ndarray))
                assert taken == allocated_bytes(form.build().default_entrypoint, sizes)


# }}}
