"""The work-groups of a launch in the order in which the hardware dispatches them, by the warps that each is made of.

Groups are dispatched along the first axis of the grid first. Those made of the same warps are one class, and groups of
a class that follow each other are one run, so that a grid of millions of groups with a boundary has few runs. Where the
warps of a class of warps do unequal work, as those of a triangle do, each run says where its groups lie between the
lightest and the heaviest of these warps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from loopyperf.idg.warps.kinds import Kind
from loopyperf.idg.warps.listed_number import LISTED
from loopyperf.idg.warps.points import Box, Points, contained, points_listed

MOST_RUNS = 512
"""of an execution of a launch: beyond that, neighbouring runs are merged"""
MOST_CELLS = 2**16
"""boxes that the places of warps are cut into; beyond that, warps are looked at one by one"""
MOST_PLACES = 2**20
"""warps that are looked at one by one; of more, some groups stand for their neighbours"""
MOST_EXECUTIONS = 16
"""of a launch in a loop on the host, that are looked at where they differ"""
LOOKED_AT = 4
"""warps of a group whose work is compared, at most"""
Place = tuple[int, ...]
"""of a warp: the host's loops, the axes of the grid, its number in its group"""
Composition = tuple[tuple[int, int], ...]
"""class of warps, and how many of them a group has, in ascending order"""


@dataclass(frozen=True, slots=True)
class Run:
    """Groups of a class that are dispatched one after the other."""

    group: int
    """their class"""
    number: int
    share: float = 0.0
    """where the mean warp of unequal work lies between the lightest (0) and the heaviest one (1)"""
    longest: float = 0.0
    """where the heaviest warp of the group lies between them"""


Order = tuple[Run, ...]
"""the groups of an execution of a launch, in the order of dispatch"""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The groups of a launch in the order of dispatch."""

    classes: tuple[Composition, ...]
    """of groups: what warps each is made of"""
    executions: tuple[tuple[float, Order], ...]
    """how many executions of the launch each order stands for"""
    extremes: Mapping[int, tuple[Place, Place]] = field(default_factory=dict[int, tuple[Place, Place]])
    """class of warps of unequal work -> the places of its lightest and of its heaviest warp"""

    @property
    def is_uniform(self) -> bool:
        """Return whether all groups execute alike."""
        return len(self.classes) <= 1 and not self.extremes


@dataclass(frozen=True)
class Grid:
    """The places of the groups of a launch."""

    hosts: tuple[tuple[float, tuple[int, ...]], ...]
    """values of the host's loops, each with the number of executions that it stands for"""
    extents: tuple[int, ...]
    """groups along each axis of the grid"""
    warps: int
    """of a group"""

    @property
    def groups(self) -> int:
        """Return the groups of an execution."""
        return prod(self.extents)

    def place(self, number: int) -> tuple[int, ...]:
        """Return where the group of this *number* in the order of dispatch is."""
        found: list[int] = []
        for extent in self.extents:
            number, at = divmod(number, extent)
            found.append(at)
        return tuple(found)


def hosts_of(places: Points, axes: int) -> tuple[tuple[float, tuple[int, ...]], ...]:
    """Return values of the host's loops, the first so many *axes* of *places*, of executions that stand for all."""
    if not axes:
        return ((1.0, ()),)
    outer = places.outer(axes)
    if outer.box is not None and outer.number > LISTED:
        every = [tuple(each[int(part * len(each))] for each in outer.box) for part in _middles(MOST_EXECUTIONS)]
        return tuple((outer.number / len(every), each) for each in every)
    listed = sorted(tuple(map(int, row)) for row in points_listed(outer.set))
    chosen = min(len(listed), MOST_EXECUTIONS)
    return tuple((len(listed) / chosen, listed[int(part * len(listed))]) for part in _middles(chosen))


def _middles(number: int) -> Iterator[float]:
    """Yield the middles of so many equal parts of 1."""
    yield from ((each + 0.5) / number for each in range(number))


