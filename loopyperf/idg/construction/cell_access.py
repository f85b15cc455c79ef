"""A read or a write of one cell, and which element of a private array an operand is or a result becomes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import numpy as np
from loopy.kernel.array import FixedStrideArrayDimTag, VectorArrayDimTag
from loopy.kernel.data import AddressSpace, TemporaryVariable
from loopy.symbolic import get_dependencies
from pymbolic.mapper.substitutor import substitute

from loopyperf.counts.memory import element_type, numbers_of_vector, vector_axis, vector_bits
from loopyperf.idg.construction.drafts import Definition, Read, Value
from loopyperf.idg.program import Element
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import substituted
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import Box, Points


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
    def passes(self) -> tuple[Box, ...] | None:
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
    written = substituted(index, kernel.known_temporaries)
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
