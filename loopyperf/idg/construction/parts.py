"""Values that several instructions compute side by side: both parts of a complex number, the members of a vector."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from loopyperf.counts.arithmetic import MULTIPLY_COMPLEX
from loopyperf.counts.item import Operation
from loopyperf.idg.construction.drafts import Draft, Value

REAL, IMAGINARY = 0, 1
REAL_PARTS = ("real", "imag")
"""functions that choose one of both, which nothing computes"""


def nodes_of(value: Value, drafts: Sequence[Draft]) -> tuple[int, ...]:
    """Return the instructions that compute *value*, a place in *drafts* for each of its parts."""
    if value.node is None:
        return ()
    return (value.node,) if value.is_part else (value.node, *drafts[value.node].beside)


def part(value: Value, place: int, number: int, drafts: Sequence[Draft]) -> Value:
    """Return the part at *place* of *value*, if it has that *number* of parts; else it as a whole."""
    if len(value.reads) == number:
        return replace(value, reads=(value.reads[place],))
    nodes = nodes_of(value, drafts)
    return replace(value, node=nodes[place], is_part=True) if len(nodes) == number > 1 else value


def called_part(operation: Operation, called: Sequence[str], place: int, expression: Any) -> Any:
    """Return what an *operation* of *expression* is called: one of the functions of real numbers that are *called*."""
    return f"{called[place % len(called)]}({expression})" if called and operation.kind == "special" else expression


Do = Callable[[Operation, Sequence[Value], int], Value]
"""does an operation with some operands, the one at that place among those alike"""


def in_stages(
    found: Sequence[tuple[Operation, int]], operands: Sequence[Value], members: int, drafts: Sequence[Draft], do: Do
) -> list[Value]:
    """Do the operations that were *found* for each of the *members* of a vector, and return the results side by side.

    Those of a kind are done side by side, each with its parts of the *operands*; each kind waits for the one before.
    """
    values: list[Value] = []
    for member in range(members):
        its = operands if members == 1 else [part(each, member, members, drafts) for each in operands]
        values += _of_member(found, its, member, drafts, do)
    return values


def _of_member(
    found: Sequence[tuple[Operation, int]], operands: Sequence[Value], member: int, drafts: Sequence[Draft], do: Do
) -> list[Value]:
    if [(operation.kind, number) for operation, number in found] == [*MULTIPLY_COMPLEX.items()]:
        (multiplication, _), (addition, _) = found
        pairs = enumerate(_complex_products(operands, drafts), 4 * member)
        products = [do(multiplication, pair, place) for place, pair in pairs]
        return [do(addition, pair, place) for place, pair in enumerate((products[:2], products[2:]), 2 * member)]
    earlier: list[Value] = []
    for operation, number in found:
        taken = [[part(each, place, number, drafts) for each in operands] for place in range(number)]
        earlier = [do(operation, [*earlier, *its], place) for place, its in enumerate(taken, number * member)]
    return earlier


def beside_each_other(parts: Sequence[Value], drafts: Sequence[Draft]) -> Value:
    """Return the value that has these *parts*, each of an instruction of its own."""
    first, *others = [each.node for each in parts if each.node is not None]
    drafts[first].beside = tuple(others)
    return parts[0]


def _complex_products(operands: Sequence[Value], drafts: Sequence[Draft]) -> Iterator[tuple[Value, Value]]:
    """Yield the four pairs that are multiplied: the first two for the real part, the others for the imaginary one."""
    for left, right in ((REAL, REAL), (IMAGINARY, IMAGINARY), (REAL, IMAGINARY), (IMAGINARY, REAL)):
        yield part(operands[0], left, 2, drafts), part(operands[-1], right, 2, drafts)
