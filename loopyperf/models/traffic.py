"""Memory levels that serve the accesses of each array of a launch, derived from the kernel's footprints.

A cache requests from the next level what it does not keep (the R of Lemeire, section 6.3). Stores are written to the
next level: a line that is both loaded and stored while a cache holds it is moved twice.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, pairwise, product
from math import prod
from statistics import fmean
from typing import NamedTuple

from loopyperf.device.description import Device, MemoryLevel
from loopyperf.device.lambdas import DRAM, global_levels
from loopyperf.device.parts import Lanes, Per
from loopyperf.idg.program import Opcode
from loopyperf.memory.footprints import FIRST, LayerConditions, Window, WorkingSets, working_sets
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.memory.private_reuse import Moved, StackReuse
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.memory.touched_sectors import NEARLY_ALL, Touched
from loopyperf.pipeline.timed_program import Served

# {{{ sample groups for a launch with several warp classes


SAMPLED_GROUPS = 8
"""Number of groups to which the warp classes are distributed."""
SAMPLE_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)
"""Order in which these execute, so that the first few are representative, too (van der Corput's sequence)."""


def sampled_warp_classes(launch: LaunchProfile) -> Iterator[int]:
    """Yield the warp classes of the warps of some groups, one at a time, in proportion to their shares of all warps.

    Classes with different numbers of barriers are in different groups.
    """
    if len(launch.classes) == 1:
        yield 0
        return
    together: dict[float, list[int]] = {}
    for number, kind in enumerate(launch.classes):
        barriers = sum(float(each.executions) for each in kind.graph.instructions if each.kind == Opcode.BARRIER)
        together.setdefault(barriers, []).append(number)
    warps = [[launch.classes[number].warps for number in kinds] for kinds in together.values()]
    size = launch.warps_per_group
    found: list[list[int]] = []
    for kinds, of_kinds, groups in zip(
        together.values(), warps, apportioned(SAMPLED_GROUPS, [*map(sum, warps)]), strict=True
    ):
        numbers = apportioned(groups * size, of_kinds)
        inside = sorted(zip(kinds, numbers, strict=True), key=lambda each: launch.classes[each[0]].example.number)
        slots = [kind for kind, number in inside for _ in range(number)]
        found += [slots[group::groups] for group in range(groups)]
    yield from chain.from_iterable(found[index] for index in SAMPLE_ORDER)


def apportioned(whole: int, weights: Sequence[int]) -> list[int]:
    """Return *whole* split in proportion to *weights*, rounded by the largest-remainder method."""
    exact = [whole * weight / sum(weights) for weight in weights]
    parts = [int(each) for each in exact]
    nearest = sorted(range(len(weights)), key=lambda index: parts[index] - exact[index])
    for index in nearest[: whole - sum(parts)]:
        parts[index] += 1
    return parts


# }}}


# {{{ traffic of a cache per group, given the other groups that it serves
#
# Resident groups share a core's cache equally, after local memory is subtracted from it. The device's cache serves
# rounds of groups, as many as reside on all cores at once: data of one round stays for the next if the footprints of
# both fit. Within a round, the layer conditions of :mod:`loopyperf.memory.footprints` determine the refetches.


SIDE_POSITIONS = (0.25, 0.75)
"""Positions of the groups, relative to all, that are sampled if the middle group is not representative."""
MIN_PAIR_SHARE = 0.02
"""Share of pairs of groups below which their distance is ignored."""
GROUPS_GROWTH = 8
"""Factor between the numbers of groups, along an axis of the grid, between which new data are counted."""
MAX_CAPACITIES = 32
"""Capacities of the cache from which on the lines of groups are too many for it to hold a common part."""
MAX_AXIS_GROUPS = 200
"""Groups along an axis of the grid beyond which a partly filled last one is less than half a percent."""
UNEQUAL_RATIO = 1.1
"""Ratio of touched lines at which the groups on either side are sampled instead of the middle one."""


@dataclass(frozen=True)
class Residence:
    """Number of groups of a launch that reside at once."""

    on_core: int
    on_device: int
    cores: int
    """Number of cores of the device."""


class ArrayStream(NamedTuple):
    """Loads of an array in global memory, or stores to it."""

    array: str
    kind: str
    """``"load"`` or ``"store"``."""


@dataclass(frozen=True)
class CachedGroups:
    """A cache of known size, and the groups of a launch that it serves."""

    launch: LaunchProfile
    level: MemoryLevel
    residence: Residence
    mean_of: Mapping[ArrayStream, float] = field(default_factory=dict[ArrayStream, float])
    """Requests of the mean group, relative to those of the middle group."""
    unit: int = SECTOR
    """bytes that the next level delivers at once"""

    @cached_property
    def coarse(self) -> LaunchProfile | None:
        """Return the launch with all distances divided so that a delivery is a sector; None if one is a sector.

        Distances that are not divisible are those of narrow types, assumed to be in contiguous accesses.
        """
        number, accesses = self.unit // SECTOR, self.launch.footprints.accesses
        if number == 1 or any(each % number for access in accesses for each in (access.width, *access.axes)):
            return None
        divided = tuple(each.divided(number) for each in accesses)
        return replace(self.launch, footprints=replace(self.launch.footprints, accesses=divided))

    def delivered(self, groups: "Groups", way: ArrayStream, ways: Collection[ArrayStream]) -> float:
        """Return the sectors that the next level delivers if it delivers all that *groups* touch once."""
        coarse = Groups(self.coarse, groups.along) if self.coarse else None
        return self.unit // SECTOR * coarse.touched(way, ways) if coarse else groups.touched(way, ways)

    def excess(self, way: ArrayStream, ways: Collection[ArrayStream]) -> float:
        """Return the sectors that the next level delivers over those that a group touches; 1 if these are adjacent."""
        if self.coarse is None:
            return 1.0
        group = neighbours(self.launch, 1)
        touched = group.touched(way, ways)
        return self.delivered(group, way, ways) / touched if touched else 1.0

    def _exchanged(self, groups: "Groups", way: ArrayStream, ways: Collection[ArrayStream]) -> float:
        """Return the sectors that the next level delivers for loads, or gets from stores."""
        return self.delivered(groups, way, ways) if way.kind == "load" else groups.touched(way, ways)

    @property
    def room(self) -> float:
        """Return the capacity less local memory, in bytes."""
        local = (self.launch.local_memory or 0) * self.residence.on_core if self.level.holds_local_memory else 0
        return max(self.level.needed("size") - local, 0)

    @property
    def capacity(self) -> float:
        """Return the capacity for data that all cores load, in bytes: each partition has a copy."""
        return self.level.needed("size") / (self.level.partitions or 1)

    def moved(self, ways: Collection[ArrayStream]) -> dict[ArrayStream, float]:
        """Return the sectors that it fetches for the loads of a group, and those that it writes for its stores."""
        if self.level.per == Per.CORE:
            places = [None] if len(self.launch.classes) == 1 else self._places(1)
            moved = _mean([self._moved_by_a_core(position, ways) for position in places])
            return (
                {way: each * self.mean_of.get(way, 1.0) for way, each in moved.items()} if len(places) == 1 else moved
            )
        everything = Groups.all_of(self.launch)
        if everything.lines * LINE <= self.capacity:
            moved = everything.moved(self.capacity, ways)
            touched = {way: everything.touched(way, ways) for way in moved}
            return {
                way: sectors * self._exchanged(everything, way, ways) / touched[way] if touched[way] else sectors
                for way, sectors in moved.items()
            }
        return _mean([self._moved_in_rounds(position, ways) for position in self._places(self.residence.on_device)])

    def _moved_by_a_core(self, position: float | None, ways: Collection[ArrayStream]) -> dict[ArrayStream, float]:
        """Return the traffic of one group in a core's cache, whose groups run concurrently and consecutively.

        The cache holds data that all groups touch once. The next group hits it to the extent that the combined
        footprint of the resident groups fits.
        """
        group, here = neighbours(self.launch, 1, position), self.residence.on_core
        if self.launch.groups <= self.residence.cores:  # each has its own core
            return group.moved(self.room / here, ways)
        shared = group.shared(self.residence.cores)
        of_all = float(shared.lines) * LINE
        own = max(float(group.lines) * LINE - of_all, 0.0)
        held = min(1.0, self.room / (own * here + of_all)) if own or of_all else 1.0
        moved = group.moved((self.room + held * of_all * (here - 1)) / here, ways)
        after_another = 1 - self.residence.cores / self.launch.groups
        for way in moved:
            if way.kind == "load":
                again = shared.sectors.get(way.array, 0.0)
                moved[way] = max(0.0, moved[way] - again * held * after_another)
        return moved

    def _places(self, at_once: int) -> Sequence[float | None]:
        """Return the positions of the groups to sample, *at_once* of which run at once: middle (None) or sides.

        The middle is not representative if the groups on either side touch more lines, as in an array that is added to
        its own reverse (only the middle groups share lines), or if groups differ in work, as in a triangle.
        """
        here, *there = (neighbours(self.launch, at_once, position).lines for position in (None, *SIDE_POSITIONS))
        touching = tuple(position for position, lines in zip(SIDE_POSITIONS, there, strict=True) if lines)
        if len(touching) < len(SIDE_POSITIONS):  # groups on one side are idle
            return touching or (None,)
        return SIDE_POSITIONS if max(sum(there), 2 * here) > UNEQUAL_RATIO * min(sum(there), 2 * here) else (None,)

    def _moved_in_rounds(self, position: float | None, ways: Collection[ArrayStream]) -> dict[ArrayStream, float]:
        """Return the traffic of one group if rounds of resident groups follow each other.

        Of the data shared with the previous round, the cache still holds the fraction that fits, given the footprint of
        both rounds. Groups of a round drift apart, so they may fetch shared data more than once.
        """
        at_once, size = self.residence.on_device, self.capacity
        round_, two = (neighbours(self.launch, number, position) for number in (at_once, 2 * at_once))
        moved = round_.moved(size * round_.number / at_once, ways)
        apart = self._fetched_apart(position, moved)
        held = min(1.0, size * two.number / (2 * at_once) / float(two.lines * LINE))
        after_another = 1 - round_.number / self.launch.groups
        for way, sectors in moved.items():
            touched = round_.touched(way, ways) / round_.number
            if two.number > round_.number:
                anew = (two.touched(way, ways) - touched * round_.number) / (two.number - round_.number)
                sectors -= max(0.0, touched - anew) * held * after_another
            moved[way] = max(0.0, sectors, apart[way] + max(0.0, moved[way] - touched))
        return moved

    def _fetched_apart(self, position: float | None, ways: Collection[ArrayStream]) -> dict[ArrayStream, float]:
        """Return the traffic of one group, without repeated fetches of its own, if groups run one after the other.

        A group finds the data of the group *n* before it to the extent that the cache holds the lines that *n* groups
        touch beyond those of one. New data are counted over several groups, because they start at different offsets in
        sectors.
        """
        everything = Groups.all_of(self.launch)
        several = [neighbours(self.launch, 1, position)]
        found = {way: self._exchanged(everything, way, ways) / everything.number for way in ways}
        shared = [way for way, once in found.items() if self._exchanged(several[0], way, ways) > UNEQUAL_RATIO * once]
        if not shared:
            return found
        for number in _more_and_more(self.launch.grid):
            if several[-1].lines * LINE < MAX_CAPACITIES * self.capacity:
                several.append(neighbours(self.launch, number, position))
        lines = [max(float(each.lines - several[0].lines), 1.0) for each in several]
        held = [min(1.0, self.capacity / (LINE * line)) for line in lines]
        for way in shared:
            fetched = anew = self._exchanged(several[0], way, ways)
            for (few, more), share in zip(pairwise(several), held, strict=False):
                together = self._exchanged(more, way, ways) - self._exchanged(few, way, ways)
                before, anew = anew, min(anew, together / (more.number - few.number))
                fetched -= (before - anew) * share
            found[way] = max(fetched, found[way])
        return found


def _more_and_more(grid: Mapping[int, int]) -> Iterator[int]:
    """Yield numbers of adjacent groups: parts of a row of the grid, whole rows, parts of a plane, and so on."""
    below = 1
    for _, length in sorted(grid.items()):
        along = 1
        while along < length:
            along = min(length, GROUPS_GROWTH * along)
            yield below * along
        below *= length


class CommonLoads(NamedTuple):
    """Data that both of two groups load."""

    sectors: Mapping[str, float]
    """Sectors by array."""
    lines: float
    """Lines of all arrays."""


def steps_between(grid: Mapping[int, int], distance: int) -> list[tuple[float, dict[int, int]]]:
    """Return the possible steps along each axis of *grid* between groups *distance* apart, with their shares of pairs.

    Groups are numbered along axis 0 first: some pairs are in one row, in others the second group is in a later row.
    """
    found: list[tuple[float, dict[int, int], int]] = [(1.0, {}, distance % max(1, prod(grid.values())))]
    for axis, length in sorted(grid.items()):
        further: list[tuple[float, dict[int, int], int]] = []
        for share, along, left in found:
            step = left % length
            if step:
                further.append((share * step / length, along | {axis: step - length}, left // length + 1))
            further.append((share * (length - step) / length, along | {axis: step}, left // length))
        found = further
    often = [(share, along) for share, along, _ in found if share > MIN_PAIR_SHARE]
    together = sum(share for share, _ in often)
    return [(share / together, along) for share, along in often]


@dataclass(frozen=True)
class Groups:
    """Adjacent groups in the grid of a launch."""

    launch: LaunchProfile
    along: Mapping[int, range]
    """Grid axis -> indices of the groups along it."""

    @classmethod
    def all_of(cls, launch: LaunchProfile) -> "Groups":
        """Return all groups of *launch*."""
        return cls(launch, {axis: range(length) for axis, length in launch.grid.items()})

    @property
    def number(self) -> int:
        """Return the number of groups."""
        return prod(map(len, self.along.values()))

    @cached_property
    def window(self) -> Window:
        """Return the window of the launch's footprints that the groups cover."""
        return self.launch.footprints.window(self.along, self.launch.accessing.host)

    @cached_property
    def lines(self) -> Fraction:
        """Return the number of lines, of all arrays, that the groups touch together."""
        touched = self._sets.touched(self._sets.program, self.window)
        return sum((each.lines for each in touched.values()), Fraction(0))

    def touched(self, way: ArrayStream, ways: Collection[ArrayStream]) -> float:
        """Return the sectors of an array that they load without having stored them, or those that they store."""
        kind = FIRST if way.kind == "load" and ArrayStream(way.array, "store") in ways else way.kind
        touched = self._sets.touched(self._sets.program, self.window, way.array, kind)
        return float(touched.get(way.array, Touched()).sectors)

    def shared(self, distance: int) -> "CommonLoads":
        """Return what a group and the group *distance* after it both load, as a mean over all groups."""
        sectors: dict[str, float] = {}
        lines = 0.0
        grid = self.launch.grid
        for weight, along in steps_between(grid, distance):
            there = {axis: (self.along[axis].start + step) % grid[axis] for axis, step in along.items()}
            after = Groups(self.launch, {axis: range(position, position + 1) for axis, position in there.items()})
            for array, each in self._sets.common(self.window, after.window, "load").items():
                sectors[array] = sectors.get(array, 0.0) + weight * float(each.sectors)
                lines += weight * float(each.lines)
        return CommonLoads(sectors, lines)

    def moved(self, room: float, ways: Collection[ArrayStream]) -> dict[ArrayStream, float]:
        """Return the sectors per group that an initially empty cache of *room* bytes moves.

        Sectors of an array that were stored before are not fetched, to the extent that the cache holds them.
        """
        cache, window = LayerConditions(self._sets, room), self.window
        loaded, stored = ({way.array for way in ways if way.kind == kind} for kind in ("load", "store"))
        together = cache.fetched(window)
        found = {way: together[way.array] for way in ways if way.array in together}
        if loaded & stored:
            held = cache.held(window)
            first = self._sets.touched(self._sets.program, window, kind=FIRST)
            apart = {kind: replace(cache, kind=kind).fetched(window) for kind in ("load", "store")}
            for way in (way for way in found if way.array in loaded & stored):
                each = apart[way.kind].get(way.array, Touched())
                if way.kind == "load":
                    each = each.times(1 - held) + first.get(way.array, Touched()).times(held)
                found[way] = each
        return {way: float(each.sectors) / self.number for way, each in found.items()}

    @property
    def _sets(self) -> WorkingSets:
        return working_sets(self.launch.footprints)


def neighbours(launch: LaunchProfile, number: int, position: float | None = None) -> Groups:
    """Return at least *number* adjacent groups, in the order of the grid's axes.

    They are around the representative group in the middle, or at the relative position *position* in [0, 1]. They fill
    whole rows: there are at most twice as many.
    """
    found: dict[int, range] = {}
    for axis, length in sorted(launch.grid.items()):
        here = min(length, max(1, number))
        about = launch.accessing.example.groups.get(axis, 0) if position is None else int(position * (length - 1))
        first = min(max(0, about - here // 2), length - here)
        found[axis] = range(first, first + here)
        number = -(-number // here)
    return Groups(launch, found)


def _mean(moved: Sequence[Mapping[ArrayStream, float]]) -> dict[ArrayStream, float]:
    """Return the mean traffic over several positions."""
    return {way: fmean(each.get(way, 0.0) for each in moved) for way in dict.fromkeys(chain(*moved))}


# }}}


# {{{ traffic


COMBINED_SECTORS = 16
"""Sectors per instruction up to which a core combines consecutive stores of an iteration to the same sectors. Of up to
twice as many it combines a part. Measured on an H200, which takes 60 ps for a store to 16 sectors that the next stores
complete, 155 ps for 24 sectors, and 290 to 440 ps for 32 (docs/accuracy/h200.md)."""


@dataclass(frozen=True)
class RequestedSectors:
    """Sectors that a group requests for the loads of an array, or for the stores to it."""

    sectors: float = 0.0
    """sectors, summed over instructions"""
    partial: float = 0.0
    """those of which the instruction accesses a part"""
    distinct: float = 0.0
    """distinct bytes of each instruction"""
    executions: float = 0.0
    """executed instructions"""
    instructions: int = 0
    """different instructions, which execute in turn"""

    def __add__(self, other: "RequestedSectors") -> "RequestedSectors":
        return RequestedSectors(
            self.sectors + other.sectors,
            self.partial + other.partial,
            self.distinct + other.distinct,
            self.executions + other.executions,
            max(self.instructions, other.instructions),
        )

    def times(self, number: float) -> "RequestedSectors":
        """Return the requests of *number* times as many warps."""
        return replace(
            self,
            sectors=self.sectors * number,
            partial=self.partial * number,
            distinct=self.distinct * number,
            executions=self.executions * number,
        )

    def combined(self, at_once: float) -> tuple[float, float]:
        """Return the stored sectors that leave the core, and those of them that are partial, over those requested.

        *at_once* is the number of sectors that single iterations touch.
        """
        times = min(self.sectors / at_once, self.instructions) if at_once else 1.0
        if times <= 1:
            return 1.0, self.partial / self.sectors if self.sectors else 0.0
        merging = min(1.0, max(0.0, 2 - self.sectors / self.executions / COMBINED_SECTORS))
        is_whole = self.distinct * times >= NEARLY_ALL * self.sectors * SECTOR
        partial = self.partial / self.sectors
        return 1 - merging * (1 - 1 / times), partial * (1 - merging + (0 if is_whole else merging / times))

    def filled(self, distinct: float) -> float:
        """Return how many of *distinct* stored sectors must be read, because stores leave gaps in them."""
        whole = self.sectors - self.partial
        partly = max(0.0, distinct - whole)
        return partly if self.distinct - whole * SECTOR < NEARLY_ALL * partly * SECTOR else 0.0


def levels_that_serve(
    launch: LaunchProfile,
    device: Device,
    residence: Residence,
    requested: Mapping[ArrayStream, RequestedSectors],
    mean_of: Mapping[ArrayStream, float] | None = None,
) -> dict[ArrayStream, Served]:
    """Return the levels that serve the loads and stores of each array.

    *requested* are the requests of the mean group; *mean_of* is their ratio to the requests of the middle group
    (default 1).

    A core's cache is write-through, so that a farther cache of known size combines stores on its own.
    """
    sectors = {way: each.sectors for way, each in requested.items()}
    if device.lanes == Lanes.IN_TURN:  # a processor's own caches collect the parts of a sector
        requested = {way: RequestedSectors(number) for way, number in sectors.items()}
    at_once = _touched_at_once(launch, neighbours(launch, 1), sectors)
    by_mean = _by_mean_group(launch, sectors)
    nearest = global_levels(device)[0].name
    asked, waited = ({way: {nearest: 1.0} for way in sectors} for _ in range(2))
    left, partial, filled = dict(sectors), dict.fromkeys(sectors, 0.0), dict.fromkeys(sectors, 0.0)
    for level, farther in pairwise(global_levels(device)):
        # A cache of unknown size is assumed to pass all requests on.
        unit = (farther.sector or SECTOR) if farther.name == DRAM else SECTOR
        cached = CachedGroups(launch, level, residence, mean_of or {}, unit)
        moved = cached.moved(sectors.keys()) if level.size is not None else {}
        for way, number in sectors.items():
            if way in moved:
                most = left[way] * cached.excess(way, sectors.keys()) if way.kind == "load" else number
                left[way] = min(most, moved[way])
            touched = at_once.get(way, 0.0) * (mean_of or {}).get(way, 1.0)
            distinct = min(number, touched) or number
            asked[way][farther.name] = left[way] / number if number else 0.0
            if way.kind == "store" and farther.name != DRAM:
                asked[way][farther.name], partial[way] = requested[way].combined(distinct)
            distinct = min(number, by_mean.get(way, touched)) or number
            waited[way][farther.name] = min(1.0, left[way] / distinct) if distinct else 0.0
            if farther.name == DRAM and way.kind == "store" and requested[way].partial:
                filled[way] = _filled(cached, way, requested) / number
                asked[way][DRAM] += filled[way]
    return {way: Served(asked[way], waited[way], partial[way], filled[way]) for way in sectors}


def _touched_at_once(launch: LaunchProfile, groups: Groups, ways: Collection[ArrayStream]) -> dict[ArrayStream, float]:
    """Return the sectors that single iterations of *groups* touch, summed over the iterations."""
    sets = working_sets(launch.footprints)
    touched = {kind: sets.at_once(groups.window, kind) for kind in {way.kind for way in ways}}
    return {way: float(touched[way.kind].get(way.array, Touched()).sectors) for way in ways}


def _by_mean_group(launch: LaunchProfile, ways: Collection[ArrayStream]) -> dict[ArrayStream, float]:
    """Return :func:`_touched_at_once` of the mean group: the last groups may touch less than the middle one.

    Empty if active warps do unequal work, as in a triangle, or if the grid is so large that the last groups do not
    matter. Partial warps count as whole ones in the requests, but not in what caches deliver.
    """
    here = neighbours(launch, 1).along
    are_equal = len({each.executed_accesses for each in launch.classes} - {0}) == 1
    if (
        not are_equal
        or any(not each.is_uniform for each in launch.classes)
        or max(launch.grid.values(), default=1) > MAX_AXIS_GROUPS
    ):
        return {}
    parts = [
        [(1 / length, axis, at), (1 - 1 / length, axis, here[axis])] if length > 1 else [(1.0, axis, here[axis])]
        for axis, length in launch.grid.items()
        for at in [range(length - 1, length) if here[axis].start + 1 < length else range(1)]
    ]
    found = dict.fromkeys(ways, 0.0)
    for chosen in product(*parts):
        groups = Groups(launch, {axis: at for _, axis, at in chosen})
        for way, sectors in _touched_at_once(launch, groups, ways).items():
            found[way] += prod(share for share, _, _ in chosen) * sectors
    return found


def _filled(cached: CachedGroups, way: ArrayStream, requested: Mapping[ArrayStream, RequestedSectors]) -> float:
    """Return the sectors per group that DRAM reads because the stores of *way* leave gaps in them.

    Loaded sectors are in the cache already.
    """
    everything = Groups.all_of(cached.launch)
    distinct = everything.touched(way, requested)
    if not distinct or ArrayStream(way.array, "load") in requested:
        return 0.0
    together = cached.delivered(everything, way, requested) / distinct
    return together * requested[way].filled(distinct / everything.number)


def sectors_touched(launch: LaunchProfile) -> float:
    """Return a lower bound of the sectors, of all arrays, that one execution of *launch* fetches and writes."""
    sets = working_sets(launch.footprints)
    everywhere = Groups.all_of(launch).window
    every, first, stored = (sets.touched(sets.program, everywhere, kind=kind) for kind in (None, FIRST, "store"))
    once = sum(each.sectors for array, each in every.items() if array not in first)
    return float(once + sum(each.sectors + stored[array].sectors for array, each in first.items()))


def stored_at_once(launch: LaunchProfile, residence: Residence) -> Mapping[str, Touched]:
    """Return array -> the part that the resident groups in the middle of *launch* store to."""
    sets = working_sets(launch.footprints)
    return sets.touched(sets.program, neighbours(launch, residence.on_device).window, kind="store")


def levels_that_serve_stacks(
    launch: LaunchProfile, device: Device, residence: Residence, stacks: Mapping[int, StackReuse], order: Sequence[int]
) -> dict[str, Served]:
    """Return ``"load"`` and ``"store"`` -> the levels that serve private memory.

    *stacks* has the accesses of each warp class, *order* the warp classes of some groups. The caches keep an equal part
    of the stack of each warp. A cache of unknown size keeps all of it.
    """
    levels = global_levels(device)
    asked: dict[str, dict[str, float]] = {kind: {levels[0].name: 1.0} for kind in ("load", "store")}
    fetched = written = 1.0
    for level, farther in pairwise(levels):
        if level.size is not None:
            groups = residence.on_device if level.per == Per.DEVICE else residence.on_core
            room = CachedGroups(launch, level, residence).room / (groups * launch.warps_per_group)
            by_stack = {stack: stack.moved(room) for stack in dict.fromkeys(stacks.values())}
            moved = Moved(*map(sum, zip(*(by_stack[stacks[kind]] for kind in order), strict=True)))
            fetched = min(fetched, moved.fetched / moved.loads) if moved.loads else 0.0
            # Each cache combines stores on its own: a core's cache is write-through.
            written = moved.written / moved.stores if moved.stores else 0.0
        asked["load"][farther.name], asked["store"][farther.name] = fetched, written if farther.name == DRAM else 1.0
    return {kind: Served(shares, shares) for kind, shares in asked.items()}


# }}}
