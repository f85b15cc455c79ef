"""Test that machine graphs have the same instructions of each class as executed machine code."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from loopyperf.compiler import lowered
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg, Instruction
from loopyperf.kernel import load_kernel
from tests.profiles import source_profile

from .branch_decisions import usual
from .catalog import ENGINEERING, KNOWN
from .conftest import Build
from .instruction_counts import Tally

ARITHMETIC = {"fma": "FMA", "add": "ADD", "mul": "MUL"}
PRECISION = {"f32": "F", "f64": "D"}
COMPARED = ("FFMA", "FADD", "FMUL", "DFMA", "DADD", "DMUL", "MUFU", "LDS", "LDG", "STS", "STG", "BAR")
"""opcodes that tests compare, for all widths"""
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


@pytest.mark.parametrize("names", [EXACT[::2], pytest.param([*EXACT[1::2], *SLOW], marks=pytest.mark.slow)], ids=len)
def test_machine_graph_matches_executed_instructions(subtests: pytest.Subtests, launch: Build, names: Sequence[str]):
    for name, architecture in product([*names, *IDLE, "skinny", "bounded tiles"], ARCHITECTURES):
        with subtests.test(architecture=architecture, name=name):
            graph, tally = both(launch, name, architecture)
            assert name not in names or compared(tally.counts) == compared(executed(graph))
            assert abs(graph.executed / tally.total - 1) < 0.15


def test_machine_graph_matches_instructions_with_active_lanes(subtests: pytest.Subtests, launch: Build) -> None:
    for name, architecture in product(IDLE, ARCHITECTURES):
        with subtests.test(architecture=architecture, name=name):
            graph, tally = both(launch, name, architecture)
            assert compared(tally.counts - tally.idle) == compared(executed(graph))


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


def executed(graph: Idg) -> dict[str, int | Fraction]:
    """Return how often the warp of *graph* executes instructions of each class, e.g. ``"LDS.128"``."""
    found: Counter[str] = Counter()
    for instruction in graph.instructions:
        found[_class(instruction)] += instruction.executions
    return dict(found)


def _class(instruction: Instruction) -> str:
    if instruction.reference is not None:
        bits = int(instruction.dtype.removeprefix("b"))
        name = {"load": "LD", "store": "ST"}[instruction.kind] + {"global": "G", "local": "S"}[instruction.subsystem]
        return name if bits == 32 else f"{name}.{bits}"
    if instruction.kind in ARITHMETIC and instruction.dtype in PRECISION:
        return PRECISION[instruction.dtype] + ARITHMETIC[instruction.kind]
    return {"barrier": "BAR", "mufu": "MUFU"}.get(instruction.kind, "other")
