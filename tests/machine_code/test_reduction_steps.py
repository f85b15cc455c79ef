"""The reductions of Sim's table 4 against their machine code, executed: all kinds of their warps."""

import re
from dataclasses import replace

import loopy as lp
import pytest
from loopy.target.pyopencl import VolatileMemPyOpenCLTarget

from loopyperf.compiler import lowered
from loopyperf.counts.sizes import Typical
from loopyperf.kernel import load_kernel
from loopyperf.memory.source_launch import source_profile
from test_kernels.optimization_steps.reduction import STEPS, reduction

from .conftest import Build
from .cuda_source import CudaSource, cuda_source
from .graph_classes import executed
from .test_machine_graphs import ARCHITECTURES, compared

GROUP, SIZE = 128, 2**20


def cuda(unit: lp.TranslationUnit) -> CudaSource:
    """Return the kernel in CUDA, with volatile accesses where Loopy's target has them: that for CUDA has none."""
    source = cuda_source(unit)
    if not isinstance(unit.target, VolatileMemPyOpenCLTarget):
        return source
    return replace(source, code=re.sub(r"\bfloat(?= tile| const \*| \*)", "float volatile", source.code))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("step", STEPS)
def test_all_kinds_of_warps_execute_what_their_machine_graphs_say(launch: Build, step: str, architecture: str) -> None:
    unit, sizes = reduction(step, GROUP), STEPS[step].sizes(GROUP, SIZE)
    machine = launch(cuda(unit), architecture)
    (launched,) = source_profile(load_kernel(unit), sizes, Typical({})).launches
    for kind in launched.classes:
        graph = lowered(kind.graph, capability=ARCHITECTURES[architecture])
        tally = machine.run(dict(sizes), (kind.example.groups[0], 0, 0), kind.example.number)
        assert compared(tally.counts) == compared(executed(graph))
        # Constants that shifts begin with are moved anew in copies and not in single passes, and by no rule of ours.
        assert abs(graph.executed / tally.total - 1) < 0.05
