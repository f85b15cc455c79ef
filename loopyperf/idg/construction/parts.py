"""Values that several instructions compute side by side: both parts of a complex number, the members of a vector."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopyperf.counts.data_types.complex_arithmetic import MULTIPLY_COMPLEX
from loopyperf.counts.item import Operation
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.values import Value

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
    nodes = nodes_of(value, drafts)
    return replace(value, node=nodes[place], is_part=True) if len(nodes) == number > 1 else value


def is_complex_product(found: Sequence[tuple[Operation, int]]) -> bool:
    """Return whether the operations *found* are those of a product of two complex numbers."""
    return [(operation.kind, number) for operation, number in found] == [*MULTIPLY_COMPLEX.items()]


def complex_products(operands: Sequence[Value], drafts: Sequence[Draft]) -> Iterator[tuple[Value, Value]]:
    """Yield the four pairs that are multiplied: the first two for the real part, the others for the imaginary one."""
    for left, right in ((REAL, REAL), (IMAGINARY, IMAGINARY), (REAL, IMAGINARY), (IMAGINARY, REAL)):
        yield part(operands[0], left, 2, drafts), part(operands[-1], right, 2, drafts)
