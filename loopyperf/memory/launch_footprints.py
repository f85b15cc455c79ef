"""Accesses of a launch to global arrays: the points at which they execute, and the cells that they access there.

Rows of loaded length are assumed adjacent or apart (see :mod:`loopyperf.memory.rows`). If cells depend on data in
another way, all accesses are assumed to touch different ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import chain
from math import prod
from typing import Any

import islpy as isl

from loopyperf.counts.conditions import ALWAYS, Conditions
from loopyperf.counts.execution import Site
from loopyperf.counts.item import STRIDE_CLASSES, MemorySpace
from loopyperf.counts.memory_accesses import (
    Reference,
    check_length,
    element_strides,
    has_cases,
    in_elements,
    known_shape,
    scaled_by_data,
    value_at,
)
from loopyperf.idg.launch_program import Draft, LaunchProgram
from loopyperf.idg.warp_classes import Nest, Statement, first_value
from loopyperf.kernel.integers import with_values
from loopyperf.kernel.launches import NAME, SUBJECTS, Assumed, Assumption
from loopyperf.memory.footprints import FIRST, ArrayAccess, Footprints, StatementLoop
from loopyperf.memory.index_values import lane_axes_of_data
from loopyperf.memory.rows import APART, Indices, Located, Scattered, Visit, branches, is_data, located
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.memory.touched_sectors import Touched
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.plain_sets import PlainMap, PlainSet
from loopyperf.polyhedral.points import affine_map, at_sizes
from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, quasi_affine_map
from loopyperf.polyhedral.sets import as_int

SET = isl.dim_type.set
DIV = isl.dim_type.div
_FIELDS = {"load": "load", "store": "store", FIRST: "first_load"}
PAIRS = 64
"""most pairs of loads and stores of an array that are compared; each takes a millisecond"""


@dataclass(frozen=True)
class _Access:
    """A reference in the launch, with its cells."""

    reference: Reference
    names: tuple[str, ...]
    """inames of the loops around it"""
    points: isl.Set
    """values of the inames"""
    cells: isl.Map | None
    """map from points to array indices; None if the indices are data"""
    axes: tuple[int, ...]
    """bytes between neighbors along each index"""
    base: str
    """loaded values from which the cells start; see :class:`Located`"""
    scattered: Scattered | None
    """the window of these values"""
    by_data: bool
    """whether data determines the cells, or the rows that contain them"""
    makers: Mapping[str, tuple[Statement, ...]]
    """``"load"`` or ``"store"`` -> statements of this kind"""


def footprints_of(program: LaunchProgram, sizes: Mapping[str, int]) -> Footprints:
    """Return the accesses of the launch of *program* to global arrays at *sizes*, by part of the program."""
    return _Builder(program, sizes).footprints()


class _Builder:
    """Collects the accesses of a launch."""

    def __init__(self, program: LaunchProgram, sizes: Mapping[str, int]) -> None:
        self.program, self.sizes = program, sizes
        drafts = (draft.reference for draft in program.drafts if draft.reference is not None)
        self._by_axis = {ref.array for ref in drafts if len(ref.index) > 1 and not has_cases(*ref.index)}
        """arrays with an access that is simplest with an index for each axis"""

    def footprints(self) -> Footprints:
        """Return the accesses to each array, with the first loads of arrays that are both loaded and stored."""
        by_array: dict[str, list[_Access]] = {}
        for access in self._distinct():
            by_array.setdefault(access.reference.array, []).append(access)
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
            base=access.base,
            scattered=access.scattered,
            by_data=access.by_data,
            most=self._whole(access.reference) if access.by_data or access.cells is None else None,
            **{field: tuple(each.number for each in makers.get(kind, ())) for kind, field in _FIELDS.items()},
        )

    def _whole(self, reference: Reference) -> Touched | None:
        """Return the size of the array that *reference* accesses; None if its shape is unknown."""
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
        """Yield the assumptions about arrays, and contradictions between sizes and typical values."""
        for access in accesses:
            name, elements = access.reference.array, self._elements(access.reference)
            if access.cells is None and not access.by_data:
                yield access.reference.assumption(
                    f"indices of {SUBJECTS} are not affine on pieces; each access is assumed to touch a different "
                    "sector, up to all sectors of the array"
                )
            elif elements is None and (access.cells is None or access.base) and access.scattered is None:
                yield Assumption(
                    f"accessed part of {SUBJECTS} depends on data, and its shape is unknown; each access is assumed to "
                    f"touch a different sector; typical={{'len({NAME})': 1000000}} sets the number of elements",
                    name,
                    repr(name),
                )
            elif elements is not None and (reached := _reached(access)) > elements:
                yield (
                    f"rows of {name!r} have {reached:,} elements by typical values, but the array has {elements:,} by "
                    "its shape; accessed memory is limited to the array; check both values"
                )

    # {{{ accesses

    def _distinct(self) -> Iterator[_Access]:
        """Yield the accesses to global memory, with identical ones merged."""
        identical: dict[Any, list[Draft]] = {}
        for draft in self.program.drafts:
            ref = draft.reference
            if ref is not None and ref.space == MemorySpace.GLOBAL:
                key = (ref.array, ref.index, ref.bits, ref.is_linear, draft.statement.inames, draft.step.conditions)
                identical.setdefault(key, []).append(draft)
        for drafts in identical.values():
            yield self._access(drafts)

    def _access(self, drafts: Sequence[Draft]) -> _Access:
        first = drafts[0]
        assert first.reference is not None
        points = self._points(first)
        visit = Visit(self.program.kernel, self.sizes, self.program.counter.loops(first.statement.inames), points)
        place, cells = self._located(visit, first, first.reference)
        if cells is None or (
            first.reference.array not in self._by_axis and any(each.dim(DIV) for each in cells.get_basic_maps())
        ):
            by_element = in_elements(self.program.kernel, first.reference, points, self.sizes)
            if by_element is not first.reference:
                place, cells = self._located(visit, first, by_element)
        makers: dict[str, tuple[Statement, ...]] = {
            kind: tuple(draft.statement for draft in drafts if draft.step.kind == kind)
            for kind in dict.fromkeys(draft.step.kind for draft in drafts)
        }
        return _Access(
            reference=first.reference,
            names=tuple(points.get_var_names_not_none(SET)),
            points=points,
            cells=cells,
            axes=tuple(distance for _, distance in place.pairs),
            base=place.base,
            scattered=place.scattered,
            by_data=any(is_data(visit, index) for index in first.reference.index),
            makers=makers,
        )

    def _located(self, visit: Visit, draft: Draft, reference: Reference) -> tuple[Located, isl.Map | None]:
        """Return where *reference* is, that of *draft* in one of its forms, and its cells; see :class:`_Access`."""
        strides = element_strides(self.program.kernel, reference, self.sizes)
        width = reference.bits // 8
        axes = tuple(stride * width or APART for stride in strides)
        place = located(visit, reference.index, axes, width, given_pattern(self.program, draft))
        if place is None:
            return Located(tuple(zip(reference.index, axes, strict=True))), None
        return place, self._cell_map(draft, tuple(index for index, _ in place.pairs), visit.points)

    def _points(self, draft: Draft, where: Conditions = ALWAYS) -> isl.Set:
        """Return the points at which *draft* executes and the conditions *where* hold."""
        statement = draft.statement
        site = Site(self.program.launch, statement.inames, draft.step.conditions | where, statement.name)
        return at_sizes(self.program.counter.points(site), self.sizes)

    def _cell_map(self, draft: Draft, index: Indices, points: isl.Set) -> isl.Map | None:
        """Return the map from *points*, those of *draft*, to the cells at *index*; None if data determines them."""
        names: Sequence[str] = points.get_var_names_not_none(SET)
        affine = [known for each in index if (known := Affine.of(each, self.sizes)) and known.variables <= {*names}]
        if len(affine) == len(index):
            return affine_map(names, affine)
        known = tuple(with_values(each, self.sizes) for each in index)
        with suppress(NotQuasiAffineError):
            return quasi_affine_map(points, known)
        try:
            parts = [quasi_affine_map(self._points(draft, where), branch) for branch, where in branches(known)]
        except NotQuasiAffineError:
            return None
        return reduce(isl.Map.union, parts)

    def _first_loads(self, accesses: Sequence[_Access]) -> Iterator[ArrayAccess]:
        """Yield the *accesses*, all of one array, that load values not yet stored by the launch.

        If data determines the stored cells, or there are more than :data:`PAIRS` pairs of loads and stores, every load
        counts.
        """
        stores = [access for access in accesses if "store" in access.makers and access.cells is not None]
        if sum("load" in access.makers for access in accesses) * len(stores) > PAIRS:
            stores = []
        for access in accesses:
            for load in access.makers.get("load", ()):
                points = access.points
                for store in stores if access.cells is not None else ():
                    if (store.axes, store.base) == (access.axes, access.base):
                        points -= _stored_before(access, load, store)
                yield self._plain(access, points, {FIRST: (load,)})

    # }}}


def _stored_before(access: _Access, load: Statement, stored: _Access) -> isl.Set:
    """Return the points at which *load* accesses a cell that *stored* wrote before."""
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
    """Return the number of elements up to the end of the adjacent rows that *access* goes through.

    0 if it goes through no rows, or through rows that are apart.
    """
    if access.cells is None or not access.by_data or max(map(abs, access.axes), default=0) >= APART:
        return 0
    cells = access.points.apply(access.cells)
    if cells.is_empty():
        return 0
    width = access.reference.bits // 8
    ends = (axis * as_int(cells.dim_max_val(place)) for place, axis in enumerate(access.axes))
    return sum(ends) // width + 1


def _plain_loop(nest: Nest) -> StatementLoop:
    """Return *nest* with its statements as numbers."""
    body = (item.number if isinstance(item, Statement) else _plain_loop(item) for item in nest.body)
    return StatementLoop(nest.iname, tuple(body))


def given_pattern(program: LaunchProgram, draft: Draft) -> str | None:
    """Return the typical pattern of the access *draft* if data makes a difference between its lanes."""
    ref, kernel = draft.reference, program.kernel
    if ref is None or ref.space != MemorySpace.GLOBAL:
        return None
    check_length(kernel, program.typical, ref)
    if not lane_axes_of_data(kernel, ref.index, program.counter.loops(draft.statement.inames).starts):
        return None
    factors = chain(*scaled_by_data(kernel, ref.index).values())
    return program.typical.stride(ref.array, STRIDE_CLASSES, factors)
