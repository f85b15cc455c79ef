"""Which level of memory serves what a launch asks of each array: found from the kernel, not by a profiler.

What a cache does not keep of what its groups touch (:mod:`loopyperf.models.on_device.cached_groups`) is asked of the
next level (the R of Lemeire, section 6.3). What is stored is written to it: a line that is both loaded and stored while
a cache has it is moved twice.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from loopyperf.device.description import Device
from loopyperf.device.lambdas import global_levels
from loopyperf.device.parts import Per
from loopyperf.memory.footprints import FIRST, working_sets
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.memory.private_reuse import Moved, StackReuse
from loopyperf.models.on_device.cached_groups import CachedGroups, Groups, Residence, Way, neighbours
from loopyperf.pipeline.timed_program import Served


def levels_that_serve(
    launch: LaunchProfile,
    device: Device,
    residence: Residence,
    sectors: Mapping[Way, float],
    mean_of: Mapping[Way, float] | None = None,
) -> dict[Way, Served]:
    """Return how far the loads and the stores of each array go; *sectors* are those that the mean group asks for.

    *mean_of* is what that is, over what the group in the middle asks for: 1 unless it is there.

    A core's cache writes each store on at once, so that a farther one whose size is stated gathers them on its own.
    """
    sets = working_sets(launch.footprints)
    window = neighbours(launch, 1).window
    at_once = {kind: sets.at_once(window, kind) for kind in {way.kind for way in sectors}}
    nearest = global_levels(device)[0].name
    asked, waited = ({way: {nearest: 1.0} for way in sectors} for _ in range(2))
    left = dict(sectors)
    for level, farther in pairwise(global_levels(device)):
        # A cache whose size is not stated is taken to pass on all that it is asked for.
        cached = CachedGroups(launch, level, residence, mean_of or {})
        moved = cached.moved(sectors.keys()) if level.size is not None else {}
        for way, number in sectors.items():
            if way in moved:
                left[way] = min(left[way] if way.kind == "load" else number, moved[way])
            touched = at_once[way.kind].get(way.array)
            distinct = min(number, float(touched.sectors) * (mean_of or {}).get(way, 1.0) if touched else 0.0) or number
            asked[way][farther.name] = left[way] / number if number else 0.0
            waited[way][farther.name] = min(1.0, left[way] / distinct) if distinct else 0.0
    return {way: Served(asked[way], waited[way]) for way in sectors}


def sectors_touched(launch: LaunchProfile) -> float:
    """Return how many sectors of all arrays one execution of *launch* moves at least: fetches, and writes."""
    sets = working_sets(launch.footprints)
    everywhere = Groups.all_of(launch).window
    every, first, stored = (sets.touched(sets.program, everywhere, kind=kind) for kind in (None, FIRST, "store"))
    once = sum(each.sectors for array, each in every.items() if array not in first)
    return float(once + sum(each.sectors + stored[array].sectors for array, each in first.items()))


def levels_that_serve_stacks(
    launch: LaunchProfile, device: Device, residence: Residence, stacks: Mapping[int, StackReuse], order: Sequence[int]
) -> dict[str, Served]:
    """Return ``"load"`` and ``"store"`` -> how far accesses of private memory go, given those of warps of each kind.

    *order* has the kinds of the warps of some groups. The caches keep as much of the *stacks* of all warps. Where the
    size of one is not stated, it keeps them.
    """
    levels = global_levels(device)
    asked: dict[str, dict[str, float]] = {kind: {levels[0].name: 1.0} for kind in ("load", "store")}
    fetched = written = 1.0
    for level, farther in pairwise(levels):
        if level.size is not None:
            groups = residence.on_device if level.per == Per.DEVICE else residence.on_core
            room = CachedGroups(launch, level, residence).room / (groups * launch.warps_per_group)
            by_kind = {kind: stack.moved(room) for kind, stack in stacks.items()}
            moved = sum((by_kind[kind] for kind in order), Moved())
            fetched = min(fetched, moved.fetched / moved.loads) if moved.loads else 0.0
            # Each cache gathers stores on its own: one of a core writes them on at once.
            written = moved.written / moved.stores if moved.stores else 0.0
        asked["load"][farther.name], asked["store"][farther.name] = fetched, written
    return {kind: Served(shares, shares) for kind, shares in asked.items()}
