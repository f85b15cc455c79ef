"""Indices determined by data or conditions: rows of loaded length, loaded values, and the border of a stencil.

Sparse matrices are stored row after row; the start of each row is loaded. In ``values[j]`` with ``row_start[i] <= j <
row_start[i+1]``, or in ``values[row_start[i] + j]`` with ``j < length``, each lane is in a row of its own. A row is
assumed to end where the next one starts and to have the typical length, so row ``i`` starts at ``i`` times that length.
Rows are assumed to be apart if their starts are not loaded from an array, or at indices that depend on data.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from loopyperf.counts.lanes import index_values
from loopyperf.counts.loops import LoopPoints
from loopyperf.counts.memory_accesses import element_strides, reference, scaled_by_data, symbolic_strides
from loopyperf.counts.sizes import CONSECUTIVE, CONSTANT, PERMUTATION, window_of
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.memory.index_values import data_of, inames_of_data
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.sets import as_int

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
    # The start of the row is loaded from this position, unless there are several.
    starts = {_place(visit, lookup) for lookup in _looked_up(kernel, written, loops.starts)}
    return RowIndex(within, starts.pop() if len(starts) == 1 else None, rows, length)


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


SET = isl.dim_type.set


# {{{ indices that contain loaded values, as ``x[zones[i] + 1]``: a base, which is loaded, and a known offset
#
# Accesses with the same base are at known distances from each other, whatever its value. ``typical`` may say how bases
# follow each other: ``"consecutive"`` elements of the index array contain consecutive numbers, a stride class is the
# distance between the addresses of neighboring lanes, and ``"constant"`` bases are equal. These make the index a known
# function of the loops. Other bases are apart from each other, or fill a window of the array at random.


@dataclass(frozen=True, slots=True)
class Scattered:
    """Bases that are anywhere in a window."""

    axis: int
    """place, among the indices of a cell, of the index that the base is added to"""
    step: int
    """growth of this index if the base grows by one"""
    window: int | None
    """number of values of a base; None if each of as many values as there are bases in the launch occurs once"""

    def untouched(self, share: float, draws: int, everywhere: int) -> float:
        """Return the probability that *draws* bases, of *everywhere* in the launch, miss a block of memory.

        *share* is the probability that a base touches the block.
        """
        if self.window is not None:
            return (1 - min(share, 1)) ** draws
        return max(0.0, 1 - draws / everywhere) ** (share * everywhere)


@dataclass(frozen=True, slots=True)
class Located:
    """The cells of an access as indices with distances."""

    pairs: tuple[tuple[Any, int], ...]
    """an expression of loop variables, and the bytes between neighbors along it"""
    base: str = ""
    """loaded values, apart from each other, from which the cells start; empty if there are none"""
    scattered: Scattered | None = None
    """the window of these values; None if it is unknown"""


def located(
    visit: Visit, indices: Sequence[Any], axes: Sequence[int], width: int, pattern: str | None
) -> Located | None:
    """Return the cells of an access to elements of *width* bytes at *indices*; None if data determines their distances.

    *axes* are the bytes between neighbors along each index. *pattern* is the typical pattern of loaded values.
    """
    pairs: list[tuple[Any, int]] = []
    bases: list[str] = []
    scattered: Scattered | None = None
    for index, distance in zip(indices, axes, strict=True):
        in_row = in_rows(visit, index, distance)
        if in_row is None:
            return None
        if len(in_row) > 1 or not is_data(visit, index) or not (leaves := loaded_values(visit.kernel, index)):
            pairs += in_row
            continue
        known = followed(visit.kernel, visit.sizes, index, distance, width, pattern)
        if known is not None:
            place, apart = known
            pairs += [(prim.Variable(iname), APART + distance) for iname in apart]
            pairs.append((place, distance))
            continue
        if scaled_by_data(visit.kernel, (index,)):
            return None
        written = with_values(index, visit.kernel.integer_temporaries)
        names = data_of(visit.kernel, written, visit.loops.starts)
        differ = inames_of_data(visit.kernel, names) & {*visit.points.get_var_names_not_none(SET)}
        step = _growth(visit, written)
        pairs += [(prim.Variable(iname), APART + (step * distance or distance)) for iname in sorted(differ)]
        bases.append(f"{step}*({', '.join(sorted(map(str, leaves)))})")
        if pattern is not None and (pattern == PERMUTATION or window_of(pattern) is not None):
            scattered = Scattered(len(pairs), step, window_of(pattern))
        pairs.append((with_data(visit.kernel, written), distance))
    return Located(tuple(pairs), "; ".join(bases), scattered if len(bases) == 1 else None)


def loaded_values(kernel: Kernel, index: Any) -> frozenset[Any]:
    """Return the loaded and computed values in *index*, except those that only decide between branches."""
    finder = _Values(include_subscripts=True, include_calls=True)
    leaves = finder(with_values(index, kernel.integer_temporaries))
    computed = kernel.loopy_kernel.temporary_variables
    return frozenset(leaf for leaf in leaves if not isinstance(leaf, prim.Variable) or leaf.name in computed)


class _Values(DependencyMapper[[]]):
    """Finds the variables, loaded values and calls outside of conditions."""

    def map_if(self, expr: prim.If) -> Any:
        return self.combine([self.rec(expr.then), self.rec(expr.else_)])


def _growth(visit: Visit, written: Any) -> int:
    """Return the growth of an index if the loaded value in it grows by one."""
    known = {**dict.fromkeys(visit.points.get_var_names_not_none(SET), 0), **visit.sizes}
    ends = (index_values(with_data(visit.kernel, written, value), known) for value in (0, 1))
    return -int(next(ends)) + int(next(ends))


# {{{ loaded values that are a known function of the loops


def followed(
    kernel: Kernel, sizes: Mapping[str, int], index: Any, distance: int, width: int, pattern: str | None
) -> tuple[Any, tuple[str, ...]] | None:
    """Return *index* with loaded values replaced by those of *pattern*; None if it does not determine them.

    *distance* is the bytes between neighbors along the index, *width* the bytes of an element. The second value is the
    inames along which values are apart: with a stride class, only the distance of lanes is known.
    """
    written = with_values(index, kernel.integer_temporaries)
    if pattern == CONSTANT:
        return with_data(kernel, written), ()
    if pattern is None or pattern == PERMUTATION or window_of(pattern) is not None or pattern.endswith(">4"):
        return None
    try:
        placed = _Places(kernel)(written)
    except _NotLoadedError:
        return None
    if pattern == CONSECUTIVE:
        return with_values(placed, sizes), ()
    offset = with_data(kernel, written)
    base = Affine.of(placed - offset, sizes)
    lanes = frozenset[str]() if base is None else kernel.lane_inames(base.variables)
    step, rest = divmod(int(pattern.split("/")[-1]) * width, abs(distance))
    if base is None or len(lanes) != 1 or rest:
        return None
    between = base.factor(*lanes)
    near = {name for name, factor in base.terms if factor % between == 0} if step else lanes
    within = Affine.total({name: factor // between * step for name, factor in base.terms if name in near})
    return within.expression + offset, tuple(name for name, _ in base.terms if name not in near)


class _NotLoadedError(UncountableError):
    """A value that is not an element of an argument."""


class _Places(IdentityMapper[[]]):
    """Replaces loaded values by the places of their elements in their arrays."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def map_variable(self, expr: prim.Variable) -> Any:
        if not self.kernel.is_known(expr):
            raise _NotLoadedError(f"{expr} is not loaded")
        return expr

    def map_subscript(self, expr: prim.Subscript) -> Any:
        name = getattr(expr.aggregate, "name", "")
        if name not in self.kernel.loopy_kernel.arg_dict:
            raise _NotLoadedError(f"{expr} is not an element of an argument")
        found = reference(self.kernel, name, tuple(map(self.rec, expr.index_tuple)), "load")
        assert found is not None, f"an argument with elements is in memory: {expr}"
        strides = symbolic_strides(self.kernel, found, {})
        return sum(index * stride for index, stride in zip(found.index, strides, strict=True))

    def map_call(self, expr: prim.Call) -> Any:
        raise _NotLoadedError(f"{expr} is not loaded")


# }}}


# }}}
