"""Barriers, work-groups and launches, read off the schedule (Stevens and Klöckner, sections 2.3, 2.4 and 3.2)."""

from collections.abc import Iterator

import islpy as isl
from loopy.kernel.data import GroupInameTag

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.quasipolynomial import QuasiPolynomial
from loopyperf.kernel import Barrier, Kernel, Launch


def barrier_executions(counter: ExecutionCounter, launch: Launch, barrier: Barrier) -> QuasiPolynomial:
    """Return how often work-items of *launch* meet *barrier*: barriers per work-item times work-items.

    All work-items of all groups meet a barrier, whatever the counting; only its loops, whose trip counts may differ
    from group to group, say how often.
    """
    inames = barrier.inames | frozenset(_deciding_groups(counter.kernel, launch, barrier))
    site = Site(launch, inames, frozenset(), barrier.label)
    return ExecutionCounter(counter.kernel, "executed").executions(site)


def launch_executions(counter: ExecutionCounter, launch: Launch) -> QuasiPolynomial:
    """Return how often *launch* is launched: once, or once for each pass of the host loops around it."""
    site = Site(launch, launch.host_inames, frozenset(), f"launch of {launch.name}")
    return ExecutionCounter(counter.kernel, "paper").executions(site)


def _deciding_groups(kernel: Kernel, launch: Launch, barrier: Barrier) -> Iterator[str]:
    """Yield the group inames, one for each axis, on which the trip counts of the barrier's loops depend."""
    seen: set[int] = set()
    inside = {
        iname for insn in launch.instructions if barrier.inames <= insn.within_inames for iname in insn.within_inames
    }
    for iname in sorted(inside):
        tag = kernel.hardware_axis(iname)
        if isinstance(tag, GroupInameTag) and tag.axis not in seen and _depends(kernel, barrier.inames, iname):
            seen.add(tag.axis)
            yield iname


def _depends(kernel: Kernel, loops: frozenset[str], iname: str) -> bool:
    """Return whether the points of *loops* differ between values of *iname*."""
    together = kernel.domain([*loops, iname])
    apart = _embedded(kernel.domain(loops), together) & _embedded(kernel.domain([iname]), together)
    return not apart.is_subset(together)


def _embedded(domain: isl.Set, into: isl.Set) -> isl.Set:
    """Return *domain* with the dimensions of *into* that it lacks, unconstrained."""
    aligned, _ = isl.align_two(domain, into)
    return aligned
