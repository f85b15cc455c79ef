"""Test machine graphs of the reductions in Sim's table 4 against executed machine code, for all warp classes."""

import re
from dataclasses import replace

import loopy as lp
import pytest
from loopy.target.pyopencl import VolatileMemPyOpenCLTarget

from loopyperf.compiler import lowered
from loopyperf.counts.sizes import Typical
from loopyperf.kernel import load_kernel
from test_kernels.optimization_steps.reduction import STEPS, reduction
from tests.profiles import source_profile

from .conftest import Build
from .cuda_source import CudaSource, cuda_source
from .test_machine_graphs import ARCHITECTURES, compared, executed

GROUP, SIZE = 128, 2**20


def cuda(unit: lp.TranslationUnit) -> CudaSource:
    """Return the kernel in CUDA, with the volatile accesses of its target, which Loopy's CUDA target lacks."""
    source = cuda_source(unit)
    if not isinstance(unit.target, VolatileMemPyOpenCLTarget):
        return source
    return replace(source, code=re.sub(r"\bfloat(?= tile| const \*| \*)", "float volatile", source.code))


@pytest.mark.slow
def test_machine_graphs_of_all_warp_classes_match_executed_code(subtests: pytest.Subtests, launch: Build) -> None:
    for architecture in ARCHITECTURES:
        for step in STEPS:
            with subtests.test(architecture=architecture, step=step):
                unit, sizes = reduction(step, GROUP), STEPS[step].sizes(GROUP, SIZE)
                machine = launch(cuda(unit), architecture)
                (launched,) = source_profile(load_kernel(unit), sizes, Typical({})).launches
                for kind in launched.classes:
                    graph = lowered(kind.graph, capability=ARCHITECTURES[architecture])
                    tally = machine.run(dict(sizes), (kind.example.groups[0], 0, 0), kind.example.number)
                    assert compared(tally.counts) == compared(executed(graph))
                    # Constants that shifts begin with are moved again in unrolled copies but not in single
                    # iterations; we model no rule for that.
                    assert abs(graph.executed / tally.total - 1) < 0.05
