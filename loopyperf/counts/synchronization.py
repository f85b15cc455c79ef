"""Barriers, work-groups and launches, read off the schedule (Stevens and Klöckner, sections 2.3, 2.4 and 3.2)."""

from loopyperf.counts.conditions import ALWAYS
from loopyperf.counts.execution import ExecutionCounter, Executions, Site
from loopyperf.launches import Barrier, Launch


def barrier_executions(counter: ExecutionCounter, launch: Launch, barrier: Barrier) -> Executions:
    """Return how often work-items of *launch* meet *barrier*: barriers per work-item times work-items.

    Whatever the counting, all work-items of a group meet a barrier. How often may differ from group to group: the loops
    around it may, and so may the conditions that Loopy writes around these loops. Instructions ask whether it is their
    turn; barriers do not, so that they are also met where loops have holes.
    """
    inames = barrier.inames | barrier.groups
    return counter.executions(Site(launch, inames, ALWAYS, barrier.label, asks=False), "executed")


def launch_executions(counter: ExecutionCounter, launch: Launch) -> Executions:
    """Return how often *launch* is launched: once, or once for each pass of the host loops around it."""
    site = Site(launch, launch.host_inames, ALWAYS, f"launch of {launch.name}")
    return counter.executions(site, "paper")
