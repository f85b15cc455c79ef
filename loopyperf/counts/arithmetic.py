"""Arithmetic operations of an expression: what kind, on which type, how many."""

from collections.abc import Iterator, Mapping
from typing import Any

from loopyperf.counts.data_types.chains import Link
from loopyperf.counts.data_types.complex_arithmetic import PARTS, complex_function, complex_operation
from loopyperf.counts.data_types.number_type import NumberType
from loopyperf.counts.item import Kind, Operation

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


def function_operations(name: str, result: NumberType, argument: NumberType) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that a call of the function *name* performs; signs, and parts of complex numbers, are free.

    *argument* is the type of what it is called with first: what asks something of a real number, as ``isnan`` does, and
    answers with an integer, works in that, and the dot product of two vectors is as many products, and their sum.
    """
    if argument.is_complex or result.is_complex:
        yield from _of_kinds(complex_function(name), argument)
    elif name in FUSED_FUNCTIONS:
        yield from _of_kinds(FUSED_FUNCTIONS[name], result)
    elif name == "dot":
        yield Operation("mul", result.scalar), argument.components
        if argument.components > 1:
            yield Operation("add", result.scalar), argument.components - 1
    elif name not in SIGN_FUNCTIONS | PARTS and not name.startswith("make_"):  # which build vectors
        kind = "pow" if name in POWER_FUNCTIONS else "min/max" if name in MIN_MAX_FUNCTIONS else "special"
        works_in = argument if result.is_integral else result
        yield Operation(kind, works_in.scalar), works_in.components


def _of_kinds(numbers: Mapping[Kind, int], made_of: NumberType) -> Iterator[tuple[Operation, int]]:
    for kind, number in numbers.items():
        yield Operation(kind, made_of.scalar), number * made_of.components
