"""NVIDIA's compiler takes every bundled kernel, for Ampere and Hopper."""

from functools import cache

import numpy as np
import pytest

from loopyperf.compiler.resources import VERBOSE, Resources, compilation_log, library, read_report
from loopyperf.measurement.arguments import checked_arguments
from loopyperf.measurement.backends.cuda_program import CudaProgram

from .bundled import PLANNED, one_of_each_kind

ARCHITECTURES = ("sm_80", "sm_90")
REGISTERS = 65536
"""of a core, on both"""


@cache
def compiled(source: str, architecture: str) -> tuple[Resources, ...]:
    """Return what NVRTC makes of *source*, as CuPy calls it: without headers, where nvcc would have some."""
    return read_report(compilation_log(source, [f"-arch={architecture}", "-std=c++17", VERBOSE]))


@pytest.mark.skipif(library() is None, reason="NVRTC is not installed (pip install nvidia-cuda-nvrtc)")
@pytest.mark.parametrize("labels", [one_of_each_kind(), pytest.param(list(PLANNED), marks=pytest.mark.slow)], ids=len)
def test_the_compiler_takes_the_kernel_and_its_group_fits_a_core(subtests: pytest.Subtests, labels: list[str]) -> None:
    for label in labels:
        with subtests.test(label=label):
            _, form = PLANNED[label]
            program, sizes = CudaProgram(form.build()), form.sizes[0]
            arguments = checked_arguments(program.kernel, form.arguments(np.random.default_rng(0), sizes), sizes)
            launches = program.launches(arguments, lambda nbytes: None)
            for architecture in ARCHITECTURES:
                functions = {each.function: each for each in compiled(program.source, architecture)}
                assert functions.keys() == {launch.function for launch in launches}
                registers = {each: functions[each.function].registers * np.prod(each.group) for each in launches}
                assert max(registers.values()) <= REGISTERS
