"""Arithmetic operations of an expression: what kind, on which type, how many."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pymbolic.primitives as prim

from loopyperf.counts.chains import Link, is_minus_one
from loopyperf.counts.complex_arithmetic import PARTS, complex_function, complex_operation, complex_operations
from loopyperf.counts.item import Kind, Operation
from loopyperf.counts.number_type import NumberType
from loopyperf.errors import UncountableError

POWER_FUNCTIONS = frozenset({"pow", "powf", "pown", "powr"})
MIN_MAX_FUNCTIONS = frozenset({"min", "max", "fmin", "fmax", "fminf", "fmaxf"})
FUSED_FUNCTIONS: Mapping[str, Mapping[Kind, int]] = {
    "fma": {"mul": 1, "add": 1},
    "mad": {"mul": 1, "add": 1},
    "clamp": {"min/max": 2},
}
"""functions that are several plain operations"""
SIGN_FUNCTIONS = frozenset({"abs", "fabs", "fabsf"})
"""an operand modifier of the machine, free like a unary minus"""


TypeOf = Callable[[Any], NumberType]


def link_operations(link: Link, expression: Any) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that combine the operand of *link*, of *expression*, with what is before it: their numbers.

    A subtraction is one addition; unary minus, and a product with the literal -1, are free; ``x**2`` is one
    exponentiation (Stevens and Klöckner, section 2.2).
    """
    if link.kind is None:
        return
    if link.result.is_complex:
        left = link.left is not None and link.left.is_complex
        yield from _of_kinds(complex_operation(expression, link.kind, left, link.right.is_complex), link.result)
    else:
        yield Operation(link.kind, link.result.scalar), link.result.components


def operations(expression: Any, result: NumberType, type_of: TypeOf) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that the top node of *expression* performs, all taken as working in type *result*.

    *type_of* tells the type of an operand. :func:`link_operations` types them one by one, as generated code does.
    """
    if result.is_complex:
        operands = _factors(expression) if isinstance(expression, prim.Product) else _operands(expression)
        real = complex_operations(expression, [type_of(operand).is_complex for operand in operands])
        yield from _of_kinds(real, result)
    else:
        kind, number = _kind_and_number(expression)
        if number:
            yield Operation(kind, result.scalar), number * result.components


def function_operations(name: str, result: NumberType, argument: NumberType) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that a call of the function *name* performs; signs, and parts of complex numbers, are free.

    *argument* is the type of what it is called with, if that is complex; else any.
    """
    if argument.is_complex or result.is_complex:
        yield from _of_kinds(complex_function(name), argument)
    elif name in FUSED_FUNCTIONS:
        yield from _of_kinds(FUSED_FUNCTIONS[name], result)
    elif name not in SIGN_FUNCTIONS | PARTS and not name.startswith("make_"):  # which build vectors
        kind = "pow" if name in POWER_FUNCTIONS else "min/max" if name in MIN_MAX_FUNCTIONS else "special"
        yield Operation(kind, result.scalar), result.components


def _of_kinds(numbers: Mapping[Kind, int], made_of: NumberType) -> Iterator[tuple[Operation, int]]:
    for kind, number in numbers.items():
        yield Operation(kind, made_of.scalar), number * made_of.components


def _kind_and_number(expression: Any) -> tuple[Kind, int]:
    match expression:
        case prim.Sum():
            return "add", len(expression.children) - 1
        case prim.Product():
            return "mul", max(len(_factors(expression)) - 1, 0)
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


def _operands(expression: Any) -> Sequence[Any]:
    match expression:
        case prim.Quotient():
            return expression.numerator, expression.denominator
        case prim.Power():
            return expression.base, expression.exponent
        case prim.Comparison():
            return expression.left, expression.right
        case _:
            return expression.children


def _factors(product: prim.Product) -> Sequence[Any]:
    return [child for child in product.children if not is_minus_one(child)]
