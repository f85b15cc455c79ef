"""Variants of the ranking sets: each builds, fits the device, and computes the reference result."""

import re
from pathlib import Path
from typing import Any

import pytest

from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.opencl import OpenCLBackend
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import configurations_of, load_kernel_files

LIMITS = DeviceLimits(group_size=1024, local_memory=2**15, global_memory=2**30)
FILES = {file.name: file for file in load_kernel_files(Path(__file__).parents[2] / "benchmarks" / "ranking_sets")}
VARIANTS = [(name, each) for name, file in sorted(FILES.items()) for each in configurations_of(file, LIMITS)]


def kind(name: str, label: str) -> tuple[str, str]:
    """Return *name* and *label* without numbers."""
    return name, re.sub(r"\d+", "", label)


ONE_OF_EACH_KIND = list({kind(name, each.label): (name, each) for name, each in reversed(VARIANTS)}.values())


@pytest.fixture(scope="module")
def backend() -> OpenCLBackend:
    return OpenCLBackend()


@pytest.mark.parametrize(
    "variants", [ONE_OF_EACH_KIND[::4], pytest.param(VARIANTS, marks=pytest.mark.slow)], ids=["sample", "all"]
)
def test_variants_compute_the_reference_result(subtests: pytest.Subtests, backend: OpenCLBackend, variants: list[Any]):
    for name, variant in variants:
        with subtests.test(name=name, variant=variant.label):
            # time() compares the results with the reference before the first timing.
            assert backend.time(BenchmarkCase(name, variant, variant.sizes[0]), 1)


@pytest.mark.parametrize("name", sorted(FILES))
def test_set_has_at_least_15_variants(name: str):
    labels = [each.label for each in FILES[name].configurations(LIMITS)]
    assert len(labels) == len(set(labels)) >= 15


@pytest.mark.parametrize("name", sorted(FILES))
def test_all_variants_of_a_set_are_measured_at_the_same_sizes(name: str):
    assert len({tuple(map(str, each.sizes)) for each in FILES[name].configurations(LIMITS)}) == 1


@pytest.mark.parametrize("name", sorted(FILES))
def test_small_device_has_fewer_variants_and_all_fit(name: str):
    small = DeviceLimits(group_size=64, local_memory=2**11, global_memory=2**30)
    variants = FILES[name].configurations(small)
    assert 0 < len(variants) < len(FILES[name].configurations(LIMITS))
    for each in variants:
        kernel = each.build().default_entrypoint
        _, group = kernel.get_grid_size_upper_bounds_as_exprs(each.build().callables_table)
        work_items = 1
        for length in group:
            work_items *= int(length)
        assert work_items <= 64
