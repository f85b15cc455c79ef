"""What a launch touches of each array of global memory, or a part of the launch: some groups, some passes of its loops.

Cells of arrays are counted in boxes (:mod:`loopyperf.idg.access.cells`), so that it takes a millisecond whatever the
size. Rows that are as long as data says lie one after the other, or apart (see
:mod:`loopyperf.idg.access.rows`). Where data tells the cells in another way, all accesses are taken to touch others. Of
either, no more is touched than the whole array.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import gcd, prod
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.diagnostic import UnableToDetermineAccessRangeError
from loopy.symbolic import SubstitutionMapper, get_access_map

from loopyperf.assumptions import NAME, SUBJECTS, Assumed, Assumption
from loopyperf.counts.execution import Site
from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory import Reference, element_strides, in_elements, known_shape, value_at
from loopyperf.counts.predicates.conditions import ALWAYS, Conditions
from loopyperf.counts.walk import on_collisions
from loopyperf.idg.access.blocks import Touched
from loopyperf.idg.access.cells import touched_by, values_along
from loopyperf.idg.access.index_branches import Indices, branches
from loopyperf.idg.access.rows import APART, Visit, in_rows, is_data
from loopyperf.idg.access.sectors import LINE, SECTOR
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.launch_program import LaunchProgram
from loopyperf.idg.warps.executions import LaunchExecutions
from loopyperf.idg.warps.nest import Nest, Statement
from loopyperf.idg.warps.warp import first_value
from loopyperf.polyhedral.points import at_sizes
from loopyperf.polyhedral.quasipolynomial import number_of_points

SET = isl.dim_type.set
FIRST = "first load"
"""the loads of what nothing in the launch has stored before, of arrays that are both loaded and stored"""
PAIRS = 64
"""of loads and stores of an array that are compared, which takes a millisecond each"""
Window = Mapping[str, range]
"""iname -> the values that are looked at; all of those that are not named"""
Part = Nest | Sequence[Nest | Statement]
"""what of the program is looked at"""


@dataclass(frozen=True)
class _Access:
    """A reference of the launch, and where it goes."""

    reference: Reference
    names: tuple[str, ...]
    """the inames that it is executed over"""
    points: isl.Set
    """their values"""
    cells: isl.Map | None
    """from these to the indices; None where data tells them"""
    axes: tuple[int, ...]
    """bytes between neighbours along each index"""
    by_data: bool
    """data tells the cells, or the rows that they are in"""
    makers: Mapping[str, tuple[Statement, ...]]
    """``"load"``, ``"store"`` or :data:`FIRST` -> the statements that do so"""
    inside: Mapping[str, frozenset[int]]
    """the same -> the identities of these, and of the loops around them"""

    def is_in(self, part: Collection[int], kind: str | None = None) -> bool:
        """Return whether a statement or loop of *part* makes it, as what *kind* says, or as a load or store."""
        kinds = ("load", "store") if kind is None else (kind,)
        return any(each in self.inside and not self.inside[each].isdisjoint(part) for each in kinds)


class WorkingSets:
    """The parts of global arrays that parts of a launch touch."""

    def __init__(self, program: LaunchProgram, executions: LaunchExecutions) -> None:
        """Look at the launch of *program* at the sizes of *executions*."""
        self.program, self.sizes = program, executions.sizes
        self._accesses: dict[tuple[str, tuple[int, ...]], list[_Access]] = {}
        self._known: dict[Any, dict[str, Touched]] = {}
        for access in self._distinct():
            self._accesses.setdefault((access.reference.array, access.axes), []).append(access)
        for found in self._accesses.values():
            if {"load", "store"} <= {kind for each in found for kind in each.makers}:
                found += list(_first_loads(found, program.nest))

    def window(self, groups: Mapping[int, range], host: Mapping[str, int]) -> Window:
        """Return what is looked at where those *groups* run, by the axes of the grid, in one pass of loops on the host.

        Groups are numbered from 0; along an axis that is not given, all are looked at.
        """
        window = {name: range(value, value + 1) for name, value in host.items()}
        for name, (kind, axis) in self.program.launch.numbering.items():
            if kind == "group" and axis in groups:
                first = first_value(self.program.kernel, name, self.sizes)
                window[name] = range(groups[axis].start + first, groups[axis].stop + first)
        return window

    def touched(
        self, part: Part, window: Window, array: str | None = None, kind: str | None = None
    ) -> dict[str, Touched]:
        """Return array -> what *part* of the program touches of it, all its passes in *window* together.

        Where an *array* is named, the others are left out; where a *kind* is, ``"load"``, ``"store"`` or
        :data:`FIRST`, what is done otherwise.
        """
        inside = frozenset({id(part)} if isinstance(part, Nest) else map(id, part))
        key = (inside, array, kind, tuple(sorted((name, values.start, values.stop) for name, values in window.items())))
        if key not in self._known:
            self._known[key] = self._touched(inside, window, array, kind)
        return self._known[key]

    def values(self, loop: Nest, window: Window) -> range:
        """Return the values that the variable of *loop* takes in *window*, from the least to the largest.

        They are equally far apart; where they are not, there are others between them.
        """
        found: list[range] = []
        for access in self._of({id(loop)}):
            points, place = _restricted(access, window), access.names.index(loop.iname)
            if not points.is_empty():
                found.append(values_along(points, place))
        if not found:
            return range(0)
        first = min(each.start for each in found)
        step = gcd(*(number for each in found for number in (each.step, each.start - first)))
        return range(first, max(each.stop for each in found), step)

    def at_once(self, window: Window, kind: str | None = None) -> dict[str, Touched]:
        """Return array -> what is touched of it without a loop between, summed over all passes in *window*.

        What several accesses or work-items touch in the same pass is there once. A *kind* is as in :meth:`touched`.
        """
        found: dict[str, Touched] = {}
        by_nest: dict[tuple[int, ...], list[Statement]] = {}
        for statement in self.program.nest.statements():
            by_nest.setdefault(tuple(map(id, statement.loops)), []).append(statement)
        for statements in by_nest.values():
            inner, passes = dict(window), 1
            for loop in statements[0].loops:
                values = self.values(loop, inner)
                inner[loop.iname] = middle(values, 1)
                passes *= len(values)
            for array, each in self.touched(statements, inner, kind=kind).items():
                found[array] = found.get(array, Touched()) + each.times(passes)
        return found

    def _of(self, inside: set[int]) -> Iterator[_Access]:
        for accesses in self._accesses.values():
            yield from (access for access in accesses if access.is_in(inside))

    def _touched(
        self, inside: frozenset[int], window: Window, only: str | None, kind: str | None
    ) -> dict[str, Touched]:
        found: dict[str, Touched] = {}
        for (array, axes), accesses in self._accesses.items():
            here = [access for access in accesses if only in (None, array) and access.is_in(inside, kind)]
            if not here:
                continue
            known = [access for access in here if access.cells is not None]
            total = found.get(array, Touched())
            if known:
                cells = reduce(isl.Set.union, (_cells(access, window) for access in known))
                total += touched_by(cells, axes, known[0].reference.bits // 8)
            for access in here:
                if access.cells is None:
                    number = Fraction(number_of_points(_restricted(access, window)))
                    total += Touched(number, number)
            whole = self._whole(here[0].reference) if any(access.by_data for access in here) else None
            found[array] = total if whole is None else total.at_most(whole)
        return found

    def _whole(self, reference: Reference) -> Touched | None:
        """Return the whole array that *reference* accesses; None where its shape is not stated."""
        elements = self._elements(reference)
        if elements is None:
            return None
        size = elements * reference.bits // 8
        return Touched(Fraction(-(-size // SECTOR)), Fraction(-(-size // LINE)))

    def _elements(self, reference: Reference) -> int | None:
        shape = known_shape(self.program.kernel, reference.array)
        if shape is None:
            return self.program.typical.length(reference.array)
        return prod(value_at(length, self.sizes, "the length of an axis") for length in shape)

    @property
    def assumed(self) -> Iterator[Assumed]:
        """Yield what had to be assumed of arrays; sizes that contradict what is typical among it."""
        for statement in self.program.nest.statements():
            yield from on_collisions(statement.what)
        for access in (access for accesses in self._accesses.values() for access in accesses):
            name, elements = access.reference.array, self._elements(access.reference)
            if access.cells is None and elements is None:
                yield Assumption(
                    f"data says how much of {SUBJECTS} is touched, and its shape is unknown; every access is assumed "
                    f"to touch another sector, typical={{'len({NAME})': 1000000}} states how many elements it has",
                    name,
                    repr(name),
                )
            elif elements is not None and (reached := _reached(access)) > elements:
                yield (
                    f"the rows of {name!r} have {reached:,} elements by what is typical, and the array has "
                    f"{elements:,} by its shape: no more than these are taken to be touched; one of the two is not so"
                )

    # {{{ accesses

    def _distinct(self) -> Iterator[_Access]:
        """Yield the accesses of global memory, those alike as one."""
        alike: dict[Any, list[Draft]] = {}
        for draft in self.program.drafts:
            ref = draft.reference
            if ref is not None and ref.space == MemorySpace.GLOBAL:
                key = (ref.array, ref.index, ref.bits, ref.is_linear, draft.statement.inames, draft.conditions)
                alike.setdefault(key, []).append(draft)
        for drafts in alike.values():
            yield self._access(drafts)

    def _access(self, drafts: Sequence[Draft]) -> _Access:
        first = drafts[0]
        assert first.reference is not None
        points = self._points(first)
        reference = in_elements(self.program.kernel, first.reference, points, self.sizes)
        strides = element_strides(self.program.kernel, reference, self.sizes)
        axes = tuple(stride * reference.bits // 8 or APART for stride in strides)
        visit = Visit(self.program.kernel, self.sizes, self.program.counter.loops(first.statement.inames), points)
        located = [in_rows(visit, *each) for each in zip(reference.index, axes, strict=True)]
        known = [pair for pairs in located for pair in pairs or ()]
        is_known = None not in located
        makers = {
            kind: tuple(draft.statement for draft in drafts if draft.kind == kind)
            for kind in dict.fromkeys(draft.kind for draft in drafts)
        }
        return _Access(
            reference=first.reference,
            names=tuple(points.get_var_names_not_none(SET)),
            points=points,
            cells=self._cell_map(first, tuple(index for index, _ in known)) if is_known else None,
            axes=tuple(distance for _, distance in known) if is_known else axes,
            by_data=any(is_data(visit, index) for index in first.reference.index),
            makers=makers,
            inside={kind: _identities(found, self.program.nest) for kind, found in makers.items()},
        )

    def _points(self, draft: Draft, where: Conditions = ALWAYS) -> isl.Set:
        """Return the points at which *draft* is executed, as far as conditions *where* hold too."""
        statement = draft.statement
        site = Site(self.program.launch, statement.inames, draft.conditions | where, statement.name)
        return at_sizes(self.program.counter.points(site), self.sizes)

    def _cell_map(self, draft: Draft, index: Indices) -> isl.Map | None:
        """Return the map from the points of *draft* to the cells at *index*; None where data tells them."""
        maps: list[isl.Map] = []
        for branch, conditions in branches(index):
            indices = tuple(SubstitutionMapper(self._size)(each) for each in branch)
            try:
                maps.append(get_access_map(self._points(draft, conditions), indices))
            except UnableToDetermineAccessRangeError:
                return None
        return reduce(isl.Map.union, maps)

    def _size(self, leaf: Any) -> int | None:
        return self.sizes.get(leaf.name) if isinstance(leaf, prim.Variable) else None

    # }}}


def middle(values: range, number: int) -> range:
    """Return so many values in the middle of *values*."""
    first = (len(values) - number) // 2
    return values[first : first + number]


def _restricted(access: _Access, window: Window) -> isl.Set:
    """Return the points of *access* in *window*."""
    points = access.points
    for place, name in enumerate(access.names):
        if name in window:
            points = points.lower_bound_val(SET, place, isl.Val(window[name].start))
            points = points.upper_bound_val(SET, place, isl.Val(window[name].stop - 1))
    return points


def _identities(statements: Iterable[Statement], nest: Nest) -> frozenset[int]:
    """Return the identities of *statements*, of the loops around them, and of the whole *nest*."""
    return frozenset({id(nest), *(id(part) for each in statements for part in (each, *each.loops))})


def _first_loads(accesses: Sequence[_Access], nest: Nest) -> Iterator[_Access]:
    """Yield those of *accesses*, all of one array, that load what no other has stored before in the program of *nest*.

    Where data tells which cells are stored, and where there are more than :data:`PAIRS` of loads and stores, every load
    is one of them.
    """
    stores = [access for access in accesses if "store" in access.makers and access.cells is not None]
    if sum("load" in access.makers for access in accesses) * len(stores) > PAIRS:
        stores = []
    place = {id(statement): number for number, statement in enumerate(nest.statements())}
    for access in accesses:
        for load in access.makers.get("load", ()):
            points = access.points
            if access.cells is not None:
                for store in stores:
                    points -= _stored_before(access, load, store, place)
            yield replace(access, points=points, makers={FIRST: (load,)}, inside={FIRST: _identities([load], nest)})


def _stored_before(access: _Access, load: Statement, stored: _Access, place: Mapping[int, int]) -> isl.Set:
    """Return the points at which *load* accesses a cell that was *stored* before, statements having their *place*."""
    assert access.cells is not None
    assert stored.cells is not None
    same = access.cells.intersect_domain(access.points)
    same = same.apply_range(stored.cells.intersect_domain(stored.points).reverse())
    found = isl.Set.empty(access.points.get_space())
    for store in stored.makers["store"]:
        common = [one.iname for one, other in zip(load.loops, store.loops, strict=False) if one is other]
        equal = same
        for iname in common:
            here, there = access.names.index(iname), stored.names.index(iname)
            found |= equal.order_gt(isl.dim_type.in_, here, isl.dim_type.out, there).domain()
            equal = equal.equate(isl.dim_type.in_, here, isl.dim_type.out, there)
        if place[id(store)] < place[id(load)]:
            found |= equal.domain()
    return found


def _cells(access: _Access, window: Window) -> isl.Set:
    assert access.cells is not None
    return _restricted(access, window).apply(access.cells)


def _reached(access: _Access) -> int:
    """Return how many elements there are up to the end of the rows, one after the other, that *access* goes through.

    0 where it goes through no such rows, or through none at all.
    """
    if access.cells is None or not access.by_data or max(map(abs, access.axes), default=0) >= APART:
        return 0
    cells = access.points.apply(access.cells)
    if cells.is_empty():
        return 0
    width = access.reference.bits // 8
    ends = (axis * cells.dim_max_val(place).to_python() for place, axis in enumerate(access.axes))
    return sum(ends) // width + 1
