"""Instructions in the making: what they do, and where their operands come from, whichever warp executes them."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pymbolic.primitives as prim
from loopy.symbolic import WalkMapper

from loopyperf.counts.arithmetic import ExpressionTypes, Link
from loopyperf.counts.conditions import Conditions
from loopyperf.counts.item import Item, MemorySpace
from loopyperf.counts.memory import Reference
from loopyperf.device.parts import Pipeline
from loopyperf.idg.program import Opcode
from loopyperf.idg.warps.warp import Statement

# {{{ where an operand comes from: another instruction, a private variable, or the source itself


@dataclass(frozen=True, slots=True)
class Read:
    """A use of a private variable, which lives in registers."""

    variable: str
    index: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """An operand. One of the first three says where it comes from."""

    node: int | None = None
    """the instruction that computes it"""
    reads: tuple[Read, ...] = ()
    """the private variable that holds it; of a vector, each of its members"""
    known: Any = None
    """a number, or an expression of loop variables, sizes and scalar arguments"""
    is_negated: bool = False
    is_part: bool = False
    """it is what that instruction computes alone, without the others that compute parts of the same value"""

    def negated(self) -> "Value":
        """Return its negative: on GPUs an operand's modifier, no instruction."""
        return replace(self, is_negated=not self.is_negated)


def product_with_sign(value: Value, operand: Value) -> Value:
    """Return the product of two of which one is -1."""
    if _is_number(operand.known):
        return value.negated() if operand.known == -1 else value
    return operand.negated() if _is_number(value.known) and value.known == -1 else operand


def _is_number(known: Any) -> bool:
    return isinstance(known, (int, float, np.number))


# }}}


# {{{ drafts


@dataclass(slots=True)
class Draft:
    """An instruction in the making: what it does, and where its operands come from."""

    kind: Opcode
    dtype: str
    subsystem: Pipeline | MemorySpace
    text: str
    statement: Statement
    conditions: Conditions
    operands: list[Value] = field(default_factory=list[Value])
    reference: Reference | None = None
    item: Item | None = None
    """what it is counted as"""
    expression: Any = None
    """what it computes, where loop variables and sizes alone determine that"""
    controls: tuple[Value, ...] = ()
    """what decides whether it is executed"""
    number: int | Fraction | None = None
    """how often it is executed in one execution of its statement, where ``typical`` says so"""
    part: int = 0
    """which it is of those alike that one operation of the source is made of"""
    beside: tuple[int, ...] = ()
    """the others that compute parts of its value"""


@dataclass(frozen=True, slots=True)
class Definition:
    """A value that a statement gives to a private variable."""

    statement: Statement
    variable: str
    index: tuple[Any, ...]
    node: int
    is_part: bool = False
    """that instruction computes it alone, without those beside it"""


def machine_kind(expression: Any, link: Link, types: ExpressionTypes) -> Opcode | None:
    """Return the kind of the instruction that *link* of *expression* is, None where it is what it is counted as.

    Counts do not tell from others a power of two, which is written as a product, one to an integer, which is written as
    a loop of products, and what is left of a division.
    """
    if link.kind == "pow" and not link.result.is_complex:
        if link.operand is None:
            return Opcode.SQUARE
        return Opcode.POWI if types.number(link.operand).is_integral else None
    return Opcode.MOD if isinstance(expression, prim.Remainder) and link.kind == "div" else None


class _Calls(WalkMapper[[]]):
    """Finds whether there is a call of a function in an expression."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def map_call(self, expr: prim.Call) -> None:
        self.found = True


def has_call(expression: prim.ExpressionNode) -> bool:
    """Return whether *expression* calls a function, so that its value is unknown here."""
    calls = _Calls()
    calls(expression)
    return calls.found


# }}}