def dispatched(kinds: Sequence[Kind], grid: Grid) -> Dispatch:
    """Return the groups of *grid* in the order of dispatch, whose warps are of *kinds*."""
    if len(kinds) == 1 and kinds[0].is_uniform:
        every = sum(times for times, _ in grid.hosts)
        return Dispatch((((0, grid.warps),),), ((every, (Run(0, grid.groups),)),))
    places = _Places(kinds, grid)
    classes: dict[Composition, int] = {}
    orders: dict[Order, float] = {}
    found: list[tuple[float, list[_Counted]]] = []
    for times, host in grid.hosts:
        order = [(classes.setdefault(made_of, len(classes)), number) for made_of, number in places.order(host)]
        found.append((times, list(_at_work(order, classes, kinds, grid, host, places))))
    spans = _spans(found)
    for times, counted in found:
        order = _merged([each.run(spans) for each in counted])
        orders[order] = orders.get(order, 0.0) + times
    extremes = {kind: (low[1], high[1]) for kind, (low, high) in spans.items()}
    return Dispatch(tuple(classes), tuple((times, order) for order, times in orders.items()), extremes)


# {{{ unequal work


@dataclass(frozen=True, slots=True)
class _Counted:
    """A run, with the work of some of its warps that are of classes of unequal work."""

    group: int
    number: int
    warps: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    """class of warps, work, and place"""

    def run(self, spans: Mapping[int, tuple[tuple[int, tuple[int, ...]], tuple[int, tuple[int, ...]]]]) -> Run:
        """Return it, its warps' work between the ends of *spans*."""
        shares = [
            (work - spans[kind][0][0]) / max(1, spans[kind][1][0] - spans[kind][0][0]) for kind, work, _ in self.warps
        ]
        return (
            Run(self.group, self.number, sum(shares) / len(shares), max(shares))
            if shares
            else Run(self.group, self.number)
        )


