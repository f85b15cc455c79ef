"""Which level of memory serves what a launch asks of each array: found from the kernel, not by a profiler.

A cache of a core holds what the groups that reside there touch, one as much as the other, beside the local memory that
is taken from it; a cache of the device, what all groups that reside at once touch. What it does not keep, by the layer
conditions of :mod:`loopyperf.idg.access.reuse`, is asked of the next level (the R of Lemeire, section 6.3). What is
stored is written to it: a line that is both loaded and stored while a cache has it is moved twice.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import NamedTuple

from loopyperf.device.description import Device, MemoryLevel
from loopyperf.device.memory_lambdas import DRAM, global_levels
from loopyperf.idg.access.blocks import Touched
from loopyperf.idg.access.private_reuse import Moved, StackReuse
from loopyperf.idg.access.reuse import Cache
from loopyperf.idg.access.sectors import LINE
from loopyperf.idg.access.working_sets import FIRST, Window, WorkingSets
from loopyperf.idg.construction.kernel_graphs import LaunchGraphs

MORE = 1.1
"""times as many lines: groups on either side that touch so many more, or less, are looked at in the middle's stead"""


@dataclass(frozen=True)
class Residence:
    """How many groups of a launch reside at once."""

    on_core: int
    on_device: int


class Way(NamedTuple):
    """The loads of an array of global memory, or the stores to it."""

    array: str
    kind: str
    """``"load"`` or ``"store"``"""


@dataclass(frozen=True)
class Served:
    """How far accesses go, level by level, the nearest first."""

    asked: Mapping[str, float]
    """level -> the share of the sectors asked for that is moved from there, 1 for the nearest"""
    waited: Mapping[str, float]
    """level -> the share of accesses that wait for it, 1 for the nearest: those that find what another access has
    asked for already in the same pass wait as long as that one"""


def levels_that_serve(
    launch: LaunchGraphs, device: Device, residence: Residence, sectors: Mapping[Way, float]
) -> dict[Way, Served]:
    """Return how far the loads and the stores of each array go; *sectors* are those that a group asks for.

    A core's cache writes each store on at once, so that a farther one whose size is stated gathers them on its own.
    """
    sets = launch.representative.working_sets()
    window = sets.window(_around(launch, 1), launch.representative.host)
    at_once = {kind: sets.at_once(window, kind) for kind in {way.kind for way in sectors}}
    nearest = global_levels(device)[0].name
    asked, waited = ({way: {nearest: 1.0} for way in sectors} for _ in range(2))
    left = dict(sectors)
    for level, farther in pairwise(global_levels(device)):
        moved = _moved_by_group(launch, level, residence, sets, sectors.keys())
        for way, number in sectors.items():
            if way in moved:
                left[way] = min(left[way] if way.kind == "load" else number, moved[way])
            touched = at_once[way.kind].get(way.array)
            distinct = min(number, float(touched.sectors) if touched else 0.0) or number
            asked[way][farther.name] = left[way] / number if number else 0.0
            waited[way][farther.name] = min(1.0, left[way] / distinct) if distinct else 0.0
    return {way: Served(asked[way], waited[way]) for way in sectors}


def sectors_touched(launch: LaunchGraphs) -> float:
    """Return how many sectors of all arrays one execution of *launch* moves at least: fetches, and writes."""
    representative = launch.representative
    sets = representative.working_sets()
    everywhere = sets.window({axis: range(length) for axis, length in launch.grid.items()}, representative.host)
    every, first, stored = (sets.touched(sets.program.nest, everywhere, kind=kind) for kind in (None, FIRST, "store"))
    once = sum(each.sectors for array, each in every.items() if array not in first)
    return float(once + sum(each.sectors + stored[array].sectors for array, each in first.items()))


def levels_that_serve_stacks(
    launch: LaunchGraphs, device: Device, residence: Residence, stacks: Sequence[StackReuse]
) -> dict[str, Served]:
    """Return ``"load"`` and ``"store"`` -> how far accesses of private memory go, given those of warps of each kind.

    The caches keep as much of the *stacks* of all warps. Where the size of one is not stated, it keeps them.
    """
    levels = global_levels(device)
    asked: dict[str, dict[str, float]] = {kind: {levels[0].name: 1.0} for kind in ("load", "store")}
    fetched = written = 1.0
    distinct = {id(stack): stack for stack in stacks}
    for level, farther in pairwise(levels):
        if level.stated("size"):
            groups = residence.on_device if level.per == "device" else residence.on_core
            room = _room(launch, level, residence) / (groups * launch.warps_per_group)
            by_stack = {key: stack.moved(room) for key, stack in distinct.items()}
            moved = sum((by_stack[id(stack)] for stack in stacks), Moved())
            fetched = min(fetched, moved.fetched / moved.loads) if moved.loads else 0.0
            # Each cache gathers stores on its own: one of a core writes them on at once.
            written = moved.written / moved.stores if moved.stores else 0.0
        asked["load"][farther.name], asked["store"][farther.name] = fetched, written
    return {kind: Served(shares, shares) for kind, shares in asked.items()}


