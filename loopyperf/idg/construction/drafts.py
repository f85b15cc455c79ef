"""Draft instructions: operation, operands and conditions, independent of the warp."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import numpy as np
from loopy.kernel.array import FixedStrideArrayDimTag, VectorArrayDimTag
from loopy.kernel.data import AddressSpace, TemporaryVariable
from loopy.symbolic import get_dependencies
from pymbolic.mapper.substitutor import substitute

from loopyperf.counts.memory_accesses import Reference, element_type, numbers_of_vector, vector_axis, vector_bits
from loopyperf.counts.steps import Definition, Read, Step, Value
from loopyperf.idg.program import Element
from loopyperf.idg.warps.warp_classes import Nest, Statement
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import Box, Points


@dataclass(frozen=True, slots=True)
class ConditionEvaluation:
    """Where the generated code evaluates a condition: for several statements together, or within one."""

    loops: tuple[Nest, ...]
    """enclosing loops, outermost first"""
    version: int
    """last statement before it that writes what the condition reads; -1 if none"""


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft instruction: a step of the program, with what its statement determines."""

    step: Step
    """its operation, operands and conditions; operands are numbered like drafts"""
    statement: Statement
    text: str
    """source text"""
    reference: Reference | None
    """the accessed array element, with known temporaries replaced by their values"""
    expression: Any
    """its result, if loop variables and sizes alone determine it"""
    controls: tuple[Value, ...]
    """predicates under which it executes"""
    evaluations: Mapping[Any, ConditionEvaluation]
    """expression of a condition -> its evaluation"""


@dataclass(frozen=True, slots=True, eq=False)
class CellAccess:
    """A read or write of one cell by each execution of an instruction."""

    node: int
    """position of the instruction in the program"""
    operands: tuple[int | None, ...]
    """reads only: indices of the instruction's operands that it provides; None for a dependence without operand"""
    array: str
    is_write: bool
    place: tuple[int, ...]
    """position of the statement: the index of each enclosing loop among its siblings, then its own index"""
    variables: tuple[str, ...]
    """variables of the enclosing loops, outermost first"""
    values: Points
    """values of the variables"""
    index: tuple[Any, ...] | None
    """quasi-affine expressions of the variables; None for the array as a whole"""
    numbers: Points
    """iteration numbers of the loops"""
    cells: tuple[Affine[str], ...] | None
    """the index in terms of iteration numbers, each variable named after its loop; None if it is not affine"""
    is_certain: bool = True
    """False if a condition on data decides whether the access happens"""
    is_part: bool = False
    """writes only: whether the value is the result of the instruction alone, without the other parts"""

    @property
    def iterations(self) -> tuple[Box, ...] | None:
        """Return the iteration numbers as disjoint boxes; None if there are too many boxes."""
        return self.numbers.boxes


# {{{ private-array elements of operands and results


InIterations = Callable[[Any], Any]
"""rewrites an expression of loop variables and sizes in terms of loop iterations"""


class PrivateElements:
    """The private-array elements that the instructions of one launch access."""

    def __init__(self, kernel: Kernel, definitions: Iterable[Definition]) -> None:
        self._kernel = kernel
        self._defined: dict[int, list[Definition]] = {}
        for each in definitions:
            self._defined.setdefault(each.node, []).append(each)

    def defined(self, node: int, in_iterations: InIterations) -> tuple[Element, ...]:
        """Return the elements to which the result of instruction *node* is assigned."""
        cells = [Read(each.variable, each.index) for each in self._defined.get(node, ())]
        return tuple(dict.fromkeys(self._elements(cells, in_iterations)))

    def read(self, value: Value, in_iterations: InIterations) -> Element | None:
        """Return the element that operand *value* reads, if any."""
        return next(self._elements(value.reads, in_iterations), None)

    def _elements(self, cells: Sequence[Read], in_iterations: InIterations) -> Iterator[Element]:
        """Yield the element of each non-scalar cell; the members of a vector are one element."""
        for cell in cells:
            found = self._element(cell.variable, cell.index, in_iterations)
            if found is not None:
                is_whole = found.member is not None and len(cells) > 1
                yield replace(found, member=None) if is_whole else found

    def _element(self, name: str, index: Sequence[Any], in_iterations: InIterations) -> Element | None:
        """Return element *index* of array *name*, with its vector member if any; None for a scalar or single vector."""
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
            member = in_iterations(_written(self._kernel, index[axis]))
        written = [_written(self._kernel, each) for each in index]
        address = None
        if all(self._kernel.is_known(each) for place, each in enumerate(written) if place != axis):
            elements = sum((stride * each for stride, each in zip(strides, written, strict=True)), 0)
            address = Affine.around(in_iterations(elements))
        return Element(name, address, bits, length, member, member_bits if axis is not None else 0)


def _written(kernel: Kernel, index: Any) -> Any:
    """Return *index* with temporaries, and hardware axes of extent 1, replaced by their values, as in the code."""
    written = with_values(index, kernel.known_temporaries)
    values: dict[str, int] = {}
    for name in get_dependencies(written) & kernel.loopy_kernel.all_inames():
        if kernel.hardware_axes.get(name) is not None and (only := kernel.values(name)) is not None and len(only) == 1:
            values[name] = only.start
    return substitute(written, values) if values else written


def _strides(variable: TemporaryVariable) -> tuple[int, ...] | None:
    """Return the stride of each axis, in scalars; None if one is not a number.

    The stride of a vector axis is 0.
    """
    tags: Sequence[Any] = variable.dim_tags or ()
    known = [tag for tag in tags if isinstance(tag, (FixedStrideArrayDimTag, VectorArrayDimTag))]
    strides: list[Any] = [tag.stride if isinstance(tag, FixedStrideArrayDimTag) else 0 for tag in known]
    return _integers(strides) if len(strides) == len(tags) else None


def _length(variable: TemporaryVariable) -> int | None:
    """Return the number of elements of *variable*, where a vector is one; None if unknown at compile time."""
    shape: Any = variable.shape
    lengths = _integers(cast("tuple[Any, ...]", shape)) if isinstance(shape, tuple) else None
    axis = vector_axis(variable)
    return None if lengths is None else prod(each for place, each in enumerate(lengths) if place != axis)


def _integers(values: Iterable[Any]) -> tuple[int, ...] | None:
    """Return *values* as integers; None if one is not an integer."""
    found = tuple(values)
    return tuple(map(int, found)) if all(isinstance(each, (int, np.integer)) for each in found) else None


# }}}
