"""What the accesses of a launch touch of global memory, as the program of the launch and its sizes tell.

Rows that are as long as data says lie one after the other, or apart (see :mod:`loopyperf.memory.rows`). Where data
tells the cells in another way, all accesses are taken to touch others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import prod
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.diagnostic import UnableToDetermineAccessRangeError
from loopy.symbolic import SubstitutionMapper, get_access_map

from loopyperf.counts.conditions import ALWAYS, Conditions
from loopyperf.counts.execution import Site
from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory import Reference, element_strides, in_elements, known_shape, value_at
from loopyperf.counts.walk import on_collisions
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.executed import LaunchProgram
from loopyperf.idg.warps.warp import Nest, Statement, first_value
from loopyperf.kernel.launches import NAME, SUBJECTS, Assumed, Assumption
from loopyperf.memory.cells import Touched
from loopyperf.memory.footprints import FIRST, ArrayAccess, Footprints, StatementLoop
from loopyperf.memory.rows import APART, Indices, Visit, branches, in_rows, is_data
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.plain_sets import PlainMap, PlainSet
from loopyperf.polyhedral.points import affine_map, at_sizes

SET = isl.dim_type.set
_FIELDS = {"load": "load", "store": "store", FIRST: "first_load"}
PAIRS = 64
"""of loads and stores of an array that are compared, which takes a millisecond each"""


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
    """``"load"`` or ``"store"`` -> the statements that do so"""


def footprints_of(program: LaunchProgram, sizes: Mapping[str, int]) -> Footprints:
    """Return what the launch of *program* touches of global arrays at *sizes*, and in which parts of it."""
    return _Builder(program, sizes).footprints()


class _Builder:
    """Finds the accesses of a launch."""

    def __init__(self, program: LaunchProgram, sizes: Mapping[str, int]) -> None:
        self.program, self.sizes = program, sizes

    def footprints(self) -> Footprints:
        """Return the accesses of each array, with the first loads of those that are both loaded and stored."""
        by_array: dict[tuple[str, tuple[int, ...]], list[_Access]] = {}
        for access in self._distinct():
            by_array.setdefault((access.reference.array, access.axes), []).append(access)
        found: list[ArrayAccess] = []
        for accesses in by_array.values():
            found += (self._plain(access, access.points, access.makers) for access in accesses)
            if {"load", "store"} <= {kind for each in accesses for kind in each.makers}:
                found += self._first_loads(accesses)
        groups = tuple(
            (name, axis, first_value(self.program.kernel, name, self.sizes))
            for name, (kind, axis) in self.program.launch.numbering.items()
            if kind == "group"
        )
        every = [access for accesses in by_array.values() for access in accesses]
        return Footprints(tuple(found), _plain_loop(self.program.nest), groups, tuple(self._assumed(every)))

    def _plain(self, access: _Access, points: isl.Set, makers: Mapping[str, Sequence[Statement]]) -> ArrayAccess:
        return ArrayAccess(
            array=access.reference.array,
            width=access.reference.bits // 8,
            inames=access.names,
            points=PlainSet.of(points.remove_redundancies()),
            cells=None if access.cells is None else PlainMap.of(access.cells),
            axes=access.axes,
            by_data=access.by_data,
            most=self._whole(access.reference) if access.by_data else None,
            **{field: tuple(each.number for each in makers.get(kind, ())) for kind, field in _FIELDS.items()},
        )

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

    def _assumed(self, accesses: Sequence[_Access]) -> Iterator[Assumed]:
        """Yield what had to be assumed of arrays; sizes that contradict what is typical among it."""
        for statement in self.program.nest.statements():
            yield from on_collisions(statement.what)
        for access in accesses:
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
        makers: dict[str, tuple[Statement, ...]] = {
            kind: tuple(draft.statement for draft in drafts if draft.kind == kind)
            for kind in dict.fromkeys(draft.kind for draft in drafts)
        }
        return _Access(
            reference=first.reference,
            names=tuple(points.get_var_names_not_none(SET)),
            points=points,
            cells=self._cell_map(first, tuple(index for index, _ in known), points) if is_known else None,
            axes=tuple(distance for _, distance in known) if is_known else axes,
            by_data=any(is_data(visit, index) for index in first.reference.index),
            makers=makers,
        )

    def _points(self, draft: Draft, where: Conditions = ALWAYS) -> isl.Set:
        """Return the points at which *draft* is executed, as far as conditions *where* hold too."""
        statement = draft.statement
        site = Site(self.program.launch, statement.inames, draft.conditions | where, statement.name)
        return at_sizes(self.program.counter.points(site), self.sizes)

    def _cell_map(self, draft: Draft, index: Indices, points: isl.Set) -> isl.Map | None:
        """Return the map from *points*, those of *draft*, to the cells at *index*; None where data tells them."""
        maps: list[isl.Map] = []
        names: Sequence[str] = points.get_var_names_not_none(SET)
        for branch, conditions in branches(index):
            affine = [
                known for each in branch if (known := Affine.of(each, self.sizes)) and known.variables <= {*names}
            ]
            if len(affine) == len(branch) and not conditions:
                maps.append(affine_map(names, affine))
                continue
            indices = tuple(SubstitutionMapper(self._size)(each) for each in branch)
            try:
                maps.append(get_access_map(self._points(draft, conditions), indices))
            except UnableToDetermineAccessRangeError:
                return None
        return reduce(isl.Map.union, maps)

    def _size(self, leaf: Any) -> int | None:
        return self.sizes.get(leaf.name) if isinstance(leaf, prim.Variable) else None

    def _first_loads(self, accesses: Sequence[_Access]) -> Iterator[ArrayAccess]:
        """Yield those of *accesses*, all of one array, that load what nothing in the launch has stored before.

        Where data tells which cells are stored, and where there are more than :data:`PAIRS` of loads and stores, every
        load is one of them.
        """
        stores = [access for access in accesses if "store" in access.makers and access.cells is not None]
        if sum("load" in access.makers for access in accesses) * len(stores) > PAIRS:
            stores = []
        for access in accesses:
            for load in access.makers.get("load", ()):
                points = access.points
                if access.cells is not None:
                    for store in stores:
                        points -= _stored_before(access, load, store)
                yield self._plain(access, points, {FIRST: (load,)})

    # }}}


def _stored_before(access: _Access, load: Statement, stored: _Access) -> isl.Set:
    """Return the points at which *load* accesses a cell that was *stored* before."""
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
        if store.number < load.number:
            found |= equal.domain()
    return found


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


def _plain_loop(nest: Nest) -> StatementLoop:
    """Return *nest* with its statements by number."""
    body = (item.number if isinstance(item, Statement) else _plain_loop(item) for item in nest.body)
    return StatementLoop(nest.iname, tuple(body))
