"""Indices determined by data or conditions: rows of loaded length, and cases as at the border of a stencil.

Sparse matrices are stored row after row; the start of each row is loaded. In ``values[j]`` with ``row_start[i] <= j <
row_start[i+1]``, or in ``values[row_start[i] + j]`` with ``j < length``, each lane is in a row of its own. A row is
assumed to end where the next one starts and to have the typical length, so row ``i`` starts at ``i`` times that length.
Rows are assumed to be apart if their starts are not loaded from an array, or at indices that depend on data.
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

from loopyperf.counts.conditions import ALWAYS, Condition, Conditions
from loopyperf.counts.loops import LoopPoints
from loopyperf.counts.memory_accesses import element_strides, reference
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.memory.index_values import data_of, inames_of_data
from loopyperf.polyhedral.isl_values import as_int

APART = 2**40
"""bytes between rows or lanes that share nothing; a multiple of a line, so that rows APART plus an element start at
any offset in it"""
Starts = Mapping[str, frozenset[str]]
"""loop -> data that determines its first value"""


@dataclass(frozen=True, slots=True)
class Visit:
    """The context in which an access executes."""

    kernel: Kernel
    sizes: Mapping[str, int]
    loops: LoopPoints
    """loops around the access"""
    points: isl.Set
    """points of these loops at the sizes at which it executes"""


@dataclass(frozen=True, slots=True)
class RowIndex:
    """An index as a position in a row."""

    within: Any
    """elements from the start of the row, as an expression of inames"""
    number: Any | None
    """row number as an expression of inames; None if rows are apart"""
    inames: frozenset[str]
    """inames along which rows differ"""
    length: int
    """elements of a row"""

    @property
    def index(self) -> Any:
        """Return the index if rows are adjacent."""
        assert self.number is not None, "rows that are apart have no common index"
        return self.length * self.number + self.within


def is_data(visit: Visit, index: Any) -> bool:
    """Return whether *index* depends on data."""
    return bool(data_of(visit.kernel, index, visit.loops.starts))


def row_index(visit: Visit, index: Any) -> RowIndex | None:
    """Return *index* as a position in a row; None if it does not go through a row of loaded length."""
    kernel, loops = visit.kernel, visit.loops
    if not loops.by_data & get_dependencies(index):
        return None
    written = with_values(index, kernel.integer_temporaries)
    within = with_data(kernel, written)
    rows = inames_of_data(kernel, data_of(kernel, written, loops.starts))
    passed = get_dependencies(within) & kernel.loopy_kernel.all_inames()
    length = _length(visit, within)
    if length is None or not passed & loops.by_data or passed & rows:
        return None
    return RowIndex(within, _number(visit, written), rows, length)


def in_rows(visit: Visit, index: Any, distance: int) -> list[tuple[Any, int]] | None:
    """Return *index* as a list of (index, distance in bytes) pairs: row number and position in the row.

    *distance* is the distance between neighbors along *index*. An index without rows is returned unchanged. None if the
    index is only known to start from data.
    """
    row = row_index(visit, index) if is_data(visit, index) else None
    if row is None:
        starts_from_data = not visit.loops.starts.keys().isdisjoint(get_dependencies(with_data(visit.kernel, index)))
        return None if starts_from_data else [(index, distance)]
    if row.number is not None:
        return [(row.number, row.length * distance), (row.within, distance)]
    return [*((prim.Variable(iname), APART + distance) for iname in sorted(row.inames)), (row.within, distance)]


def with_data(kernel: Kernel, written: Any, value: int = 0) -> Any:
    """Return an index with loaded and computed values replaced by *value*."""
    variables = kernel.loopy_kernel.temporary_variables

    def data(leaf: Any) -> int | None:
        is_known = isinstance(leaf, prim.Variable) and leaf.name not in variables
        return None if is_known else value

    return SubstitutionMapper(data)(written)


def _length(visit: Visit, within: Any) -> int | None:
    """Return the number of elements from the first value of *within* up to the end of the last."""
    reached = _reached(visit, within)
    if reached is None or reached.is_empty() or not reached.is_bounded():
        return None
    least, most, step = reached.dim_min_val(0), reached.dim_max_val(0), reached.get_stride(0)
    return as_int(most) - as_int(least) + max(1, as_int(step))


def _reached(visit: Visit, index: Any) -> isl.Set | None:
    """Return the values of *index*; None if it is not affine in inames."""

    def size(leaf: Any) -> int | None:
        return visit.sizes.get(leaf.name) if isinstance(leaf, prim.Variable) else None

    try:
        return get_access_map(visit.points, (SubstitutionMapper(size)(index),)).range()
    except UnableToDetermineAccessRangeError:
        return None


# {{{ row numbers


def _number(visit: Visit, written: Any) -> Any | None:
    """Return the position, in elements, from which the start of the row is loaded; None if it is not unique."""
    places = {_place(visit, each) for each in _looked_up(visit.kernel, written, visit.loops.starts)}
    return places.pop() if len(places) == 1 else None


def _looked_up(kernel: Kernel, written: Any, starts: Starts) -> Iterator[Any]:
    """Yield the loaded values in an index, and the names of values that are computed otherwise."""
    for part in DependencyMapper(include_subscripts=True, include_calls=True)(written):
        if not isinstance(part, prim.Variable) or part.name in kernel.loopy_kernel.temporary_variables:
            yield part
        for name in sorted(starts.get(part.name, ())) if isinstance(part, prim.Variable) else ():
            value = kernel.integer_temporaries.get(name, prim.Variable(name))
            yield from _looked_up(kernel, value, {})


def _place(visit: Visit, lookup: Any) -> Any | None:
    """Return the position of *lookup* in a read-only argument; None if it is not affine in inames."""
    kernel = visit.kernel
    if not isinstance(lookup, prim.Subscript) or not isinstance(lookup.aggregate, prim.Variable):
        return None
    name = lookup.aggregate.name
    if name not in kernel.loopy_kernel.arg_dict or kernel.loopy_kernel.writer_map().get(name):
        return None
    found = reference(kernel, name, lookup.index_tuple, "load")
    assert found is not None, f"an argument with elements is in memory: {lookup}"
    strides = element_strides(kernel, found, visit.sizes)
    place: Any = sum(index * stride for index, stride in zip(found.index, strides, strict=True))
    return None if _reached(visit, place) is None else place


# }}}


# {{{ indices that depend on conditions, as at the border of a stencil
#
# They are split into one index for each branch.


Indices = tuple[Any, ...]
MOST_BRANCHES = 16
"""branches beyond which indices stay whole"""


def branches(indices: Indices, conditions: Conditions = ALWAYS) -> Iterator[tuple[Indices, Conditions]]:
    """Yield *indices* for each branch of the conditions in them, with the conditions of the branch and *conditions*.

    Indices that already have conditions for more than :data:`MOST_BRANCHES` branches are not split further.
    """
    finder = _ConditionFinder()
    for index in indices:
        finder(index)
    if not finder.found or 2 ** len(conditions) >= MOST_BRANCHES:
        yield indices, conditions
        return
    for holds in (True, False):
        chosen = Condition(finder.found[0], holds)
        branch = _Branch(chosen)
        yield from branches(tuple(branch(index) for index in indices), conditions | {chosen})


class _ConditionFinder(WalkMapper[[]]):
    """Finds the conditions of if expressions."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def map_if(self, expr: prim.If) -> None:
        self.found.append(expr.condition)


class _Branch(IdentityMapper[[]]):
    """Replaces the if expressions of a condition by the branch for which it holds, or does not hold."""

    def __init__(self, chosen: Condition) -> None:
        super().__init__()
        self.chosen = chosen

    def map_if(self, expr: prim.If) -> Any:
        if expr.condition != self.chosen.expression:
            return super().map_if(expr)
        return self.rec(expr.then if self.chosen.holds else expr.else_)


# }}}
