"""Doubled values: a product with 2 is a sum, which takes no constant."""

from dataclasses import replace

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction, Opcode

DOUBLE = (2, -2)


def with_doubled_values(graph: Idg) -> Idg:
    """Return *graph* with products of floating-point numbers with 2, or with -2, as sums.

    So nvcc writes those that are not part of a multiply-add (docs/compiler.md, section 4).
    """
    return Idg(tuple(map(_doubled, graph.instructions)), graph.edges, graph.body)


def _doubled(instruction: Instruction) -> Instruction:
    is_product = instruction.kind == Opcode.MUL and instruction.dtype.startswith("f")
    if not is_product or not any(_is_double(operand.known) for operand in instruction.operands):
        return instruction
    return replace(instruction, kind=Opcode.ADD)


def _is_double(known: object) -> bool:
    return isinstance(known, (int, float)) and known in DOUBLE
