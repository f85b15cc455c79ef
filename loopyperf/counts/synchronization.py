"""Barriers, work-groups and launches, read off the schedule (Stevens and Klöckner, sections 2.3, 2.4 and 3.2)."""

from collections.abc import Iterator
from math import prod

import islpy as isl

from loopyperf.counts.conditions import ALWAYS, all_of
from loopyperf.counts.execution import ExecutionCounter, Executions, Site
from loopyperf.launches import Barrier, Launch

SET = isl.dim_type.set


def barrier_executions(counter: ExecutionCounter, launch: Launch, barrier: Barrier) -> Executions:
    """Return how often work-items of *launch* meet *barrier*: barriers per work-item times work-items.

    Whatever the counting, all work-items of a group meet a barrier. How often may differ from group to group: the loops
    around it may, and so may the conditions that Loopy writes around these loops. Instructions ask whether it is their
    turn; barriers do not, so that they are also met where a loop has holes, and in every copy of an unrolled loop. How
    often a loop inside such a copy passes may depend on the copy.
    """
    loops = barrier.inames - barrier.copied
    site = Site(launch, loops | barrier.groups, ALWAYS, barrier.label)
    points = counter.points(site)
    met = counter.executions_at(site, _without_holes(points) if loops else points.remove_divs())
    copies = [counter.kernel.domain([iname]) for iname in sorted(barrier.copied)]
    return Executions(met.count * prod(map(_static_length, copies)), met.weight)


def _without_holes(points: isl.Set) -> isl.Set:
    """Return *points* with all those between two that differ in one coordinate alone."""
    if not any(basic.dim(isl.dim_type.div) for basic in points.get_basic_sets()):
        return points
    names = points.get_var_names_not_none(SET)
    for dim in range(len(names)):
        points = points.apply(_along(points, dim, "<=")) & points.apply(_along(points, dim, ">="))
    for dim, name in enumerate(names):
        points = points.set_dim_name(SET, dim, name)
    return points.coalesce()


def _along(points: isl.Set, dim: int, order: str) -> isl.Map:
    before, after = (", ".join(f"{letter}{place}" for place in range(points.dim(SET))) for letter in "xy")
    tests = (f"x{place} {order if place == dim else '='} y{place}" for place in range(points.dim(SET)))
    return isl.Map(f"{{ [{before}] -> [{after}] : {' and '.join(tests)} }}")


def _static_length(loop: isl.Set) -> int:
    """Return how many copies Loopy makes of an unrolled *loop*: it does so only where the bounds are known."""
    return loop.dim_max_val(0).to_python() - loop.dim_min_val(0).to_python() + 1


def launch_executions(counter: ExecutionCounter, launch: Launch) -> Iterator[Executions]:
    """Yield how often *launch* is launched: once, or once for each pass of the host loops around it.

    Where the host tests conditions before, these are the ways in which all of them hold. Of data among them, it is
    stated by the first instruction how often they hold.
    """
    source = launch.instructions[0].id if launch.host_conditions else f"launch of {launch.name}"
    for conditions in all_of(launch.host_conditions, counter.kernel.is_known):
        yield counter.executions(Site(launch, launch.host_inames, conditions, source), "paper")
