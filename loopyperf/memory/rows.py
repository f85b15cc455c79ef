"""Indices that data or conditions tell: rows that are as long as data says, and cases as at the border of a stencil.

Sparse matrices are kept row after row; where each begins is loaded. In ``values[j]`` with ``row_start[i] <= j <
row_start[i+1]``, or in ``values[row_start[i] + j]`` with ``j < length``, each lane is in a row of its own. A row is
taken to end where the next one begins, and to be as long as is typical: row ``i`` begins at ``i`` times that. Rows
whose beginnings are in no list, or that are listed in an order that data tells, are taken as lying apart.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.diagnostic import UnableToDetermineAccessRangeError
from loopy.symbolic import (
    DependencyMapper,
    IdentityMapper,
    SubstitutionMapper,
    WalkMapper,
    get_access_map,
    get_dependencies,
)

from loopyperf.counts.conditions import ALWAYS, SEVERAL, Condition, Conditions
from loopyperf.counts.loops import LoopPoints
from loopyperf.counts.memory_accesses import element_strides, reference
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.memory.index_values import data_of, inames_of_data

APART = 2**40
"""bytes between rows, or lanes, that share nothing; a multiple of a line, so that one element more makes rows begin
anywhere in it"""
Starts = Mapping[str, frozenset[str]]
"""loop -> the data that it starts from"""


@dataclass(frozen=True, slots=True)
class Visit:
    """Where an access happens."""

    kernel: Kernel
    sizes: Mapping[str, int]
    loops: LoopPoints
    """those around it"""
    points: isl.Set
    """over the inames of these, at the sizes: where it is executed"""


@dataclass(frozen=True, slots=True)
class RowIndex:
    """An index as a place in a row."""

    within: Any
    """elements from the beginning of the row, an expression of inames"""
    number: Any | None
    """of the row, an expression of inames; None where rows lie apart"""
    inames: frozenset[str]
    """along which rows differ"""
    length: int
    """elements of a row"""

    @property
    def index(self) -> Any:
        """Return the index where rows lie one after the other."""
        assert self.number is not None, "rows that lie apart begin anywhere"
        return self.length * self.number + self.within


def is_data(visit: Visit, index: Any) -> bool:
    """Return whether data tells *index*."""
    return bool(data_of(visit.kernel, index, visit.loops.starts))


def row_index(visit: Visit, index: Any) -> RowIndex | None:
    """Return *index* as a place in a row; None where it goes through no row that is as long as data says."""
    kernel, loops = visit.kernel, visit.loops
    if not loops.by_data & get_dependencies(index):
        return None
    written = with_values(index, kernel.integer_temporaries)
    within = _without_data(kernel, written)
    rows = inames_of_data(kernel, data_of(kernel, written, loops.starts))
    passed = get_dependencies(within) & kernel.loopy_kernel.all_inames()
    length = _length(visit, within)
    if length is None or not passed & loops.by_data or passed & rows:
        return None
    return RowIndex(within, _number(visit, written), rows, length)


def in_rows(visit: Visit, index: Any, distance: int) -> list[tuple[Any, int]] | None:
    """Return *index*, whose neighbours are *distance* bytes apart, as indices that each go through rows, or in one.

    An index that goes through no rows stays as it is. None where all that is known of it is that it starts from data.
    """
    row = row_index(visit, index) if is_data(visit, index) else None
    if row is None:
        starts_from_data = not visit.loops.starts.keys().isdisjoint(get_dependencies(index))
        return None if starts_from_data else [(index, distance)]
    if row.number is not None:
        return [(row.number, row.length * distance), (row.within, distance)]
    return [*((prim.Variable(iname), APART + distance) for iname in sorted(row.inames)), (row.within, distance)]


def _without_data(kernel: Kernel, written: Any) -> Any:
    """Return an index without what is looked up or computed in it."""
    variables = kernel.loopy_kernel.temporary_variables

    def nothing(leaf: Any) -> int | None:
        is_known = isinstance(leaf, prim.Variable) and leaf.name not in variables
        return None if is_known else 0

    return SubstitutionMapper(nothing)(written)


def _length(visit: Visit, within: Any) -> int | None:
    """Return how many elements lie between the first one that *within* reaches and the one after the last."""
    reached = _reached(visit, within)
    if reached is None or reached.is_empty() or not reached.is_bounded():
        return None
    least, most, step = reached.dim_min_val(0), reached.dim_max_val(0), reached.get_stride(0)
    return most.to_python() - least.to_python() + max(1, step.to_python())


def _reached(visit: Visit, index: Any) -> isl.Set | None:
    """Return the values of *index*; None where it is no affine function of inames."""

    def size(leaf: Any) -> int | None:
        return visit.sizes.get(leaf.name) if isinstance(leaf, prim.Variable) else None

    try:
        return get_access_map(visit.points, (SubstitutionMapper(size)(index),)).range()
    except UnableToDetermineAccessRangeError:
        return None


# {{{ the list of rows


def _number(visit: Visit, written: Any) -> Any | None:
    """Return the place at which the beginning of the row is listed, in elements of that list; None if there is none."""
    places = {_place(visit, each) for each in _looked_up(visit.kernel, written, visit.loops.starts)}
    return places.pop() if len(places) == 1 else None


def _looked_up(kernel: Kernel, written: Any, starts: Starts) -> Iterator[Any]:
    """Yield what data is looked up in an index, and the names of that which is computed otherwise."""
    for part in DependencyMapper(include_subscripts=True, include_calls=True)(written):
        if not isinstance(part, prim.Variable) or part.name in kernel.loopy_kernel.temporary_variables:
            yield part
        for name in sorted(starts.get(part.name, ())) if isinstance(part, prim.Variable) else ():
            value = kernel.integer_temporaries.get(name, prim.Variable(name))
            yield from _looked_up(kernel, value, {})


def _place(visit: Visit, lookup: Any) -> Any | None:
    """Return where in an argument that nothing is written to *lookup* is; None where it is no affine function."""
    kernel = visit.kernel
    if not isinstance(lookup, prim.Subscript) or not isinstance(lookup.aggregate, prim.Variable):
        return None
    name = lookup.aggregate.name
    if name not in kernel.loopy_kernel.arg_dict or kernel.loopy_kernel.writer_map().get(name):
        return None
    found = reference(kernel, name, lookup.index_tuple, "load")
    assert found is not None, f"an argument with elements lives in memory: {lookup}"
    strides = element_strides(kernel, found, visit.sizes)
    place: Any = sum(index * stride for index, stride in zip(found.index, strides, strict=True))
    return None if _reached(visit, place) is None else place


# }}}


# {{{ an index that a condition chooses, as at the border of a stencil, taken apart
#
# One index for each branch.


Indices = tuple[Any, ...]


def branches(indices: Indices, conditions: Conditions = ALWAYS) -> Iterator[tuple[Indices, Conditions]]:
    """Yield *indices* without choices in them, and the conditions under which they are those, beside *conditions*.

    Indices with as many conditions as have more than :data:`SEVERAL` branches are not taken apart any further.
    """
    finder = _ConditionFinder()
    for index in indices:
        finder(index)
    if not finder.found or 2 ** len(conditions) >= SEVERAL:
        yield indices, conditions
        return
    for holds in (True, False):
        chosen = Condition(finder.found[0], holds)
        branch = _Branch(chosen)
        yield from branches(tuple(branch(index) for index in indices), conditions | {chosen})


class _ConditionFinder(WalkMapper[[]]):
    """Finds the conditions of choices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def map_if(self, expr: prim.If) -> None:
        self.found.append(expr.condition)


class _Branch(IdentityMapper[[]]):
    """Replaces the choices that a condition makes by what they are where it holds, or where it does not."""

    def __init__(self, chosen: Condition) -> None:
        super().__init__()
        self.chosen = chosen

    def map_if(self, expr: prim.If) -> Any:
        if expr.condition != self.chosen.expression:
            return super().map_if(expr)
        return self.rec(expr.then if self.chosen.holds else expr.else_)


# }}}