def _room(launch: LaunchGraphs, level: MemoryLevel, residence: Residence) -> float:
    """Return the bytes of *level* that local memory leaves."""
    local = (launch.local_memory or 0) * residence.on_core if level.holds_local_memory else 0
    return max(level.size - local, 0)


def _moved_by_group(
    launch: LaunchGraphs, level: MemoryLevel, residence: Residence, sets: WorkingSets, ways: Collection[Way]
) -> dict[Way, float]:
    """Return the sectors that *level* fetches for the loads of a group, and those that it writes for its stores.

    Nothing is known where its size is not stated.
    """
    if level.name == DRAM or not level.stated("size"):
        return {}
    host = launch.representative.host
    if level.per == "core":
        places = [_around(launch, 1)] if len(launch.kinds) == 1 else _places(launch, 1, sets)
        room = _room(launch, level, residence) / residence.on_core
    else:
        places, room = [{axis: range(length) for axis, length in launch.grid.items()}], level.size
        if _lines(sets, sets.window(places[0], host)) * LINE > room:
            places = _places(launch, residence.on_device, sets)
            room *= prod(map(len, places[0].values())) / residence.on_device
    found: dict[Way, float] = {}
    for place in places:
        for way, each in _moved(Cache(sets, room), sets.window(place, host), ways).items():
            found[way] = found.get(way, 0.0) + float(each.sectors) / prod(map(len, place.values())) / len(places)
    return found


def _places(launch: LaunchGraphs, groups: int, sets: WorkingSets) -> list[dict[int, range]]:
    """Return which groups are looked at where so many reside at once: those in the middle of all, or on either side.

    Where groups on either side touch more than those in the middle, these meet there what they would not elsewhere,
    as in an array that is added to itself reversed; or groups do not do as much as each other, as those of a triangle.
    """
    host = launch.representative.host
    middle, *sides = (_around(launch, groups, side) for side in (None, 0.25, 0.75))
    here, *there = (_lines(sets, sets.window(place, host)) for place in (middle, *sides))
    return sides if max(sum(there), 2 * here) > MORE * min(sum(there), 2 * here) else [middle]


def _lines(sets: WorkingSets, window: Window) -> Fraction:
    return sum((each.lines for each in sets.touched(sets.program.nest, window).values()), Fraction(0))


def _moved(cache: Cache, window: Window, ways: Collection[Way]) -> dict[Way, Touched]:
    """Return what *cache* fetches for loads in *window*, and what it writes for stores.

    Of arrays that are both loaded and stored, it need not fetch what was stored before, as far as it holds all.
    """
    loaded, stored = ({way.array for way in ways if way.kind == kind} for kind in ("load", "store"))
    together = cache.fetched(window)
    found = {way: together[way.array] for way in ways if way.array in together}
    if loaded & stored:
        held, nest = cache.held(window), cache.sets.program.nest
        first = cache.sets.touched(nest, window, kind=FIRST)
        apart = {kind: replace(cache, kind=kind).fetched(window) for kind in ("load", "store")}
        for way in (way for way in found if way.array in loaded & stored):
            each = apart[way.kind].get(way.array, Touched())
            if way.kind == "load":
                each = each.times(1 - held) + first.get(way.array, Touched()).times(held)
            found[way] = each
    return found


def _around(launch: LaunchGraphs, groups: int, side: float | None = None) -> dict[int, range]:
    """Return so many *groups* or some more, one after the other, by the axes of the grid.

    They are about the representative one, in the middle, or about that share of all on one *side* of them. They fill
    rows: there are no more than twice as many.
    """
    found: dict[int, range] = {}
    for axis, length in sorted(launch.grid.items()):
        number = min(length, max(1, groups))
        about = launch.representative.example.groups.get(axis, 0) if side is None else int(side * length)
        first = min(max(0, about - number // 2), length - number)
        found[axis] = range(first, first + number)
        groups = -(-groups // number)
    return found
