"""The work-groups of a launch in dispatch order, and the warps of each group.

The hardware dispatches groups along the first grid axis first. Groups with the same warps form a group class, and
consecutive groups of one class form a run, so a grid of millions of groups with a boundary has few runs. If the warps
of a warp class do unequal work, as in a triangular domain, each run also has the work of its warps relative to the
mean.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isclose, prod

import numpy as np
from numpy.typing import NDArray

from loopyperf.idg.warp_classes import WarpKind
from loopyperf.polyhedral.points import LISTED, Box, Points, contained, points_listed
from loopyperf.polyhedral.sets import SetMemory

MOST_RUNS = 512
"""approximate maximum number of runs per execution of a launch; beyond it, neighboring runs are merged"""
MOST_CELLS = 2**16
"""maximum number of boxes that the warp positions are divided into; beyond it, warps are classified one by one"""
MOST_PLACES = 2**20
"""maximum number of warps classified one by one; beyond it, some groups represent their neighbors"""
MOST_EXECUTIONS = 16
"""maximum number of different executions of a launch inside a host loop that are examined"""
LOOKED_AT = 4
"""maximum number of warps per group whose work is compared"""
SPREAD = (5**0.5 - 1) / 2
"""golden ratio conjugate: its multiples modulo 1 are evenly spread and not periodic"""
Composition = tuple[tuple[int, int], ...]
"""(warp class, number of its warps in a group), in ascending order"""


@dataclass(frozen=True, slots=True)
class DispatchRun:
    """Consecutive groups of one class."""

    group: int
    """group class"""
    number: int
    """number of groups"""
    work: float = 1.0
    """mean work of the warps in non-uniform classes, relative to the mean of their warp class"""
    longest: float = 1.0
    """maximum of that relative work over the warps of a group"""


Order = tuple[DispatchRun, ...]
"""the groups of one execution of a launch, in dispatch order"""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The groups of a launch in dispatch order."""

    classes: tuple[Composition, ...]
    """composition of each group class"""
    executions: tuple[tuple[float, Order], ...]
    """(number of launch executions represented, dispatch order)"""

    @property
    def is_uniform(self) -> bool:
        """Return whether all groups do equal work."""
        every = (run for _, order in self.executions for run in order)
        return len(self.classes) <= 1 and all(isclose(run.work, 1) for run in every)


@dataclass(frozen=True)
class Grid:
    """The grid of a launch."""

    hosts: tuple[tuple[float, tuple[int, ...]], ...]
    """(number of executions represented, values of the host loops)"""
    extents: tuple[int, ...]
    """number of groups along each grid axis"""
    warps: int
    """warps per group"""

    @property
    def groups(self) -> int:
        """Return the number of groups of one execution."""
        return prod(self.extents)

    def place(self, number: int) -> tuple[int, ...]:
        """Return the grid coordinates of the group with this *number* in dispatch order."""
        found: list[int] = []
        for extent in self.extents:
            number, at = divmod(number, extent)
            found.append(at)
        return tuple(found)


def hosts_of(places: Points, axes: int) -> tuple[tuple[float, tuple[int, ...]], ...]:
    """Return representative executions as (number represented, host loop values).

    The host loops are the first *axes* dimensions of *places*.
    """
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
    """Yield the midpoints of *number* equal parts of the unit interval."""
    yield from ((each + 0.5) / number for each in range(number))


def dispatched(kinds: Sequence[WarpKind], grid: Grid) -> Dispatch:
    """Return the groups of *grid* in dispatch order, given the warp classes *kinds*."""
    if len(kinds) == 1 and kinds[0].is_uniform:
        every = sum(times for times, _ in grid.hosts)
        return Dispatch((((0, grid.warps),),), ((every, (DispatchRun(0, grid.groups),)),))
    if not kinds:
        return Dispatch((), ())
    places = _Places(kinds, grid)
    classes: dict[Composition, int] = {}
    orders: dict[Order, float] = {}
    found: list[tuple[float, list[_Counted]]] = []
    for times, host in grid.hosts:
        order = [(classes.setdefault(made_of, len(classes)), number) for made_of, number in places.order(host)]
        found.append((times, list(_at_work(order, classes, kinds, grid, host, places))))
    means = _means(found)
    for times, counted in found:
        merged = _merged([each.run(means) for each in counted])
        orders[merged] = orders.get(merged, 0.0) + times
    return Dispatch(tuple(classes), tuple((times, order) for order, times in orders.items()))


# {{{ unequal work


