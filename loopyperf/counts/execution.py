"""How often an instruction executes: the number of points of its loops at which its conditions hold.

Stevens and Klöckner, Algorithm 1: project the loop domain onto the instruction's own inames and count the points. There
are two countings:

``paper``
    the algorithm as published: work inside a group that does not use a hardware axis is counted once along it;
``executed``
    what the hardware executes: if the launch has a hardware axis that the instruction does not use, every work-item (or
    group) of the loop on this axis executes the instruction. This is the code after Loopy's
    ``add_inames_for_unused_hw_axes``. Loopy refuses if several loops share the axis; here all work-items execute it.

The unit is the work-item, or the sub-group with at least one active work-item.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import prod
from operator import mul
from typing import Any, Literal, NamedTuple

import islpy as isl
from loopy.symbolic import get_dependencies
from pytools import memoize_method

from loopyperf.counts.conditions import (
    ALWAYS,
    Condition,
    Conditions,
    condition_keys,
    disjoint_conditions,
    has_fractions,
    plain_text,
    points_where,
)
from loopyperf.counts.loops import LoopPoints, loop_points, sub_groups
from loopyperf.counts.sizes import Typical
from loopyperf.errors import UnboundedDomainError
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.kernel.launches import Barrier, Launch
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from loopyperf.polyhedral.sets import SetMemory, between_ends

Counting = Literal["paper", "executed"]
COUNTINGS: tuple[Counting, ...] = ("paper", "executed")


@dataclass(frozen=True, slots=True)
class Site:
    """The context in which something executes: launch, surrounding loops and conditions."""

    launch: Launch
    inames: frozenset[str]
    conditions: Conditions
    source: str
    """instruction, barrier or launch; the keyword for typical values"""


@dataclass(frozen=True, slots=True)
class Executions:
    """How often something executes: an exact count times a weight; the weight is 1 without typical values."""

    count: QuasiPolynomial
    """exact count as a function of the sizes"""
    weight: Fraction
    """factor of the count"""


class _Selection(NamedTuple):
    points: isl.Set
    """points over the inames of a site, with the kernel's parameters"""
    selecting: Conditions
    """conditions of the site that select points"""
    on_data: Conditions
    """the other conditions: the user has to give their probabilities"""


_Axes = tuple[tuple[str, int], ...]
"""hardware axes: ``("group", axis)`` or ``("local", axis)``"""


