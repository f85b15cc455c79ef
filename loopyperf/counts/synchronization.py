"""Barriers, work-groups and launches, read off the schedule (Stevens and Klöckner, sections 2.3, 2.4 and 3.2)."""

from collections.abc import Iterator, Sequence
from math import prod

import islpy as isl

from loopyperf.counts.execution import ExecutionCounter, Executions, Site
from loopyperf.counts.predicates.conditions import ALWAYS, all_of
from loopyperf.errors import UnboundedDomainError
from loopyperf.kernel.launches import Barrier, Launch

SET = isl.dim_type.set


def barrier_executions(counter: ExecutionCounter, launch: Launch, barrier: Barrier) -> Executions:
    """Return how often work-items of *launch* meet *barrier*: barriers per work-item times work-items.

    Whatever the counting, all work-items of a group meet a barrier. How often may differ from group to group: the loops
    around it may, and so may the conditions that Loopy writes around these loops. Instructions ask whether it is their
    turn; barriers do not, so that they are also met where a loop has holes, and in every copy of an unrolled loop. How
    often a loop inside such a copy passes may depend on the copy.

    Raises :class:`UnboundedDomainError` where the loops around it have no bounds.
    """
    loops = [loop for loop in barrier.loops if loop not in barrier.copied]
    site = Site(launch, barrier.groups.union(loops), ALWAYS, barrier.label)
    points = counter.points(site)
    try:
        passes = _without_holes(points, loops) if loops else points.remove_divs()
    except isl.Error as error:
        raise UnboundedDomainError(f"the loops around it ({', '.join(loops)}) have no bounds") from error
    met = counter.executions_at(site, passes)
    copies = [counter.kernel.domain([iname]) for iname in sorted(barrier.copied)]
    return Executions(met.count * prod(map(_static_length, copies)), met.weight)


def _without_holes(points: isl.Set, loops: Sequence[str]) -> isl.Set:
    """Return all passes that *loops*, outermost first, make for *points*, each from its first value to its last.

    Where the loops around it are is all that these values depend on: a loop that is empty there is passed by.
    """
    others = [name for name in points.get_var_names_not_none(SET) if name not in loops]
    points = _in_order(points, [*others, *loops])
    passes = points
    for inside in range(len(loops)):
        place = points.dim(SET) - inside - 1
        around = points.project_out(SET, place + 1, inside)
        values = isl.Map.from_domain(around).move_dims(isl.dim_type.out, 0, isl.dim_type.in_, place, 1)
        from_first = values.lexmin().apply_range(isl.Map("{ [first] -> [value] : value >= first }"))
        to_last = values.lexmax().apply_range(isl.Map("{ [last] -> [value] : value <= last }"))
        between = (from_first & to_last).wrap().flatten().add_dims(SET, inside)
        passes = between if inside == 0 else passes & between
    for place, name in enumerate((*others, *loops)):
        passes = passes.set_dim_name(SET, place, name)
    return passes.coalesce()


def _in_order(points: isl.Set, names: Sequence[str]) -> isl.Set:
    """Return *points* with their coordinates in the order of *names*."""
    before = ", ".join(points.get_var_names_not_none(SET))
    return points.apply(isl.Map(f"{{ [{before}] -> [{', '.join(names)}] }}"))


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