@dataclass(frozen=True, slots=True)
class _Counted:
    """A run, with the work of some of its warps in non-uniform classes."""

    group: int
    number: int
    works: tuple[tuple[int, int], ...] = ()
    """(warp class, work) of each examined warp"""

    def run(self, means: Mapping[int, float]) -> DispatchRun:
        """Return the run with its work relative to the *means* of the warp classes."""
        found = [work / means[kind] if means[kind] else 1.0 for kind, work in self.works] or [1.0]
        return DispatchRun(self.group, self.number, sum(found) / len(found), max(found))


def _at_work(
    order: Sequence[tuple[int, int]],
    classes: Mapping[Composition, int],
    kinds: Sequence[WarpKind],
    grid: Grid,
    host: tuple[int, ...],
    places: "_Places",
) -> Iterator[_Counted]:
    """Yield the runs of *order*, with unequal runs divided into parts, each with the work of one of its groups."""
    made_of = list(classes)
    unequal = [any(not kinds[kind].is_uniform for kind, _ in each) for each in made_of]
    every = sum(number for group, number in order if unequal[group])
    first = parts_before = 0
    for group, number in order:
        parts = min(number, max(1, MOST_RUNS * number // every)) if unequal[group] else 1
        bounds = [number * part // parts for part in range(parts + 1)]
        for part, (begin, end) in enumerate(pairwise(bounds), parts_before):
            # Evenly spaced samples would alias with periodic work.
            at = begin + int((0.5 + part * SPREAD) % 1 * (end - begin))
            works = tuple(places.works((*host, *grid.place(first + at)))) if unequal[group] else ()
            yield _Counted(group, end - begin, works)
        first, parts_before = first + number, parts_before + parts


def _means(found: Iterable[tuple[float, Iterable[_Counted]]]) -> dict[int, float]:
    """Return warp class -> mean work of its examined warps, weighted by the groups that they represent."""
    works: dict[int, float] = {}
    weights: dict[int, float] = {}
    for times, counted in found:
        for each in counted:
            weight = times * each.number / max(1, len(each.works))
            for kind, work in each.works:
                works[kind] = works.get(kind, 0.0) + weight * work
                weights[kind] = weights.get(kind, 0.0) + weight
    return {kind: works[kind] / weights[kind] for kind in works}


# }}}

# {{{ positions of warps


class _Places:
    """The positions of the warps of each class in the grid."""

    def __init__(self, kinds: Sequence[WarpKind], grid: Grid) -> None:
        self.kinds, self.grid = kinds, grid
        regions = SetMemory[int]()
        self._regions = [regions.setdefault(kind.places, number) for number, kind in enumerate(kinds)]
        """warp class -> the first class with the same positions"""
        self._boxes = {number: Points(kinds[number].places).boxes for number in self._regions}
        self._works: dict[tuple[int, ...], int] = {}
        self._deciding = [
            [axis for axis in range(len(kind.example)) if any(each.depends_on(axis) for each in kind.numbers)]
            for kind in kinds
        ]
        """warp class -> the axes that its work depends on"""

    def order(self, host: tuple[int, ...]) -> list[tuple[Composition, int]]:
        """Return (group composition, number of consecutive groups) in dispatch order."""
        cells = self._cells(host)
        found = [*_along(*cells)] if cells is not None else [*self._listed(host)]
        return _joined(found)

    # {{{ boxes

    def _cells(self, host: tuple[int, ...]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]], int] | None:
        """Return the warp class in each cell, the cell lengths along each axis, and the number of classes.

        Return None if the positions of a class are not a few boxes, or if there are too many cells.
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
        places = [{end: place for place, end in enumerate(cut.tolist())} for cut in cuts]
        for kind, box in parts:
            ends = zip(places, box, strict=True)
            cells[tuple(slice(place[along.start], place[along.stop]) for place, along in ends)] = kind
        return cells, [np.diff(each) for each in cuts], len(self.kinds)

    def _parts(self, number: int, host: tuple[int, ...]) -> Iterator[tuple[int, Box]]:
        """Yield (class, box) for the boxes of a warp class, without the host axes."""
        kind, hosts = self.kinds[number], len(host)
        for box in self._boxes[self._regions[number]] or ():
            for values in kind.values or ((),):
                here = list(box)
                for axis, value in zip(kind.axes, values, strict=bool(kind.values)):
                    here[axis] = range(value, value + 1) if value in here[axis] else range(0)
                if all(map(len, here)) and all(value in along for value, along in zip(host, here, strict=False)):
                    yield number, tuple(here[hosts:])

    # }}}

    # {{{ one by one

    def _listed(self, host: tuple[int, ...]) -> Iterator[tuple[Composition, int]]:
        """Yield (group composition, number of groups) group by group, or for groups that represent their neighbors."""
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
        """Return the class of each warp; shape (groups, warps per group)."""
        size = self.grid.warps
        rows = np.empty((len(groups) * size, len(host) + groups.shape[1] + 1), dtype=np.int64)
        rows[:, : len(host)] = host
        rows[:, len(host) : -1] = np.repeat(groups, size, axis=0)
        rows[:, -1] = np.tile(np.arange(size), len(groups))
        found = np.full(len(rows), -1, dtype=np.int64)
        inside: dict[int, NDArray[np.bool_]] = {}
        for number, kind in enumerate(self.kinds):
            region = self._regions[number]
            if region not in inside:
                inside[region] = contained(kind.places, [*rows.T])
            here = inside[region]
            if kind.values:
                values = dict.fromkeys(kind.values)
                at = np.flatnonzero(here)
                mine = [tuple(row) in values for row in rows[at][:, list(kind.axes)].tolist()]
                found[at[np.array(mine, dtype=np.bool_)]] = number
            else:
                found[here] = number
        return found.reshape(len(groups), size)

    # }}}

    def works(self, group: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Yield (class, work) for some warps of *group* in non-uniform classes."""
        (kinds,) = self._kinds_in((), np.array([group], dtype=np.int64)).tolist()
        unequal = [(warp, kind) for warp, kind in enumerate(kinds) if not self.kinds[kind].is_uniform]
        last = len(unequal) - 1
        chosen = {last * part // (LOOKED_AT - 1) for part in range(LOOKED_AT)} if last >= 0 else set[int]()
        for warp, kind in (unequal[at] for at in sorted(chosen)):
            yield kind, self._work(kind, (*group, warp))

    def _work(self, number: int, place: tuple[int, ...]) -> int:
        kind = self.kinds[number]
        key = (number, *(place[axis] for axis in self._deciding[number]))
        if key not in self._works:
            self._works[key] = kind.work(place)
        return self._works[key]


def _along(
    cells: NDArray[np.int64], lengths: Sequence[NDArray[np.int64]], kinds: int
) -> Iterator[tuple[Composition, int]]:
    """Yield (group composition, number of groups) in dispatch order: along the first axis first."""
    numbers = np.stack([(cells == kind) @ lengths[-1] for kind in range(kinds)], axis=-1)
    grid = numbers.shape[:-1]
    rows: list[list[int]] = numbers.reshape(-1, kinds).tolist()
    made_of = [_composition(row) for row in rows]

    def slab(axis: int, inner: tuple[int, ...]) -> list[tuple[Composition, int]]:
        """Return the groups along axes 0 to *axis*, at the cells *inner* of the later axes."""
        if axis < 0:
            return [(made_of[int(np.ravel_multi_index(inner, grid)) if inner else 0], 1)]
        found: list[tuple[Composition, int]] = []
        for at, length in enumerate(lengths[axis].tolist()):
            found += _repeated(slab(axis - 1, (at, *inner)), length)
        return _joined(found)

    yield from slab(len(grid) - 1, ())


def _composition(numbers: Iterable[int]) -> Composition:
    """Return the composition of a group, given its *numbers* of warps of each class."""
    return tuple((kind, number) for kind, number in enumerate(numbers) if number)


def _repeated(order: list[tuple[Composition, int]], times: int) -> list[tuple[Composition, int]]:
    """Return *order* repeated *times* times; repetitions are combined if there would be too many runs."""
    if len(order) == 1:
        return [(order[0][0], order[0][1] * times)]
    blocks = max(1, min(times, MOST_RUNS // len(order)))
    sizes = [times * (block + 1) // blocks - times * block // blocks for block in range(blocks)]
    return [(made_of, number * size) for size in sizes for made_of, number in order]


def _joined(order: Iterable[tuple[Composition, int]]) -> list[tuple[Composition, int]]:
    """Return *order* with equal neighbors merged."""
    found: list[tuple[Composition, int]] = []
    for made_of, number in order:
        if found and found[-1][0] == made_of:
            found[-1] = made_of, found[-1][1] + number
        else:
            found.append((made_of, number))
    return found


# }}}


def _merged(runs: Sequence[DispatchRun]) -> Order:
    """Return *runs*; if there are too many, neighboring runs of the same class are merged."""
    at_once = -(-len(runs) // MOST_RUNS)
    if at_once == 1:
        return tuple(runs)
    found: list[DispatchRun] = []
    for begin in range(0, len(runs), at_once):
        by_class: dict[int, DispatchRun] = {}
        for each in runs[begin : begin + at_once]:
            before = by_class.get(each.group)
            by_class[each.group] = each if before is None else _together(before, each)
        found += by_class.values()
    return tuple(found)


def _together(one: DispatchRun, other: DispatchRun) -> DispatchRun:
    number = one.number + other.number
    work = (one.work * one.number + other.work * other.number) / number
    return replace(one, number=number, work=work, longest=max(one.longest, other.longest))
