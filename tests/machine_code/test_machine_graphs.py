"""Test that machine graphs have the same instructions of each class as executed machine code."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache

import pytest

from loopyperf.compiler import lowered
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.kernel import load_kernel
from tests.profiles import source_profile

from .branch_decisions import usual
from .catalog import ENGINEERING, KNOWN
from .conftest import Build
from .graph_classes import COMPARED, executed
from .instruction_counts import Tally

SLOW = ("prefix sums", "layer normalization", "by columns", "waves", "polynomial", "chain", "remainders")
"""kernels that only slow tests compile; every second one of the others, too"""
EXACT = [
    *(f"tiled {tile}" for tile in (8, 16, 32)),
    *(f"n-body {group}" for group in (64, 128, 256)),
    *(f"transposition {tile}" for tile in (16, 32)),
    "naive",
    "convolution",
    "scaled sum",
    "bounded scaled sum",
    "gather",
    "sparse rows of 8",
    "sparse rows",
    "small products",
    "sums of rows",
    "sums of columns",
    "products of vectors",
    "forces",
    "pointwise",
    "integer products",
    "recurrence",
    "invariant loop",
    "four neighbours",
    "line stencil 1",
    "line stencil 3",
    "line stencil 40",
    *(name for name in ENGINEERING if name not in SLOW),
]
IDLE = ("finite difference", "finite difference 32x8", "finite difference 64x4", "written-out line stencil")
"""kernels whose machine code issues guarded unrolled copies in which no lane is active"""
ARCHITECTURES = {"sm_80": (8, 0), "sm_90": (9, 0)}


QUICK_AND_SLOW = pytest.mark.parametrize(
    "names", [EXACT[::2], pytest.param([*EXACT[1::2], *SLOW], marks=pytest.mark.slow)], ids=len
)


@QUICK_AND_SLOW
def test_machine_graph_matches_executed_instructions(subtests: pytest.Subtests, launch: Build, names: Sequence[str]):
    for architecture in ARCHITECTURES:
        for name in names:
            with subtests.test(architecture=architecture, name=name):
                graph, tally = both(launch, name, architecture)
                assert compared(tally.counts) == compared(executed(graph))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", IDLE)
def test_machine_graph_matches_instructions_with_active_lanes(launch: Build, name: str, architecture: str) -> None:
    graph, tally = both(launch, name, architecture)
    assert compared(tally.counts - tally.idle) == compared(executed(graph))


@QUICK_AND_SLOW
def test_total_executed_instructions_are_within_15_percent(
    subtests: pytest.Subtests, launch: Build, names: Sequence[str]
) -> None:
    for architecture in ARCHITECTURES:
        for name in [*names, *IDLE, "skinny", "bounded tiles"]:
            with subtests.test(architecture=architecture, name=name):
                graph, tally = both(launch, name, architecture)
                assert abs(graph.executed / tally.total - 1) < 0.15


def compared(counts: Mapping[str, int | Fraction]) -> dict[str, int | Fraction]:
    """Return *counts* of the classes that are compared."""
    return {name: count for name, count in counts.items() if name.partition(".")[0] in COMPARED and count}


@cache
def both(launch: Build, name: str, architecture: str) -> tuple[Idg, Tally]:
    """Return the machine graph of a kernel's representative warp, and the instructions that this warp executes."""
    entry = KNOWN[name]
    unit = entry.program()
    graphs = source_profile(load_kernel(unit), entry.sizes, Typical(entry.typical)).graph
    example = graphs.launches[0].representative.example
    group = tuple(example.groups.get(axis, 0) for axis in range(3))
    machine = launch(unit, architecture).run(dict(entry.sizes), group, example.number, usual)
    return lowered(graphs, capability=ARCHITECTURES[architecture]), machine
