"""What the warps of a launch execute at given sizes, as sets of where each warp is and of the values of its loops.

A warp executes what at least one of its lanes does; :meth:`LaunchExecutions.passes` has the lanes of one apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import islpy as isl
from loopy.kernel.data import GroupInameTag, LocalInameTag

from loopyperf.counts.conditions import ALWAYS, Conditions
from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.errors import UnboundedDomainError
from loopyperf.idg.program import Instruction
from loopyperf.idg.warps.kinds import Placement
from loopyperf.idg.warps.loop_passes import LoopPasses
from loopyperf.idg.warps.passes import Lockstep, WarpPasses, lockstep_of
from loopyperf.idg.warps.warp import (
    Loops,
    Statement,
    Warp,
    first_value,
    grid_extent,
    group_shape,
    naming,
    warps_of_group,
)
from loopyperf.kernel.launches import Barrier, Launch
from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.points import Points, at_sizes, boxed, fixed, image
from loopyperf.polyhedral.sets import SetMemory

SET = isl.dim_type.set
Axis = str | GroupInameTag | LocalInameTag
"""a loop on the host, an axis of the grid, an axis of a group"""


class LaunchExecutions:
    """What the warps of a launch execute at given sizes, by where each warp is."""

    def __init__(
        self, counter: ExecutionCounter, launch: Launch, sizes: Mapping[str, int], warp_size: int = 32
    ) -> None:
        """Look at *launch* at *sizes*, in warps of *warp_size* lanes."""
        self.counter, self.launch, self.sizes, self.kernel = counter, launch, sizes, counter.kernel
        shape = dict(sorted(group_shape(launch, sizes).items())) or {0: 1}
        self.placement = Placement(
            tuple(sorted(launch.host_inames)), tuple(sorted(launch.group_axes)), shape, warp_size
        )
        self._of_sites: dict[tuple[frozenset[str], Conditions, tuple[str, ...]], isl.Set] = {}
        self._sites: dict[tuple[frozenset[str], Conditions], isl.Set] = {}
        self._firsts: dict[str, int] = {}
        self._lockstep: dict[frozenset[str], Lockstep] = {}
        self.instructions: dict[Any, Instruction] = {}
        """what is made of them for one class of warps, and may be for another one"""
        self._points_of = SetMemory[Points]()
        self._nests: dict[tuple[Loops, tuple[Points, ...]], LoopPasses] = {}

    @cached_property
    def warps(self) -> isl.Set:
        """Return the places of all warps of the launch."""
        site = Site(self.launch, self.launch.host_inames, ALWAYS, f"launch of {self.launch.name}")
        host = at_sizes(self.counter.points(site), self.sizes)
        names: Sequence[str] = host.get_var_names_not_none(SET)
        host = image(host, names, [Affine.variable(name) for name in self.placement.host])
        extents = [grid_extent(self.launch, axis, self.sizes) for axis in self.placement.groups]
        extents.append(warps_of_group(self.placement.shape, self.placement.size))
        return host.flat_product(boxed(tuple(map(range, extents))))

    def by_place(self, statement: Statement, conditions: Conditions) -> isl.Set:
        """Return the places of the warps that execute *statement* under *conditions*, with the values of its loops."""
        loops = tuple(nest.iname for nest in statement.loops)
        key = (statement.inames, conditions, loops)
        if key not in self._of_sites:
            with naming(statement):
                points = self._points(self._site(statement, conditions))
            self._of_sites[key] = self._placed(points, loops).intersect(self._anywhere(len(loops))).coalesce()
        return self._of_sites[key]

    def passes(self, site: Site, warp: Warp, host: Mapping[str, int] | None = None) -> WarpPasses:
        """Return what *warp* executes of *site*, lane by lane, where conditions on data are taken to hold.

        *host* are values of loops around the launch; those that are not given are among the sequential ones. Raises
        :class:`UncountableError` where bounds are data of which nothing is stated, :class:`ParameterError` for a size
        that is missing.
        """
        points, counted = self._points(site), self.counter.loops(site.inames)
        if not points.is_bounded():
            raise UnboundedDomainError(f"{site.source}: its loops ({', '.join(sorted(site.inames))}) have no bounds")
        return WarpPasses.of(self.kernel, warp, points, counted, self.lockstep(site.inames), self.sizes, host or {})

    def _points(self, site: Site) -> isl.Set:
        """Return the points of *site* over all its inames, whichever warp executes them."""
        key = site.inames, site.conditions
        if key not in self._sites:
            self._sites[key] = at_sizes(self.counter.points(site), self.sizes)
        return self._sites[key]

    def weight(self, statement: Statement, conditions: Conditions) -> Fraction:
        """Return how often what *statement* runs on under *conditions* runs there: less than 1 by what is stated."""
        with naming(statement):
            return self.counter.weight(self._site(statement, conditions))

    def _site(self, statement: Statement, conditions: Conditions) -> Site:
        return Site(self.launch, statement.inames, conditions, statement.name)

    def _anywhere(self, loops: int) -> isl.Set:
        return self.warps.insert_dims(SET, self.placement.axes, loops)

    def _placed(self, points: isl.Set, loops: Sequence[str]) -> isl.Set:
        """Return the places of warps of which some lane is among *points*, with the values of *loops*."""
        names = list(points.get_var_names_not_none(SET))
        points = self.lockstep(frozenset(names)).numbered(points)
        used = self._used_axes(names)
        # Along an axis that a statement does not use, all groups and work-items execute it.
        for axis in [*self.placement.host, *map(GroupInameTag, self.placement.groups)]:
            if axis not in used:
                used[axis], points = Affine(((str(axis), 1),)), points.add_dims(SET, 1)
                names.append(str(axis))
        for axis, extent in self.placement.shape.items():
            if LocalInameTag(axis) not in used:
                used[LocalInameTag(axis)] = Affine(((f"l.{axis}", 1),))
                points = points.flat_product(boxed((range(extent),)))
                names.append(f"l.{axis}")
        lengths = list(self.placement.shape.values())
        weights = {axis: prod(lengths[:place]) for place, axis in enumerate(self.placement.shape)}
        nothing: Affine[Atom] = Affine()
        number = sum((used[LocalInameTag(axis)] * weight for axis, weight in weights.items()), nothing)
        places = [used[axis] for axis in [*self.placement.host, *map(GroupInameTag, self.placement.groups)]]
        values = map(Affine.variable, loops)
        return image(points, names, [*places, Affine.variable(Floor(number, self.placement.size)), *values])

    def _used_axes(self, names: Sequence[str]) -> dict[Axis, Affine[Atom]]:
        """Return the axes of the placement that *names* number, each with what the number is."""
        used: dict[Axis, Affine[Atom]] = {}
        for name in names:
            tag = self.kernel.hardware_axes.get(name)
            if tag is not None:
                used[tag] = Affine(((name, 1),), -self._first(name))
            elif name in self.placement.host:
                used[name] = Affine(((name, 1),))
        return used

    def lockstep(self, inames: frozenset[str]) -> Lockstep:
        """Return where those loops start of what runs over *inames* that do not start alike in all lanes."""
        if inames not in self._lockstep:
            self._lockstep[inames] = lockstep_of(self.kernel, self.launch, inames, self._visited)
        return self._lockstep[inames]

    def once(self, values: isl.Set) -> Points:
        """Return *values* as points: the same object for all warps that have these."""
        return self._points_of.setdefault(values, Points(values))

    def nest(self, loops: Loops, values: Mapping[int, Points]) -> LoopPasses:
        """Return the passes through *loops*, the outermost one alone or none, where statements run with *values*."""
        key = loops, tuple(values.values())
        if key not in self._nests:
            self._nests[key] = LoopPasses(self.kernel, values)
        return self._nests[key]

    def _visited(self, inames: frozenset[str]) -> isl.Set:
        return at_sizes(self.counter.loops(inames).points, self.sizes)

    def _first(self, name: str) -> int:
        if name not in self._firsts:
            self._firsts[name] = first_value(self.kernel, name, self.sizes)
        return self._firsts[name]


# {{{ the passes in which one warp executes each statement


@dataclass(frozen=True, slots=True)
class Run:
    """How one warp executes a statement under some conditions."""

    values: Points
    """of the variables of the loops around it, the outermost first"""
    passes: Points
    """the numbers of their passes"""
    weight: Fraction
    """how often each is run: less than once where ``typical`` says so"""
    condition: Any
    """on the passes of the loops around it; None where it runs in all of them"""


class WarpExecutions:
    """The passes in which one warp of a launch executes each statement."""

    def __init__(self, launch: LaunchExecutions, place: Sequence[int]) -> None:
        """Look at the warp at *place* of *launch*."""
        self.of_launch, self.place = launch, tuple(place)
        self.kernel, self.sizes = launch.kernel, launch.sizes
        self.warp, self.host = launch.placement.warp(place)
        self._values: dict[tuple[frozenset[str], Conditions, tuple[str, ...]], Points] = {}
        self._lanes: dict[tuple[frozenset[str], Conditions], WarpPasses] = {}
        self._runs: dict[Any, Run] = {}
        self._nests: dict[Loops, LoopPasses] = {}

    def values(self, statement: Statement, conditions: Conditions) -> Points:
        """Return the values of the loops' variables with which *statement* runs under *conditions*, outermost first."""
        key = (statement.inames, conditions, tuple(nest.iname for nest in statement.loops))
        if key not in self._values:
            points = self.of_launch.by_place(statement, conditions)
            here = fixed(points, dict(enumerate(self.place))).project_out(SET, 0, len(self.place))
            self._values[key] = self.of_launch.once(here.remove_redundancies().coalesce())
        return self._values[key]

    def lanes(self, site: Site) -> WarpPasses:
        """Return what the warp executes of *site*, lane by lane; see :meth:`LaunchExecutions.passes`."""
        key = site.inames, site.conditions
        if key not in self._lanes:
            self._lanes[key] = self.of_launch.passes(site, self.warp, self.host)
        return self._lanes[key]

    def run(self, statement: Statement, conditions: Conditions) -> Run:
        """Return how the warp executes *statement* under *conditions*."""
        key = (statement.inames, conditions, statement.loops, statement.name)
        if key not in self._runs:
            self._runs[key] = self._run(statement, conditions)
        return self._runs[key]

    def _run(self, statement: Statement, conditions: Conditions) -> Run:
        loops, nest = statement.loops, self.nest(statement.loops)
        values = self.values(statement, conditions)
        if isinstance(statement.what, Barrier) and not values.is_empty:
            values = nest.met(statement.what, loops, values)
        passes, condition = nest.executed(values, loops)
        return Run(values, passes, self.of_launch.weight(statement, conditions), condition)

    def nest(self, loops: Loops) -> LoopPasses:
        """Return the passes that the warp makes through the loops inside the outermost of *loops*."""
        outermost = loops[:1]
        if outermost not in self._nests:
            inside = [statement for loop in outermost for statement in loop.statements()]
            values = {statement.number: self.values(statement, ALWAYS) for statement in inside}
            self._nests[outermost] = self.of_launch.nest(outermost, values)
        return self._nests[outermost]


# }}}
