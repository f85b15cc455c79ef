"""Arithmetic operations of an expression: what kind, on which type."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pymbolic.primitives as prim
from loopy.types import LoopyType, NumpyType
from pymbolic.primitives import is_zero

from loopyperf.errors import UncountableError

Kind = Literal["add", "mul", "div", "pow", "special", "min/max", "compare", "logic", "bitwise", "shift"]

POWER_FUNCTIONS = frozenset({"pow", "powf", "pown", "powr"})
MIN_MAX_FUNCTIONS = frozenset({"min", "max", "fmin", "fmax", "fminf", "fmaxf"})
SIGN_FUNCTIONS = frozenset({"abs", "fabs", "fabsf"})
"""an operand modifier of the machine, free like a unary minus"""
COMPLEX_PARTS = frozenset({"real", "imag", "conj"})
"""free: they choose registers, or change a sign"""


@dataclass(frozen=True, slots=True)
class Operation:
    """A scalar arithmetic operation."""

    kind: Kind
    dtype: str
    """e.g. ``"f32"``, ``"i64"``"""


def dtype_name(dtype: LoopyType) -> str:
    """Return the short name of a scalar type, e.g. ``"f32"``; raises :class:`UncountableError` for another type."""
    if isinstance(dtype, NumpyType) and dtype.dtype.kind in "fiub":
        letter = "u" if dtype.dtype.kind == "b" else dtype.dtype.kind
        return f"{letter}{8 * dtype.dtype.itemsize}"
    raise UncountableError(f"arithmetic on type {dtype} is not counted")


def operations(expression: Any, dtype: LoopyType) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that the top node of *expression* performs, with their number.

    *dtype* is the type that the operation works in. A subtraction is one addition; unary minus, and a product with
    the literal -1, are free; ``x**2`` is one exponentiation (Stevens and Klöckner, section 2.2).
    """
    kind, number = _kind_and_number(expression)
    if number:
        yield Operation(kind, dtype_name(dtype)), number


def _kind_and_number(expression: Any) -> tuple[Kind, int]:
    match expression:
        case prim.Sum():
            return "add", len(expression.children) - 1
        case prim.Product():
            factors = [child for child in expression.children if not _is_minus_one(child)]
            return "mul", max(len(factors) - 1, 0)
        case prim.Quotient() | prim.FloorDiv() | prim.Remainder():
            return "div", 1
        case prim.Power():
            return "pow", 1
        case prim.Min() | prim.Max():
            return "min/max", len(expression.children) - 1
        case prim.Comparison():
            return "compare", 1
        case prim.LogicalAnd() | prim.LogicalOr():
            return "logic", len(expression.children) - 1
        case prim.LogicalNot():
            return "logic", 1
        case prim.BitwiseAnd() | prim.BitwiseOr() | prim.BitwiseXor():
            return "bitwise", len(expression.children) - 1
        case prim.BitwiseNot():
            return "bitwise", 1
        case prim.LeftShift() | prim.RightShift():
            return "shift", 1
        case _:
            raise UncountableError(f"no count for {type(expression).__name__} in {expression}")


def function_operation(name: str, dtype: LoopyType) -> Operation | None:
    """Return the operation that a call of the scalar function *name* performs; None if it is free."""
    if name in SIGN_FUNCTIONS | COMPLEX_PARTS:
        return None
    if name in POWER_FUNCTIONS:
        return Operation("pow", dtype_name(dtype))
    if name in MIN_MAX_FUNCTIONS:
        return Operation("min/max", dtype_name(dtype))
    return Operation("special", dtype_name(dtype))


def _is_minus_one(expression: Any) -> bool:
    return isinstance(expression, (int, float, np.number)) and is_zero(expression + 1)
