"""Which level of memory serves what a launch asks of each array: found from the kernel, not by a profiler.

A cache of a core holds what the groups that reside there touch, one as much as the other, beside the local memory that
is taken from it; a cache of the device, what all groups that reside at once touch. What it does not keep, by the layer
conditions of :mod:`loopyperf.idg.access.reuse`, is asked of the next level (the R of Lemeire, section 6.3).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

from loopyperf.device.description import Device, MemoryLevel
from loopyperf.device.memory_lambdas import DRAM, global_levels
from loopyperf.idg.access.reuse import Cache
from loopyperf.idg.access.sectors import LINE
from loopyperf.idg.access.working_sets import WorkingSets
from loopyperf.idg.construction.kernel_graphs import LaunchGraphs
from loopyperf.idg.lowering.indexed_loops import elements_of


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
    for level, farther in zip(global_levels(device), global_levels(device)[1:], strict=False):
        fetched = _fetched_by_group(launch, level, residence, sets)
        for array, number in sectors.items():
            left[array] = min(left[array], fetched.get(array, left[array]))
            touched = float(at_once[array].sectors) if array in at_once else 0.0
            distinct = min(number, touched) or number
            asked[array][farther.name] = left[array] / number if number else 0.0
            waited[array][farther.name] = min(1.0, left[array] / distinct) if distinct else 0.0
    return {array: Served(asked[array], waited[array]) for array in sectors}


def level_of_private_memory(launch: LaunchGraphs, device: Device, residence: Residence, arrays: Collection[str]) -> str:
    """Return the level that serves the private *arrays* of a launch, which are no registers: the nearest that has room.

    Each warp has a stack, on which neighbouring lanes are neighbours.
    """
    elements: dict[str, int] = {}
    for kind in launch.kinds:
        for element in (each for instruction in kind.graph.instructions for each in elements_of(instruction)):
            if element.array in arrays:
                size = element.length * line_bytes(kind.example.lanes * element.bits // 8)
                elements[element.array] = max(size, elements.get(element.array, 0))
    on_core = sum(elements.values()) * launch.warps_per_group * residence.on_core
    for level in global_levels(device):
        if level.stated("size"):
            is_one = level.per == "device"
            local = (launch.local_memory or 0) * residence.on_core if level.holds_local_memory else 0
            taken = on_core * residence.on_device / residence.on_core if is_one else on_core + local
            if taken <= level.size:
                return level.name
    return DRAM


def line_bytes(number: int) -> int:
    """Return so many bytes in whole lines."""
    return -(-number // LINE) * LINE


def _fetched_by_group(
    launch: LaunchGraphs, level: MemoryLevel, residence: Residence, sets: WorkingSets
) -> dict[str, float]:
    """Return array -> the sectors that *level* fetches for a group; nothing is known where its size is not stated."""
    if level.name == DRAM or not level.stated("size"):
        return {}
    host = launch.representative.host
    if level.per == "core":
        local = (launch.local_memory or 0) * residence.on_core if level.holds_local_memory else 0
        cache = Cache(sets, max(level.size - local, 0) / residence.on_core)
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
