"""Instructions in the making: what they do, and where their operands come from, whichever warp executes them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Any, cast

import numpy as np
import pymbolic.primitives as prim
from loopy.kernel.array import FixedStrideArrayDimTag, VectorArrayDimTag
from loopy.kernel.data import AddressSpace, TemporaryVariable
from loopy.symbolic import WalkMapper, get_dependencies
from pymbolic.mapper.substitutor import substitute

from loopyperf.counts.arithmetic import ExpressionTypes, Link
from loopyperf.counts.conditions import Conditions
from loopyperf.counts.item import Item, MemorySpace
from loopyperf.counts.memory_accesses import Reference, element_type, numbers_of_vector, vector_axis, vector_bits
from loopyperf.device.parts import Pipeline
from loopyperf.idg.program import Element, Opcode
from loopyperf.idg.warps.warp_classes import Statement
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import Box, Points

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


@dataclass(frozen=True, slots=True, eq=False)
class CellAccess:
    """A read or a write of one cell in each execution of an instruction."""

    node: int
    """the instruction, by its place in the program"""
    operands: tuple[int | None, ...]
    """of a read: which of the instruction's operands it is; None where it is none"""
    array: str
    is_write: bool
    place: tuple[int, ...]
    """of the statement: among what stands beside each loop around it, and beside it in the innermost one"""
    variables: tuple[str, ...]
    """of the loops around it, the outermost first"""
    values: Points
    """of the variables"""
    index: tuple[Any, ...] | None
    """affine expressions of the variables, in isl's sense; None for the array as a whole"""
    numbers: Points
    """of the passes of the loops"""
    cells: tuple[Affine[str], ...] | None
    """the index as functions of the numbers of the passes, each variable called as its loop; None where it is none"""
    is_certain: bool = True
    """otherwise it may not happen: a condition on data"""
    is_part: bool = False
    """of a write: the instruction computes it alone, without the others that compute parts of the same value"""

    @property
    def iterations(self) -> tuple[Box, ...] | None:
        """Return the numbers of the passes of the loops as disjoint boxes; None where they are not a few."""
        return self.numbers.boxes


# {{{ which element of a private array an operand is, or a result becomes


InPasses = Callable[[Any], Any]
"""says an expression of loop variables and sizes in the passes of loops"""


class PrivateElements:
    """The elements of private arrays in one launch."""

    def __init__(self, kernel: Kernel, definitions: Iterable[Definition]) -> None:
        """Take the *definitions* of private variables."""
        self._kernel = kernel
        self._defined: dict[int, list[Definition]] = {}
        for each in definitions:
            self._defined.setdefault(each.node, []).append(each)

    def defined(self, node: int, in_passes: InPasses) -> tuple[Element, ...]:
        """Return the elements that the result of an instruction becomes."""
        cells = [Read(each.variable, each.index) for each in self._defined.get(node, ())]
        return tuple(dict.fromkeys(self._elements(cells, in_passes)))

    def read(self, value: Value, in_passes: InPasses) -> Element | None:
        """Return the element that an operand is; None where it is none."""
        return next(self._elements(value.reads, in_passes), None)

    def _elements(self, cells: Sequence[Read], in_passes: InPasses) -> Iterator[Element]:
        """Yield the element of each of the *cells* that are no scalars; the members of a vector are one element."""
        for cell in cells:
            found = self._element(cell.variable, cell.index, in_passes)
            if found is not None:
                is_whole = found.member is not None and len(cells) > 1
                yield replace(found, member=None) if is_whole else found

    def _element(self, name: str, index: Sequence[Any], in_passes: InPasses) -> Element | None:
        """Return the element *index* of *name*, or which member of which; None for a scalar, and for one vector."""
        variable = self._kernel.loopy_kernel.temporary_variables.get(name)
        if variable is None or variable.address_space != AddressSpace.PRIVATE or not index:
            return None
        strides, length, axis = _strides(variable), _length(variable), vector_axis(variable)
        if strides is None or length is None or (axis is not None and len(index) == 1):
            return None
        bits = member_bits = 8 * element_type(variable).itemsize
        member = None
        if axis is not None:
            bits, members = vector_bits(self._kernel, variable, axis), numbers_of_vector(self._kernel, variable, axis)
            strides = tuple(stride // members for stride in strides)
            member = in_passes(_written(self._kernel, index[axis]))
        written = [_written(self._kernel, each) for each in index]
        address = None
        if all(self._kernel.is_known(each) for place, each in enumerate(written) if place != axis):
            elements = sum((stride * each for stride, each in zip(strides, written, strict=True)), 0)
            address = Affine.around(in_passes(elements))
        return Element(name, address, bits, length, member, member_bits if axis is not None else 0)


def _written(kernel: Kernel, index: Any) -> Any:
    """Return *index* without temporaries, and without axes of the hardware along which there is one work-item or group.

    In the code, these are their only value.
    """
    written = with_values(index, kernel.known_temporaries)
    values: dict[str, int] = {}
    for name in get_dependencies(written) & kernel.loopy_kernel.all_inames():
        if kernel.hardware_axes.get(name) is not None and (only := kernel.values(name)) is not None and len(only) == 1:
            values[name] = only.start
    return substitute(written, values) if values else written


def _strides(variable: TemporaryVariable) -> tuple[int, ...] | None:
    """Return the distance in numbers between neighbours along each axis; None where that is no number.

    Along the axis of a vector's members it is 0.
    """
    tags: Sequence[Any] = variable.dim_tags or ()
    known = [tag for tag in tags if isinstance(tag, (FixedStrideArrayDimTag, VectorArrayDimTag))]
    strides: list[Any] = [tag.stride if isinstance(tag, FixedStrideArrayDimTag) else 0 for tag in known]
    return _integers(strides) if len(strides) == len(tags) else None


def _length(variable: TemporaryVariable) -> int | None:
    """Return how many elements *variable* has, a vector being one; None where the compiler is not told."""
    shape: Any = variable.shape
    lengths = _integers(cast("tuple[Any, ...]", shape)) if isinstance(shape, tuple) else None
    axis = vector_axis(variable)
    return None if lengths is None else prod(each for place, each in enumerate(lengths) if place != axis)


def _integers(values: Iterable[Any]) -> tuple[int, ...] | None:
    """Return *values* if all are integers."""
    found = tuple(values)
    return tuple(map(int, found)) if all(isinstance(each, (int, np.integer)) for each in found) else None


# }}}
