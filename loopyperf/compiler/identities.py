"""Algebraic simplification: constant results, neutral operands, and cheaper products.

Without fast math, nvcc applies only rules that hold for all floating-point numbers: x·1, x/1 and x - 0 become x. It
computes x + 0, 0 - x, 0·x, x - x and x/x, and does not combine separate constants (docs/compiler/arithmetic.md).
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import frexp
from typing import Any, cast

import numpy as np
import pymbolic.primitives as prim
from pymbolic import evaluate

from loopyperf.compiler.folding import without_moves
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg, rewritten
from loopyperf.idg.program import Edge, Instruction, Opcode, Operand
from loopyperf.polyhedral.affine import names_in_expression

Number = int | float
Function = Callable[..., Any]


def _multiply_add(one: Number, other: Number, addend: Number) -> Number:
    return one * other + addend


def _square(number: Number, *_: Number) -> Number:
    return number * number


def _inverse_root(number: Number) -> float:
    return 1 / math.sqrt(number)


FUNCTIONS: Mapping[str, Function] = {
    **{name: cast("Function", each) for name, each in vars(math).items() if callable(each)},
    "tgamma": math.gamma,
    "rsqrt": _inverse_root,
}
"""functions by their names in C"""
ANY: Mapping[str, Function] = {
    Opcode.ADD: operator.add,
    Opcode.MUL: operator.mul,
    Opcode.FMA: _multiply_add,
    Opcode.SQUARE: _square,
}
OF_FLOATS: Mapping[str, Function] = {
    **ANY,
    Opcode.DIV: cast("Function", operator.truediv),
    Opcode.POW: math.pow,
    Opcode.POWI: math.pow,
}
OF_INTEGERS: Mapping[str, Function] = {
    **ANY,
    Opcode.DIV: cast("Function", operator.floordiv),
    Opcode.MOD: cast("Function", operator.mod),
}
SIMPLIFIED = frozenset({*OF_FLOATS, *OF_INTEGERS, Opcode.SPECIAL, Opcode.SHIFT, Opcode.MOVE, Opcode.SELECT})
"""opcodes whose result may be a constant or an operand"""
NEUTRAL: Mapping[str, int] = {
    **dict.fromkeys((Opcode.MUL, Opcode.DIV, Opcode.POW, Opcode.POWI), 1),
    **dict.fromkeys((Opcode.ADD, Opcode.SHIFT), 0),
}
"""opcode -> neutral second operand (of sums and products, either one)"""


def without_identities(graph: Idg) -> Idg:
    """Return *graph* without arithmetic and selections whose result is a constant or one of the operands."""
    graph = graph.changed([*map(_with_numbers, graph.instructions)])
    found = _Known(graph).moves()
    if not found:
        return graph
    moves = {
        place: replace(graph.instructions[place], kind=Opcode.MOVE, operands=(operand,))
        for place, (operand, _) in found.items()
    }
    edges = [
        replace(edge, operand=0) if edge.target in found else edge
        for edge in graph.edges
        if edge.target not in found or (edge.operand is not None and edge.operand == found[edge.target][1])
    ]
    return without_moves(rewritten(graph, range(len(graph.instructions)), edges, moves))


class _Known:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.constants: dict[int, Number] = {}
        """instruction -> constant result"""

    def moves(self) -> dict[int, tuple[Operand, int | None]]:
        """Return instruction -> (operand that replaces it, its slot or None if the operand is a constant)."""
        found: dict[int, tuple[Operand, int | None]] = {}
        for place in self.graph.order:
            each = self.graph.instructions[place]
            has_known = each.kind in SIMPLIFIED and (
                any(operand.known is not None for operand in each.operands)
                or any(edge.source in self.constants for edge in self.graph.definitions[place])
            )
            if not has_known:
                continue
            values = [self._value(place, slot) for slot in range(len(each.operands))]
            constant = _constant(each, values)
            if constant is not None:
                self.constants[place] = constant
            if each.kind == Opcode.MOVE:
                continue
            if constant is not None:
                found[place] = Operand(constant), None
            elif (slot := _chosen(each) or self._unchanged(place, each, values)) is not None:
                if (value := values[slot]) is not None:
                    self.constants[place] = value
                found[place] = each.operands[slot], slot
        return found

    def _value(self, place: int, slot: int) -> Number | None:
        """Return the signed number of an operand; None if it is unknown or varies."""
        operand = self.graph.instructions[place].operands[slot]
        before = self._sources(place, slot)
        if operand.known is None:
            is_sure = len(before) == 1 and before[0].condition is None and not any(before[0].distance)
            value = self.constants.get(before[0].source) if is_sure else None
        else:
            is_number = isinstance(operand.known, (int, float, np.number)) and not isinstance(operand.known, bool)
            value = cast("Number", operand.known) if is_number else None
        if value is None or not operand.is_negated:
            return value
        return -float(value) if value == 0 else -value

    def _sources(self, place: int, slot: int) -> list[Edge]:
        return [edge for edge in self.graph.definitions[place] if edge.operand == slot]

    def _unchanged(self, place: int, each: Instruction, values: list[Number | None]) -> int | None:
        """Return the slot of the operand that *each* passes on unchanged; None if it computes something."""
        if len(values) != 2:
            return None
        neutral = NEUTRAL.get(each.kind)
        if neutral == 0 and each.dtype.startswith("f"):
            neutral = -0.0  # adding 0 changes the sign of -0
        slots = (0, 1) if each.kind in (Opcode.ADD, Opcode.MUL) else (0,)
        unchanged = (slot for slot in slots if neutral is not None and _is(values[1 - slot], neutral))
        return next((slot for slot in unchanged if all(e.source != place for e in self._sources(place, slot))), None)


def _chosen(instruction: Instruction) -> int | None:
    """Return the slot that a selection with a constant condition takes; None for anything else."""
    operands = instruction.operands
    if instruction.kind != Opcode.SELECT or len(operands) != 3 or not isinstance(operands[0].known, bool):
        return None
    return 1 if operands[0].known else 2


def _is(value: Number | None, neutral: Number) -> bool:
    return value is not None and value == neutral and math.copysign(1, value) == math.copysign(1, neutral)


def _constant(instruction: Instruction, values: list[Number | None]) -> Number | None:
    """Return the result of *instruction* if all needed *values* are constants; None if not, or if evaluation fails."""
    kind, dtype = instruction.kind, instruction.dtype
    is_integral = dtype.startswith(("i", "u"))
    if kind in (Opcode.POW, Opcode.POWI) and values[1:] == [0]:
        return 1
    if is_integral and ((kind == Opcode.MUL and 0 in values) or (kind == Opcode.MOD and values[1:] == [1])):
        return 0
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    if kind == Opcode.MOVE:
        return numbers[0] if len(numbers) == 1 else None
    numbers = numbers if is_integral else [float(number) for number in numbers]
    known = OF_INTEGERS if is_integral else OF_FLOATS
    function = FUNCTIONS.get(instruction.function) if kind == Opcode.SPECIAL else known.get(kind)
    if function is None:
        return None
    try:
        return _rounded(function(*numbers), dtype)
    except (ArithmeticError, ValueError, TypeError):
        return None


def _rounded(result: Any, dtype: str) -> Number | None:
    """Return *result* as a number of *dtype*; None if it is not representable."""
    if not math.isfinite(result):
        return None
    if dtype.startswith("f"):
        return float(np.float32(result)) if dtype == "f32" else float(result)
    bits = int(dtype[1:])
    return int(result) if result == int(result) and -(2 ** (bits - 1)) <= result < 2 ** (bits - 1) else None


def _with_numbers(instruction: Instruction) -> Instruction:
    """Return *instruction* with operands that are expressions without variables replaced by numbers."""
    is_accessed = instruction.is_index or instruction.kind == Opcode.LOAD
    if is_accessed or not any(isinstance(operand.known, prim.ExpressionNode) for operand in instruction.operands):
        return instruction
    return replace(instruction, operands=tuple(map(_with_number, instruction.operands)))


def _with_number(operand: Operand) -> Operand:
    if not isinstance(operand.known, prim.ExpressionNode) or names_in_expression(operand.known):
        return operand
    try:
        return replace(operand, known=evaluate(operand.known, dict[str, Any]()))
    except (ArithmeticError, NotImplementedError, TypeError, ValueError):
        return operand


# {{{ divisions by powers of two become products with the exact reciprocal


SUBSYSTEMS = {"f32": Pipeline.ALU, "f64": Pipeline.FP64}


def with_exact_reciprocals(graph: Idg) -> Idg:
    """Return *graph* with floating-point divisions by powers of two as products, as nvcc generates them."""
    return graph.changed([*map(_multiplied, graph.instructions)])


def _multiplied(instruction: Instruction) -> Instruction:
    if instruction.kind != Opcode.DIV or instruction.dtype not in SUBSYSTEMS or len(instruction.operands) != 2:
        return instruction
    dividend, divisor = instruction.operands
    known = divisor.known
    if not isinstance(known, (int, float)) or known == 0 or abs(frexp(known)[0]) != 0.5:
        return instruction
    factor = Operand(1 / known, divisor.is_negated)
    return replace(instruction, kind=Opcode.MUL, subsystem=SUBSYSTEMS[instruction.dtype], operands=(dividend, factor))


# }}}


# {{{ fused multiply-adds: a product that is used only by sums is merged into each of them


def with_fused_multiply_adds(graph: Idg) -> Idg:
    """Return *graph* with multiply-adds in place of additions whose product has no other use."""
    wanted = {place: edge for place in range(len(graph.instructions)) if (edge := _factors(graph, place)) is not None}
    if not wanted:
        return graph
    uses: dict[int, list[Edge]] = {}
    for edge in graph.edges:
        uses.setdefault(edge.source, []).append(edge)
    products = {edge.source for edge in wanted.values()}
    gone = {place for place in products if all(wanted.get(use.target) is use for use in uses[place])}
    fused = {place: edge for place, edge in wanted.items() if edge.source in gone}
    instructions = {
        place: _fused(graph.instructions[edge.source], graph.instructions[place], edge) for place, edge in fused.items()
    }
    edges = [
        replace(edge, operand=2) if edge.target in fused and edge.operand is not None else edge  # the addend is third
        for edge in graph.edges
        if fused.get(edge.target) is not edge
    ]
    for place, product in fused.items():
        edges += [edge.between(edge.source, place) for edge in graph.definitions[product.source]]
    kept = [place for place in range(len(graph.instructions)) if place not in gone]
    return rewritten(graph, kept, edges, instructions)


def _factors(graph: Idg, place: int) -> Edge | None:
    """Return the edge to an addition from a product in the same iteration, the last of two; None if there is none."""
    instruction = graph.instructions[place]
    if instruction.kind != Opcode.ADD or not instruction.dtype:
        return None
    for edge in reversed(graph.definitions[place]):
        source = graph.instructions[edge.source]
        is_whole = len(source.operands) > 1  # products inside function sequences are not fused with other code
        is_product = is_whole and (source.kind, source.dtype) == (Opcode.MUL, instruction.dtype)
        is_beside = graph.loops_around[edge.source] == graph.loops_around[place]
        is_same_run = is_beside and source.condition == instruction.condition and edge.condition is None
        if is_product and is_same_run and not any(edge.distance) and edge.operand is not None:
            return edge
    return None


def _fused(product: Instruction, addition: Instruction, edge: Edge) -> Instruction:
    addend = tuple(operand for slot, operand in enumerate(addition.operands) if slot != edge.operand)
    first, *others = product.operands
    if edge.operand is not None and addition.operands[edge.operand].is_negated:
        first = replace(first, is_negated=not first.is_negated)
    return replace(addition, kind=Opcode.FMA, operands=(first, *others, *addend))


# }}}