class ExecutionCounter:
    """Counts how often sites of one kernel execute, each distinct set of points once."""

    def __init__(self, kernel: Kernel, typical: Typical, sub_group_size: int | None = None) -> None:
        """Count work-items in *kernel*, or sub-groups of *sub_group_size* lanes."""
        self.kernel = kernel
        self.typical = typical
        self.sub_group_size = sub_group_size
        self._allowed: dict[tuple[frozenset[str], Any], isl.Set | None] = {}
        self._everywhere: dict[tuple[str, frozenset[str]], tuple[frozenset[str], _Axes]] = {}
        self._counts: dict[Any, QuasiPolynomial] = {}
        self._numbers = SetMemory[QuasiPolynomial]()

    def executions(self, site: Site, counting: Counting) -> Executions:
        """Return how often *site* executes, over all work-items (or sub-groups) of its launch.

        Raises :class:`UncountableError` if bounds or conditions depend on data without a typical value.
        """
        weight = self.weight(site)
        inames, unused = self._on_every_lane(site) if counting == "executed" else (site.inames, ())
        if inames != site.inames:
            site = replace(site, inames=inames)
        selected = self._selected(site.inames, site.conditions)
        by_launch = bool(unused) or self.sub_group_size is not None
        key = (site.inames, selected.selecting, unused, site.launch.name if by_launch else None)
        if key not in self._counts:
            self._counts[key] = self._counted(site, selected.points, unused)
        return Executions(self._counts[key], weight)

    def executions_at(self, site: Site, points: isl.Set) -> Executions:
        """Return how often *site* executes, on every lane, if its loops visit *points* instead of their own."""
        unused = tuple(self._unused_axes(site))
        return Executions(self._counted(site, points, unused), self.weight(site))

    def _counted(self, site: Site, points: isl.Set, unused: _Axes) -> QuasiPolynomial:
        if self.sub_group_size is not None:
            lanes = {axis: site.launch.local_axes[axis] for kind, axis in unused if kind == "local"}
            points = sub_groups(
                self.kernel, site.launch, points, lambda inames: self.loops(inames).points, lanes, self.sub_group_size
            )
            unused = tuple((kind, axis) for kind, axis in unused if kind == "group")
        extents = [self._extent(site.launch, kind, axis) for kind, axis in unused]
        number = self._numbers.get(points)
        if number is None:
            number = self._numbers.setdefault(points, QuasiPolynomial.of_points(points, self.kernel.assumptions))
        return reduce(mul, extents, number)

    # {{{ points

    def points(self, site: Site) -> isl.Set:
        """Return the points of *site* over its inames, with the kernel's parameters.

        Conditions on data select nothing: the result has every point at which *site* may execute.
        """
        return self._selected(site.inames, site.conditions).points

    @memoize_method
    def loops(self, inames: frozenset[str]) -> LoopPoints:
        """Return the points of the loops over *inames*."""
        return loop_points(self.kernel, inames, self.typical)

    @memoize_method
    def _selected(self, inames: frozenset[str], conditions: Conditions) -> _Selection:
        """Return the points of the loops over *inames* at which *conditions* hold."""
        points = self.loops(inames).points
        if not conditions:
            return _Selection(points, ALWAYS, ALWAYS)
        points = points.align_params(self.kernel.assumptions.get_space())
        selecting: set[Condition] = set()
        for condition in sorted(conditions, key=str):
            allowed = self._allowed_by(condition.expression, points, inames)
            if allowed is not None:
                selecting.add(condition)
                points = points & allowed if condition.holds else points - allowed
        return _Selection(points, frozenset(selecting), conditions - selecting)

    def _allowed_by(self, expression: Any, points: isl.Set, inames: frozenset[str]) -> isl.Set | None:
        """Return the set where *expression* is true; None if it is not affine in loop variables and sizes.

        An expression that is affine in each iteration of a short loop over *points* counts as affine; its result
        depends on *points* and is not cached.
        """
        key = (inames, expression)
        if key in self._allowed:
            return self._allowed[key]
        tried: list[str] = []

        def values(name: str) -> range | None:
            tried.append(name)
            return between_ends(points.intersect_params(self.kernel.assumptions), name) if name in inames else None

        written, allowed = with_values(expression, self.kernel.known_temporaries), None
        known = self.kernel.parameters | inames - self.loops(inames).shifted
        if get_dependencies(written) <= known and not has_fractions(written):  # points_where would truncate fractions
            allowed = points_where(points.get_space(), written, values)
        if not tried:
            self._allowed[key] = allowed
        return allowed

    def on_data(self, site: Site) -> Conditions:
        """Return the conditions of *site* that select no points, because they depend on data."""
        return self._selected(site.inames, site.conditions).on_data

    def weight(self, site: Site) -> Fraction:
        """Return the weight of each point of *site*: the weight of its loops times the probability of its conditions.

        Raises :class:`UncountableError` if a typical value is missing.
        """
        weight, on_data = self.loops(site.inames).weight, self.on_data(site)
        return weight * self._probability(on_data, site.source) if on_data else weight

    @memoize_method
    def _probability(self, on_data: Conditions, source: str) -> Fraction:
        """Return the probability that the conditions *on_data* of *source* hold, which are assumed independent."""
        expressions = {condition.expression for condition in on_data}
        if len(expressions) < len(on_data):
            return Fraction(0)  # a condition is both required and excluded
        named = source if len(expressions) == 1 else None
        keys = {each: condition_keys(self.kernel, each, named) for each in sorted(expressions, key=plain_text)}
        shares = {key: share for key in keys if (share := self.typical.share(keys[key])) is not None}
        decided = [each for each in on_data if each.expression in shares]
        chance = prod(shares[each.expression] if each.holds else 1 - shares[each.expression] for each in decided)
        if chance and len(decided) < len(on_data):  # in a branch that never executes, nothing else matters
            raise self.typical.missing(next(keys[key] for key in keys if key not in shares))
        return Fraction(chance)

    # }}}

    # {{{ hardware axes

    def _on_every_lane(self, site: Site) -> tuple[frozenset[str], _Axes]:
        """Return the inames of *site* with those of unused axes, and the axes that have no iname."""
        key = (site.launch.name, site.inames)
        if key not in self._everywhere:
            inames = self.kernel.on_every_lane(site.launch, site.inames)
            self._everywhere[key] = inames, tuple(self._unused_axes(replace(site, inames=inames)))
        return self._everywhere[key]

    def _unused_axes(self, site: Site) -> Iterator[tuple[str, int]]:
        used = {site.launch.numbering.get(iname) for iname in site.inames}
        for kind, axes in (("group", site.launch.group_axes), ("local", site.launch.local_axes)):
            yield from ((kind, axis) for axis in sorted(axes) if (kind, axis) not in used)

    def _extent(self, launch: Launch, kind: str, axis: int) -> QuasiPolynomial:
        extent = launch.group_axes[axis] if kind == "group" else launch.local_axes[axis]
        return QuasiPolynomial.of_extent(extent, self.kernel.assumptions)

    def work_groups(self, launch: Launch) -> QuasiPolynomial:
        """Return the number of work-groups of one execution of *launch*."""
        one = QuasiPolynomial.constant(1, self.kernel.assumptions)
        return reduce(mul, (self._extent(launch, "group", axis) for axis in sorted(launch.group_axes)), one)

    # }}}


