"""Executed instructions of a machine graph, in the instruction classes of a tally of machine code."""

from collections import Counter
from fractions import Fraction

from loopyperf.idg import Idg, Instruction

ARITHMETIC = {"fma": "FMA", "add": "ADD", "mul": "MUL"}
PRECISION = {"f32": "F", "f64": "D"}
COMPARED = ("FFMA", "FADD", "FMUL", "DFMA", "DADD", "DMUL", "MUFU", "LDS", "LDG", "STS", "STG", "BAR")
"""opcodes that tests compare, for all widths"""


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
