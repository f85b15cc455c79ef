"""Tests that NVRTC compiles all bundled kernels for Ampere and Hopper."""

import numpy as np
import pytest

from loopyperf.compiler.resources import compiled, library
from loopyperf.measurement.arguments import checked_arguments
from loopyperf.measurement.backends.cuda import CudaProgram

from .bundled import PLANNED, one_of_each_kind

REGISTERS = 65536
"""of a core, on both architectures"""


@pytest.mark.skipif(library() is None, reason="NVRTC is not installed (pip install nvidia-cuda-nvrtc)")
@pytest.mark.parametrize(
    ("labels", "architectures"),
    [(one_of_each_kind()[::6], ("sm_90",)), pytest.param(list(PLANNED), ("sm_80", "sm_90"), marks=pytest.mark.slow)],
    ids=["sample", "all"],
)
def test_kernels_compile_and_their_groups_fit_on_a_core(
    subtests: pytest.Subtests, labels: list[str], architectures: tuple[str, ...]
) -> None:
    for label in labels:
        with subtests.test(label=label):
            _, form = PLANNED[label]
            program, sizes = CudaProgram(form.build()), form.sizes[0]
            arguments = checked_arguments(program.kernel, form.arguments(np.random.default_rng(0), sizes), sizes)
            launches = program.launches(arguments, lambda nbytes: None)
            for architecture in architectures:
                # as CuPy does: without the headers that nvcc includes
                functions = {each.function: each for each in compiled(program.source, architecture, ["-std=c++17"])}
                assert functions.keys() == {launch.function for launch in launches}
                registers = [functions[each.function].registers * np.prod(each.group) for each in launches]
                assert max(registers) <= REGISTERS