def _at_work(
    order: Sequence[tuple[int, int]],
    classes: Mapping[Composition, int],
    kinds: Sequence[Kind],
    grid: Grid,
    host: tuple[int, ...],
    places: "_Places",
) -> Iterator[_Counted]:
    """Yield the runs of *order*, those of unequal work cut into parts, with the work of a group in the middle."""
    made_of = list(classes)
    unequal = [any(not kinds[kind].is_uniform for kind, _ in each) for each in made_of]
    every = sum(number for group, number in order if unequal[group])
    first = 0
    for group, number in order:
        parts = min(number, max(1, MOST_RUNS * number // every)) if unequal[group] else 1
        bounds = [number * part // parts for part in range(parts + 1)]
        for begin, end in pairwise(bounds):
            here: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
            if unequal[group]:
                at = grid.place(first + (begin + end) // 2)
                here = tuple(places.work((*host, *at)))
            yield _Counted(group, end - begin, here)
        first += number


def _spans(
    found: Iterable[tuple[float, Iterable[_Counted]]],
) -> dict[int, tuple[tuple[int, tuple[int, ...]], tuple[int, tuple[int, ...]]]]:
    """Return class of warps -> the least and the most work of one that was looked at, each with its place."""
    works: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for _, counted in found:
        for each in counted:
            for kind, work, place in each.warps:
                works.setdefault(kind, []).append((work, place))
    return {kind: (min(each), max(each)) for kind, each in works.items()}


# }}}

# {{{ where groups are


class _Places:
    """Where the warps of each class are."""

    def __init__(self, kinds: Sequence[Kind], grid: Grid) -> None:
        self.kinds, self.grid = kinds, grid
        self._boxes = {id(kind.places): Points(kind.places).boxes for kind in kinds}
        self._works: dict[tuple[int, ...], int] = {}

    def order(self, host: tuple[int, ...]) -> list[tuple[Composition, int]]:
        """Return what groups are made of in the order of dispatch, and how many of them follow each other."""
        cells = self._cells(host)
        found = [*_along(*cells)] if cells is not None else [*self._listed(host)]
        return _joined(found)

    # {{{ boxes

    def _cells(self, host: tuple[int, ...]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]], int] | None:
        """Return the class of warps in each cell of the grid and the warps, and the cells' lengths along each axis.

        None where the warps of a class are in no few boxes, or where there are too many cells.
        """
        if any(boxes is None for boxes in self._boxes.values()):
            return None
        parts = [part for kind in range(len(self.kinds)) for part in self._parts(kind, host)]
        extents = (*self.grid.extents, self.grid.warps)
        cuts: list[NDArray[np.int64]] = []
        for axis, extent in enumerate(extents):
            ends = {0, extent, *(end for _, box in parts for end in (box[axis].start, box[axis].stop))}
            cuts.append(np.array(sorted(ends), dtype=np.int64))
        if prod(len(each) for each in cuts) > MOST_CELLS:
            return None
        cells = np.full([len(each) - 1 for each in cuts], -1, dtype=np.int64)
        for kind, box in parts:
            where = tuple(
                slice(int(np.searchsorted(cut, along.start)), int(np.searchsorted(cut, along.stop)))
                for cut, along in zip(cuts, box, strict=True)
            )
            cells[where] = kind
        return cells, [np.diff(each) for each in cuts], len(self.kinds)

    def _parts(self, number: int, host: tuple[int, ...]) -> Iterator[tuple[int, Box]]:
        """Yield the boxes of the warps of a class, without the host's axes."""
        kind, hosts = self.kinds[number], len(host)
        for box in self._boxes[id(kind.places)] or ():
            for values in kind.values or ((),):
                here = list(box)
                for axis, value in zip(kind.axes, values, strict=bool(kind.values)):
                    here[axis] = range(value, value + 1) if value in here[axis] else range(0)
                if all(map(len, here)) and all(value in along for value, along in zip(host, here, strict=False)):
                    yield number, tuple(here[hosts:])

    # }}}

    # {{{ one by one

    def _listed(self, host: tuple[int, ...]) -> Iterator[tuple[Composition, int]]:
        """Yield what groups are made of, one after the other, or some that stand for their neighbours."""
        every, extents = self.grid.groups, self.grid.extents
        looked_at = min(every, max(1, MOST_PLACES // self.grid.warps))
        ends = np.arange(looked_at + 1) * every // looked_at
        groups = np.stack(np.unravel_index((ends[:-1] + ends[1:]) // 2, extents, order="F"), axis=-1)
        kinds = self._kinds_in(host, groups)
        numbers = np.stack([(kinds == kind).sum(axis=1) for kind in range(len(self.kinds))], axis=-1)
        distinct, inverse = np.unique(numbers, axis=0, return_inverse=True)
        made_of = [_composition(row) for row in distinct.tolist()]
        for at, number in zip(inverse.ravel().tolist(), np.diff(ends).tolist(), strict=True):
            yield made_of[at], number

    def _kinds_in(self, host: tuple[int, ...], groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the class of each warp (columns) of *groups* (rows)."""
        size = self.grid.warps
        rows = np.empty((len(groups) * size, len(host) + groups.shape[1] + 1), dtype=np.int64)
        rows[:, : len(host)] = host
        rows[:, len(host) : -1] = np.repeat(groups, size, axis=0)
        rows[:, -1] = np.tile(np.arange(size), len(groups))
        found = np.full(len(rows), -1, dtype=np.int64)
        inside: dict[int, NDArray[np.bool_]] = {}
        for number, kind in enumerate(self.kinds):
            here = inside.get(id(kind.places))
            if here is None:
                here = inside[id(kind.places)] = contained(kind.places, rows)
            if kind.values:
                values = dict.fromkeys(kind.values)
                at = np.flatnonzero(here)
                mine = [tuple(row) in values for row in rows[at][:, list(kind.axes)].tolist()]
                found[at[np.array(mine, dtype=np.bool_)]] = number
            else:
                found[here] = number
        return found.reshape(len(groups), size)

    # }}}

    def work(self, group: tuple[int, ...]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield class, work and place of some warps of *group* that are of classes of unequal work."""
        (kinds,) = self._kinds_in((), np.array([group], dtype=np.int64)).tolist()
        unequal = [(warp, kind) for warp, kind in enumerate(kinds) if not self.kinds[kind].is_uniform]
        last = len(unequal) - 1
        chosen = {last * part // (LOOKED_AT - 1) for part in range(LOOKED_AT)} if last >= 0 else set[int]()
        for warp, kind in (unequal[at] for at in sorted(chosen)):
            place = (*group, warp)
            yield kind, self._work(kind, place), place

    def _work(self, number: int, place: tuple[int, ...]) -> int:
        kind = self.kinds[number]
        key = (number, *(place[axis] for axis in range(len(place)) if self._decides(number, axis)))
        if key not in self._works:
            self._works[key] = kind.work(place)
        return self._works[key]

    def _decides(self, number: int, axis: int) -> bool:
        if (number, axis) not in self._deciding:
            self._deciding[number, axis] = any(each.depends_on(axis) for each in self.kinds[number].numbers)
        return self._deciding[number, axis]

    @cached_property
    def _deciding(self) -> dict[tuple[int, int], bool]:
        return {}


def _along(
    cells: NDArray[np.int64], lengths: Sequence[NDArray[np.int64]], kinds: int
) -> Iterator[tuple[Composition, int]]:
    """Yield what groups are made of in the order of dispatch: along the first axis first."""
    numbers = np.stack([(cells == kind) @ lengths[-1] for kind in range(kinds)], axis=-1)
    grid = numbers.shape[:-1]
    rows: list[list[int]] = numbers.reshape(-1, kinds).tolist()
    made_of = [_composition(row) for row in rows]

    def slab(axis: int, inner: tuple[int, ...]) -> list[tuple[Composition, int]]:
        """Return the groups along the axes before *axis*, at the cells *inner* along it and those behind it."""
        if axis < 0:
            return [(made_of[int(np.ravel_multi_index(inner, grid)) if inner else 0], 1)]
        found: list[tuple[Composition, int]] = []
        for at, length in enumerate(lengths[axis].tolist()):
            found += _repeated(slab(axis - 1, (at, *inner)), length)
        return _joined(found)

    yield from slab(len(grid) - 1, ())


def _composition(numbers: Iterable[int]) -> Composition:
    """Return what a group is made of that has these *numbers* of warps of each class."""
    return tuple((kind, number) for kind, number in enumerate(numbers) if number)


def _repeated(order: list[tuple[Composition, int]], times: int) -> list[tuple[Composition, int]]:
    """Return *order* so many times; where that has too many runs, some repetitions at a time as if they were one."""
    if len(order) == 1:
        return [(order[0][0], order[0][1] * times)]
    blocks = max(1, min(times, MOST_RUNS // len(order)))
    sizes = [times * (block + 1) // blocks - times * block // blocks for block in range(blocks)]
    return [(made_of, number * size) for size in sizes for made_of, number in order]


def _joined(order: Iterable[tuple[Composition, int]]) -> list[tuple[Composition, int]]:
    """Return *order* with neighbours that are made of the same as one."""
    found: list[tuple[Composition, int]] = []
    for made_of, number in order:
        if found and found[-1][0] == made_of:
            found[-1] = made_of, found[-1][1] + number
        else:
            found.append((made_of, number))
    return found


# }}}


def _merged(runs: Sequence[Run]) -> Order:
    """Return *runs*, those of a class and in neighbourhood as one where they are too many."""
    at_once = -(-len(runs) // MOST_RUNS)
    if at_once == 1:
        return tuple(runs)
    found: list[Run] = []
    for begin in range(0, len(runs), at_once):
        by_class: dict[int, Run] = {}
        for each in runs[begin : begin + at_once]:
            before = by_class.get(each.group)
            by_class[each.group] = each if before is None else _together(before, each)
        found += by_class.values()
    return tuple(found)


def _together(one: Run, other: Run) -> Run:
    number = one.number + other.number
    share = (one.share * one.number + other.share * other.number) / number
    return replace(one, number=number, share=share, longest=max(one.longest, other.longest))
