"""Divisions by powers of two: products with their reciprocals, which are exact."""

from dataclasses import replace
from math import frexp
from typing import Any

from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction, Opcode, Operand

SUBSYSTEMS = {"f32": Pipeline.ALU, "f64": Pipeline.FP64}


def with_exact_reciprocals(graph: Idg) -> Idg:
    """Return *graph* with divisions of floating-point numbers by powers of two as products, as nvcc writes them."""
    return Idg(tuple(map(_multiplied, graph.instructions)), graph.edges, graph.body)


def _multiplied(instruction: Instruction) -> Instruction:
    if instruction.kind != Opcode.DIV or instruction.dtype not in SUBSYSTEMS or len(instruction.operands) != 2:
        return instruction
    dividend, divisor = instruction.operands
    if not _is_power_of_two(divisor.known):
        return instruction
    factor = Operand(1 / divisor.known, divisor.is_negated)
    return replace(instruction, kind=Opcode.MUL, subsystem=SUBSYSTEMS[instruction.dtype], operands=(dividend, factor))


def _is_power_of_two(known: Any) -> bool:
    """Return whether *known* is a number whose absolute value is a power of two."""
    return isinstance(known, (int, float)) and known != 0 and abs(frexp(known)[0]) == 0.5
