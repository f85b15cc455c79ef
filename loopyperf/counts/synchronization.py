"""Barriers, work-groups and launches, read off the schedule (Stevens and Klöckner, sections 2.3, 2.4 and 3.2)."""

import islpy as isl
from loopy.kernel.data import GroupInameTag

from loopyperf.counts.conditions import ALWAYS
from loopyperf.counts.execution import ExecutionCounter, Executions, Site
from loopyperf.kernel import Barrier, Kernel, Launch


def barrier_executions(counter: ExecutionCounter, launch: Launch, barrier: Barrier) -> Executions:
    """Return how often work-items of *launch* meet *barrier*: barriers per work-item times work-items.

    Whatever the counting, all work-items of a group meet a barrier. How often may differ from group to group: the loops
    around it may, and Loopy puts conditions that hold for whole groups outside of barriers.
    """
    inames = barrier.inames | _deciding_groups(counter, launch, barrier)
    return counter.executions(Site(launch, inames, ALWAYS, barrier.label), "executed")


def launch_executions(counter: ExecutionCounter, launch: Launch) -> Executions:
    """Return how often *launch* is launched: once, or once for each pass of the host loops around it."""
    site = Site(launch, launch.host_inames, ALWAYS, f"launch of {launch.name}")
    return counter.executions(site, "paper")


def _deciding_groups(counter: ExecutionCounter, launch: Launch, barrier: Barrier) -> frozenset[str]:
    """Return the group inames, one for each axis, on which it depends how often a group meets the barrier."""
    groups = frozenset(_groups_around(counter.kernel, launch, barrier).values())
    together = counter.loops(barrier.inames | groups).points
    return frozenset(iname for iname in groups if _depends(together, counter.kernel.domain([iname]), iname))


def _groups_around(kernel: Kernel, launch: Launch, barrier: Barrier) -> dict[int, str]:
    """Return axis -> the group iname of the instructions inside the barrier's loops."""
    axes: dict[int, str] = {}
    for instruction in launch.instructions:
        if barrier.inames <= instruction.within_inames:
            tags = {iname: kernel.hardware_axis(iname) for iname in sorted(instruction.within_inames)}
            for iname, tag in tags.items():
                if isinstance(tag, GroupInameTag):
                    axes.setdefault(tag.axis, iname)
    return axes


def _depends(together: isl.Set, alone: isl.Set, iname: str) -> bool:
    """Return whether the other coordinates of *together* differ between the values *alone* of *iname*."""
    kind, place = together.get_var_dict()[iname]
    others = together.eliminate(kind, place, 1)
    behind = together.dim(kind) - place - 1
    embedded = alone.insert_dims(kind, 0, place).add_dims(kind, behind)
    return not others.intersect(embedded).is_subset(together)
