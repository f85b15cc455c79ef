"""Steps of a kernel's program: one per operation, load and store, with the values that it uses.

:mod:`loopyperf.counts.walk` translates statements into steps. Counts add them up, and instruction dependence graphs are
made of them. A complex operation or a vector consists of several steps, each of which computes a part of the value.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from loopyperf.counts.arithmetic import MULTIPLY_COMPLEX
from loopyperf.counts.conditions import Conditions
from loopyperf.counts.item import Item, Operation
from loopyperf.counts.memory_accesses import Reference

REAL, IMAGINARY = 0, 1


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a private variable, which lives in registers."""

    variable: str
    index: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """An operand. One of the first three fields gives its origin."""

    node: int | None = None
    """index of the step that computes it"""
    reads: tuple[Read, ...] = ()
    """the private variable that holds it; one read per member of a vector"""
    known: Any = None
    """a number, or an expression of loop variables, sizes and scalar arguments"""
    is_negated: bool = False
    is_part: bool = False
    """whether it is the result of that step alone, without the other parts of the same value"""

    def negated(self) -> "Value":
        """Return the negated operand; on GPUs this is an operand modifier, not an instruction."""
        return replace(self, is_negated=not self.is_negated)


@dataclass(slots=True)
class Step:
    """An operation, an access, a choice between values, or a barrier."""

    kind: str
    """name of the instruction: the kind of the operation, ``"square"``, ``"powi"`` (a power with an integer exponent),
    ``"mod"``, ``"select"``, ``"move"``, ``"load"``, ``"store"`` or ``"barrier"``"""
    text: Any
    """source of the step: an expression or its text"""
    conditions: Conditions
    """conditions under which it executes, beyond those of its statement"""
    operands: tuple[Value, ...] = ()
    item: Item | None = None
    """what it counts as; None for accesses of arrays, and for steps that counts ignore"""
    reference: Reference | None = None
    """the accessed array element"""
    expression: Any = None
    """the source expression that an operation computes"""
    function: str = ""
    """name of the function of real numbers that it calls"""
    controls: tuple[Value, ...] = ()
    """conditions of the selects whose sides contain it"""
    number: int | Fraction | None = None
    """executions per execution of its statement, if ``typical`` gives them"""
    part: int = 0
    """index among the steps into which one source operation is split"""
    beside: tuple[int, ...] = ()
    """the steps that compute the other parts of its value"""
    member: int | None = None
    """index of the vector member that it computes; None if it executes once for all members"""
    is_repeated: bool = False
    """whether it loads an element that the expression also loads elsewhere; counts ignore it"""


@dataclass(frozen=True, slots=True)
class Definition:
    """An assignment of a value to a private variable."""

    variable: str
    index: tuple[Any, ...]
    node: int
    """index of the step that computes the value"""
    is_part: bool = False
    """whether the value is the result of that step alone, without the other parts"""


# {{{ parts of values


def nodes_of(value: Value, steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the indices in *steps* of the steps that compute *value*, one per part."""
    if value.node is None:
        return ()
    return (value.node,) if value.is_part else (value.node, *steps[value.node].beside)


def part(value: Value, index: int, number: int, steps: Sequence[Step]) -> Value:
    """Return part *index* of *value* if it has *number* parts; otherwise the whole value."""
    if len(value.reads) == number:
        return replace(value, reads=(value.reads[index],))
    nodes = nodes_of(value, steps)
    return replace(value, node=nodes[index], is_part=True) if len(nodes) == number > 1 else value


def joined_parts(parts: Sequence[Value], steps: Sequence[Step]) -> Value:
    """Return the value that consists of *parts*, each computed by its own step."""
    first, *others = [each.node for each in parts if each.node is not None]
    steps[first].beside = tuple(others)
    return parts[0]


def product_with_sign(value: Value, operand: Value) -> Value:
    """Return the product of two operands, one of which is -1."""
    if isinstance(operand.known, (int, float, np.number)):
        return value.negated() if operand.known == -1 else value
    is_minus_one = isinstance(value.known, (int, float, np.number)) and value.known == -1
    return operand.negated() if is_minus_one else operand


Do = Callable[[Operation, Sequence[Value], int], Value]
"""adds the step of an operation, given its operands and its part index"""


def operations_in_order(
    operations: Sequence[tuple[Operation, int]], operands: Sequence[Value], first: int, steps: Sequence[Step], do: Do
) -> list[Value]:
    """Add *operations*, pairs of operation and number, on *operands*, and return the results of the last kind.

    Operations of one kind are independent, each with its parts of the *operands*; each kind depends on the previous
    one. The part indices start at *first* times the number of operations.
    """
    if len(operations) == 1 and operations[0][1] == 1:
        return [do(operations[0][0], [part(operand, 0, 1, steps) for operand in operands], first)]
    if [(operation.kind, number) for operation, number in operations] == [*MULTIPLY_COMPLEX.items()]:
        (multiplication, _), (addition, _) = operations
        pairs = enumerate(_complex_products(operands, steps), 4 * first)
        products = [do(multiplication, pair, index) for index, pair in pairs]
        return [do(addition, pair, index) for index, pair in enumerate((products[:2], products[2:]), 2 * first)]
    earlier: list[Value] = []
    for operation, number in operations:
        parts = [[part(operand, index, number, steps) for operand in operands] for index in range(number)]
        earlier = [do(operation, [*earlier, *own], index) for index, own in enumerate(parts, number * first)]
    return earlier


def _complex_products(operands: Sequence[Value], steps: Sequence[Step]) -> Iterator[tuple[Value, Value]]:
    """Yield the four pairs of factors: two for the real part, then two for the imaginary part."""
    for left, right in ((REAL, REAL), (IMAGINARY, IMAGINARY), (REAL, IMAGINARY), (IMAGINARY, REAL)):
        yield part(operands[0], left, 2, steps), part(operands[-1], right, 2, steps)


# }}}
