"""Which level of memory serves what a launch asks of each array: found from the kernel, not by a profiler.

A cache of a core holds what the groups that reside there touch, one as much as the other, beside the local memory that
is taken from it; a cache of the device, what all groups that reside at once touch. What it does not keep, by the layer
conditions of :mod:`loopyperf.idg.access.reuse`, is asked of the next level (the R of Lemeire, section 6.3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from loopyperf.device.description import Device, MemoryLevel
from loopyperf.device.memory_lambdas import DRAM, global_levels
from loopyperf.idg.access.private_reuse import Moved, StackReuse
from loopyperf.idg.access.reuse import Cache
from loopyperf.idg.access.sectors import LINE
from loopyperf.idg.access.working_sets import WorkingSets
from loopyperf.idg.construction.kernel_graphs import LaunchGraphs


@dataclass(frozen=True)
class Residence:
    """How many groups of a launch reside at once."""

    on_core: int
    on_device: int


@dataclass(frozen=True)
class Served:
    """How far accesses of an array go, level by level, the nearest first."""

    asked: Mapping[str, float]
    """level -> the share of the sectors asked for that is moved from there, 1 for the nearest"""
    waited: Mapping[str, float]
    """level -> the share of accesses that wait for it, 1 for the nearest: those that find what another access has
    asked for already in the same pass wait as long as that one"""


def levels_that_serve(
    launch: LaunchGraphs, device: Device, residence: Residence, sectors: Mapping[str, float]
) -> dict[str, Served]:
    """Return array -> how far its accesses go; *sectors* are those that a group asks for, by array."""
    sets = launch.representative.working_sets()
    at_once = sets.at_once(sets.window(_around(launch, 1), launch.representative.host))
    nearest = global_levels(device)[0].name
    asked, waited = ({array: {nearest: 1.0} for array in sectors} for _ in range(2))
    left = dict(sectors)
    for level, farther in pairwise(global_levels(device)):
        fetched = _fetched_by_group(launch, level, residence, sets)
        for array, number in sectors.items():
            left[array] = min(left[array], fetched.get(array, left[array]))
            touched = float(at_once[array].sectors) if array in at_once else 0.0
            distinct = min(number, touched) or number
            asked[array][farther.name] = left[array] / number if number else 0.0
            waited[array][farther.name] = min(1.0, left[array] / distinct) if distinct else 0.0
    return {array: Served(asked[array], waited[array]) for array in sectors}


def sectors_touched(launch: LaunchGraphs) -> float:
    """Return how many distinct sectors of all arrays one execution of *launch* touches."""
    representative = launch.representative
    sets = representative.working_sets()
    everywhere = sets.window({axis: range(length) for axis, length in launch.grid.items()}, representative.host)
    return float(sum(each.sectors for each in sets.touched(sets.program.nest, everywhere).values()))


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
            # A core's cache writes each store on at once, so that the next level forgets on its own.
            written = moved.written / moved.stores if moved.stores else 0.0
        asked["load"][farther.name], asked["store"][farther.name] = fetched, written
    return {kind: Served(shares, shares) for kind, shares in asked.items()}


def _room(launch: LaunchGraphs, level: MemoryLevel, residence: Residence) -> float:
    """Return the bytes of *level* that local memory leaves."""
    local = (launch.local_memory or 0) * residence.on_core if level.holds_local_memory else 0
    return max(level.size - local, 0)


def _fetched_by_group(
    launch: LaunchGraphs, level: MemoryLevel, residence: Residence, sets: WorkingSets
) -> dict[str, float]:
    """Return array -> the sectors that *level* fetches for a group; nothing is known where its size is not stated."""
    if level.name == DRAM or not level.stated("size"):
        return {}
    host = launch.representative.host
    if level.per == "core":
        cache = Cache(sets, _room(launch, level, residence) / residence.on_core)
        fetched = cache.fetched(sets.window(_around(launch, 1), host))
        return {array: float(each.sectors) for array, each in fetched.items()}
    around = {axis: range(length) for axis, length in launch.grid.items()}
    everything = sets.touched(sets.program.nest, sets.window(around, host))
    if sum(each.lines for each in everything.values()) * LINE > level.size:
        around = _around(launch, residence.on_device)
    fetched = Cache(sets, level.size).fetched(sets.window(around, host))
    groups = prod(map(len, around.values()))
    return {array: float(each.sectors) / groups for array, each in fetched.items()}


def _around(launch: LaunchGraphs, groups: int) -> dict[int, range]:
    """Return so many *groups* that come one after the other, about those in the middle, by the axes of the grid."""
    found: dict[int, range] = {}
    for axis, length in sorted(launch.grid.items()):
        number = min(length, max(1, groups))
        first = min(max(0, launch.representative.example.groups.get(axis, 0) - number // 2), length - number)
        found[axis] = range(first, first + number)
        groups = -(-groups // number)
    return found