# {{{ barriers, work-groups and launches (Stevens and Klöckner, sections 2.3, 2.4 and 3.2)


SET = isl.dim_type.set


def barrier_executions(counter: ExecutionCounter, launch: Launch, barrier: Barrier) -> Executions:
    """Return how often work-items of *launch* reach *barrier*: barriers per work-item times work-items.

    All work-items of a group reach a barrier, in both countings. The number may differ between groups because of the
    loops around the barrier and the conditions that Loopy writes around these loops. Conditions of instructions do not
    apply to barriers: a barrier also executes where a loop has holes, and in every copy of an unrolled loop. The number
    of iterations of a loop inside such a copy may depend on the copy.

    Raises :class:`UnboundedDomainError` if the loops around the barrier have no bounds.
    """
    loops = [loop for loop in barrier.loops if loop not in barrier.copied]
    site = Site(launch, barrier.groups.union(loops), ALWAYS, barrier.label)
    points = counter.points(site)
    try:
        iterations = _without_holes(points, loops) if loops else points.remove_divs()
    except isl.Error as error:
        raise UnboundedDomainError(f"the loops around it ({', '.join(loops)}) have no bounds") from error
    met = counter.executions_at(site, iterations)
    copies = [counter.kernel.values(iname) for iname in sorted(barrier.copied)]  # Loopy needs constant bounds to unroll
    return Executions(met.count * prod(len(values) for values in copies if values is not None), met.weight)


def _without_holes(points: isl.Set, loops: Sequence[str]) -> isl.Set:
    """Return all iterations that *loops*, outermost first, execute for *points*: each from its first value to its last.

    The first and last value depend only on the loops around it. A loop that is empty there does not execute.
    """
    others = [name for name in points.get_var_names_not_none(SET) if name not in loops]
    before = ", ".join(points.get_var_names_not_none(SET))
    points = points.apply(isl.Map(f"{{ [{before}] -> [{', '.join([*others, *loops])}] }}"))
    iterations = points
    for inside in range(len(loops)):
        place = points.dim(SET) - inside - 1
        around = points.project_out(SET, place + 1, inside)
        values = isl.Map.from_domain(around).move_dims(isl.dim_type.out, 0, isl.dim_type.in_, place, 1)
        from_first = values.lexmin().apply_range(isl.Map("{ [first] -> [value] : value >= first }"))
        to_last = values.lexmax().apply_range(isl.Map("{ [last] -> [value] : value <= last }"))
        between = (from_first & to_last).wrap().flatten().add_dims(SET, inside)
        iterations = between if inside == 0 else iterations & between
    for place, name in enumerate((*others, *loops)):
        iterations = iterations.set_dim_name(SET, place, name)
    return iterations.coalesce()


def launch_executions(counter: ExecutionCounter, launch: Launch) -> Iterator[Executions]:
    """Yield how often the host starts *launch*: once, or once for each iteration of the host loops around it.

    If the host tests conditions before the launch, there is one result for each alternative in which all of them hold.
    The user gives the probability of conditions on data by the first instruction of the launch.
    """
    source = launch.instructions[0].id if launch.host_conditions else f"launch of {launch.name}"
    for conditions in disjoint_conditions(launch.host_conditions, counter.kernel.is_known):
        yield counter.executions(Site(launch, launch.host_inames, conditions, source), "paper")


# }}}
