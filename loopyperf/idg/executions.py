"""Statement executions of the warps of a launch at given sizes, as sets of (warp position, loop values) points.

A warp executes a statement if at least one of its lanes does; :meth:`LaunchExecutions.iterations` separates the lanes
of one warp.

Iterations are numbered from zero each time that their loop is entered. Most loops execute the same iterations whenever
they are entered; intervals describe these. isl sets describe the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from math import prod
from typing import Any

import islpy as isl
from loopy.kernel.data import GroupInameTag, LocalInameTag
from pytools import memoize_method

from loopyperf.counts.conditions import ALWAYS, Conditions
from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.errors import UnboundedDomainError
from loopyperf.idg.program import Instruction
from loopyperf.idg.warp_classes import (
    Loops,
    Placement,
    Statement,
    Warp,
    first_value,
    grid_extent,
    group_shape,
    naming,
    warps_of_group,
)
from loopyperf.idg.warp_iterations import Lockstep, WarpIterations, condition_on, function_of, lockstep_of
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier, Launch
from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.points import Box, Points, affine_map, at_sizes, boxed, fixed, image, union
from loopyperf.polyhedral.sets import SetMemory, as_int


class LoopIterations:
    """The iterations of the loops in one outermost loop, for all warps with the same loop values of each statement."""

    def __init__(self, kernel: Kernel, values: Mapping[int, Points]) -> None:
        """Take *values*: statement number -> values of the loop variables (outermost first) with which it executes."""
        self._kernel, self._values = kernel, values

    @memoize_method
    def executed(self, values: Points, loops: Loops) -> tuple[Points, Any]:
        """Return the iterations of *loops* whose variables have *values*, and the condition that selects them."""
        iterations = self.numbered(values, loops)
        return iterations, None if iterations.is_empty else condition_on(iterations, self.iterations(loops), loops)

    @memoize_method
    def condition(self, where: tuple[Box, ...], everywhere: Points, loops: Loops) -> Any:
        """Return the condition that selects the disjoint boxes *where* from the iterations *everywhere* of *loops*.

        The result is None if they are all in the boxes.
        """
        is_all = sum(prod(map(len, box)) for box in where) == everywhere.number
        inside = everywhere if is_all else union([Points(box) for box in where], len(loops))
        return condition_on(inside, everywhere, loops)

    @memoize_method
    def met(self, copied: frozenset[str], loops: Loops, values: Points) -> Points:
        """Return the loop values at which warps meet a barrier, given the *values* at which its domain has points.

        No condition skips a barrier: warps meet it also in the holes of a loop, and in every copy of the unrolled
        loops *copied* right around it.
        """
        axes = [axis for axis, nest in enumerate(loops) if nest.iname in copied]
        region = self.region(loops)
        if values.box is not None and region is not None:
            return Points(tuple((region if axis in axes else values.box)[axis] for axis in range(len(loops))))
        whole = isl.Set.from_basic_set(values.set.convex_hull())
        for place in axes:
            whole = whole.project_out(SET, place, 1).insert_dims(SET, place, 1)
        return Points(whole & self.iterations(loops).set.apply(self.numbering(loops).reverse()))

    @memoize_method
    def visited(self, loops: Loops) -> Points:
        """Return the values of the variables of *loops* for which the innermost one executes an iteration.

        All copies of an unrolled loop count: each instruction except barriers tests for itself whether it executes.
        """
        if loops[-1].is_unrolled:
            copies = self._kernel.values(loops[-1].iname)
            assert copies is not None, "Loopy unrolls loops that constants bound"
            return (self.visited(loops[:-1]) if len(loops) > 1 else Points(())).times(copies)
        inside = dict.fromkeys(self._values[statement.number] for statement in loops[-1].statements())
        return union([values.outer(len(loops)) for values in inside], len(loops))

    @memoize_method
    def region(self, loops: Loops) -> Box | None:
        """Return the box of values of *loops* if each loop has the same values whenever it is entered.

        Otherwise, or if the innermost loop is never entered, return None.
        """
        if not loops:
            return ()
        box = self.visited(loops).box
        return box if box is not None and box[:-1] == self.region(loops[:-1]) else None

    @memoize_method
    def trips(self, loops: Loops) -> Any:
        """Return the trip count of the innermost of *loops* per entry.

        It is an integer, or an expression in the iterations of the enclosing loops.
        """
        region = self.region(loops)
        if region is not None:
            return len(region[-1])
        around = self.iterations(loops[:-1]).set
        last = self._last_iteration(loops)
        number = isl.PwMultiAff.from_map(last).coalesce().get_pw_aff(0).add_constant_val(isl.Val(1))
        never = around - last.domain()
        if not never.is_empty():
            zero = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(number.get_domain_space()))
            number = number.union_add(isl.PwAff.from_aff(zero).intersect_domain(never))
        return _value(number, around, loops)

    @memoize_method
    def first(self, loops: Loops) -> Any:
        """Return the value of the innermost of *loops* in its first iteration.

        It is an integer, or an expression in the iterations of the enclosing loops.
        """
        region = self.region(loops)
        if region is not None:
            return region[-1].start
        if self.visited(loops).is_empty:
            return 0
        least = self._by_outer(self.visited(loops).set).lexmin().apply_domain(self.numbering(loops[:-1]))
        value = isl.PwMultiAff.from_map(least).coalesce().get_pw_aff(0)
        return _value(value, self.iterations(loops[:-1]).set, loops)

    @memoize_method
    def iterations(self, loops: Loops) -> Points:
        """Return all iterations of *loops*, including those in which nothing executes."""
        region = self.region(loops)
        if region is None:
            return Points(self._upto_last(loops))
        return Points(tuple(range(len(interval)) for interval in region))

    def numbered(self, values: Points, loops: Loops) -> Points:
        """Return the iteration numbers of *loops* at which their variables have *values*."""
        region = self.region(loops)
        if region is None or values.box is None:
            return Points(values.set.apply(self.numbering(loops)))
        pairs = zip(values.box, region, strict=True)
        return Points(tuple(range(here.start - all_.start, here.stop - all_.start) for here, all_ in pairs))

    # }}}

    # {{{ loops whose iterations depend on those of other loops

    @memoize_method
    def numbering(self, loops: Loops) -> isl.Map:
        """Return the map from the values of the variables of *loops* to their iteration numbers."""
        if not loops:
            return isl.Map("{ [] -> [] }")
        depth = len(loops)
        innermost = _innermost(depth)
        visited = self.visited(loops)
        if visited.box is not None:
            number = affine_map(_names(depth), [Affine.variable(_names(depth)[-1], -visited.box[-1].start)])
        elif visited.is_empty:
            number = innermost
        else:
            first = _outer(depth).apply_range(self._by_outer(visited.set).lexmin())
            number = innermost.sum(first.neg())
        return _outer(depth).apply_range(self.numbering(loops[:-1])).flat_range_product(number)

    @memoize_method
    def _last_iteration(self, loops: Loops) -> isl.Map:
        """Return the map from the iterations of the outer *loops* to the last iteration of the innermost one."""
        return self._by_outer(self.visited(loops).set.apply(self.numbering(loops))).lexmax()

    @staticmethod
    def _by_outer(points: isl.Set) -> isl.Map:
        """Return the map from all dimensions of *points* except the last to the last."""
        depth = points.dim(SET)
        return _outer(depth).reverse().apply_range(_innermost(depth).intersect_domain(points))

    def _upto_last(self, loops: Loops) -> isl.Set:
        depth = len(loops) - 1
        inside = self._last_iteration(loops).intersect_domain(self.iterations(loops[:-1]).set)
        upto = inside.apply_range(isl.Map("{ [last] -> [x] : 0 <= x <= last }")).wrap()
        around = ", ".join(f"x{place}" for place in range(depth))
        flat = f"[{around}, x{depth}]" if depth else f"[x{depth}]"
        return upto.apply(isl.Map(f"{{ [[{around}] -> [x{depth}]] -> {flat} }}"))

    # }}}


@cache
def _outer(depth: int) -> isl.Map:
    """Return the map from *depth* values to all but the last of them."""
    return affine_map(_names(depth), [Affine.variable(name) for name in _names(depth)[:-1]])


@cache
def _innermost(depth: int) -> isl.Map:
    return affine_map(_names(depth), [Affine.variable(_names(depth)[-1])])


def _names(depth: int) -> list[str]:
    return [f"x{place}" for place in range(depth)]


def _value(number: isl.PwAff, around: isl.Set, loops: Loops) -> Any:
    """Return *number*, a function on the iterations *around* of the outer *loops*, as an integer or expression."""
    if number.max_val() == number.min_val():
        return as_int(number.max_val())
    return function_of(number.gist(around), loops)


SET = isl.dim_type.set
Axis = str | GroupInameTag | LocalInameTag
"""a host loop, a grid axis, or a local axis"""


class LaunchExecutions:
    """Statement executions of the warps of a launch at given sizes, by warp position."""

    def __init__(
        self, counter: ExecutionCounter, launch: Launch, sizes: Mapping[str, int], warp_size: int = 32
    ) -> None:
        self.counter, self.launch, self.sizes, self.kernel = counter, launch, sizes, counter.kernel
        shape = dict(sorted(group_shape(launch, sizes).items())) or {0: 1}
        self.placement = Placement(
            tuple(sorted(launch.host_inames)), tuple(sorted(launch.group_axes)), shape, warp_size
        )
        self.instructions: dict[Any, Instruction] = {}
        """cache of graph instructions, shared by warp classes"""
        self._points_of = SetMemory[Points]()
        self._nests: dict[tuple[Loops, tuple[Points, ...]], LoopIterations] = {}

    @cached_property
    def warps(self) -> isl.Set:
        """Return the positions of all warps of the launch."""
        site = Site(self.launch, self.launch.host_inames, ALWAYS, f"launch of {self.launch.name}")
        host = at_sizes(self.counter.points(site), self.sizes)
        names: Sequence[str] = host.get_var_names_not_none(SET)
        host = image(host, names, [Affine.variable(name) for name in self.placement.host])
        extents = [grid_extent(self.launch, axis, self.sizes) for axis in self.placement.groups]
        extents.append(warps_of_group(self.placement.shape, self.placement.size))
        return host.flat_product(boxed(tuple(map(range, extents))))

    def by_place(self, statement: Statement, conditions: Conditions) -> isl.Set:
        """Return the (warp position, loop values) points at which *statement* executes under *conditions*."""
        with naming(statement):
            return self._by_place(statement.inames, conditions, tuple(nest.iname for nest in statement.loops))

    @memoize_method
    def _by_place(self, inames: frozenset[str], conditions: Conditions, loops: tuple[str, ...]) -> isl.Set:
        anywhere = self.warps.insert_dims(SET, self.placement.axes, len(loops))
        return self._placed(self._points(inames, conditions), loops).intersect(anywhere).coalesce()

    def iterations(self, site: Site, warp: Warp, host: Mapping[str, int] | None = None) -> WarpIterations:
        """Return the iterations of *warp* at *site* lane by lane, assuming that conditions on data hold.

        *host* has the values of loops around the launch; those not given become sequential loops. Raises
        :class:`UncountableError` if a loop bound is data without a typical value, and :class:`ParameterError` if a size
        is missing.
        """
        points, counted = self._points(site.inames, site.conditions), self.counter.loops(site.inames)
        if not points.is_bounded():
            raise UnboundedDomainError(f"{site.source}: its loops ({', '.join(sorted(site.inames))}) have no bounds")
        return WarpIterations.of(self.kernel, warp, points, counted, self.lockstep(site.inames), self.sizes, host or {})

    @memoize_method
    def _points(self, inames: frozenset[str], conditions: Conditions) -> isl.Set:
        """Return the points over *inames* at which *conditions* hold, for all warps."""
        return at_sizes(self.counter.points(Site(self.launch, inames, conditions, "")), self.sizes)

    def weight(self, statement: Statement, conditions: Conditions) -> Fraction:
        """Return the expected executions per point of *statement* under *conditions*, from ``typical``."""
        with naming(statement):
            return self.counter.weight(self._site(statement, conditions))

    def on_data(self, statement: Statement, conditions: Conditions) -> Conditions:
        """Return the *conditions* of *statement* that depend on data."""
        return self.counter.on_data(self._site(statement, conditions))

    def _site(self, statement: Statement, conditions: Conditions) -> Site:
        return Site(self.launch, statement.inames, conditions, statement.name)

    def _placed(self, points: isl.Set, loops: Sequence[str]) -> isl.Set:
        """Return (warp position, values of *loops*) for the warps with some lane among *points*."""
        names = list(points.get_var_names_not_none(SET))
        points = self.lockstep(frozenset(names)).numbered(points)
        used = self._used_axes(names)
        # All groups and work-items along an axis that a statement does not use execute it.
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
        """Return axis -> index along it as an affine function, for the axes that *names* map to."""
        used: dict[Axis, Affine[Atom]] = {}
        for name in names:
            tag = self.kernel.hardware_axes.get(name)
            if tag is not None:
                used[tag] = Affine(((name, 1),), -first_value(self.kernel, name, self.sizes))
            elif name in self.placement.host:
                used[name] = Affine(((name, 1),))
        return used

    @memoize_method
    def lockstep(self, inames: frozenset[str]) -> Lockstep:
        """Return the start values of the loops among *inames* that start differently in different lanes."""
        return lockstep_of(self.kernel, self.launch, inames, self._visited)

    def once(self, values: isl.Set) -> Points:
        """Return *values* as points, the same object for equal sets."""
        return self._points_of.setdefault(values, Points(values))

    def nest(self, loops: Loops, values: Mapping[int, Points]) -> LoopIterations:
        """Return the iterations inside *loops* (empty or one outermost loop), given the loop *values* of statements."""
        key = loops, tuple(values.values())
        if key not in self._nests:
            self._nests[key] = LoopIterations(self.kernel, values)
        return self._nests[key]

    def _visited(self, inames: frozenset[str]) -> isl.Set:
        return at_sizes(self.counter.loops(inames).points, self.sizes)


# {{{ the iterations in which one warp executes each statement


@dataclass(frozen=True, slots=True)
class StatementExecutions:
    """The executions of a statement by one warp under some conditions."""

    values: Points
    """values of the enclosing loops' variables, outermost first"""
    iterations: Points
    """the corresponding iteration numbers"""
    weight: Fraction
    """expected executions per iteration, from ``typical``; 1 if no condition depends on data"""
    on_data: Conditions
    """conditions on data, which decide whether it executes"""
    condition: Any
    """condition on the iterations of the enclosing loops; None if executed in all of them"""


class WarpExecutions:
    """The iterations in which one warp of a launch executes each statement."""

    def __init__(self, launch: LaunchExecutions, place: Sequence[int]) -> None:
        """Take the warp at position *place* of *launch*."""
        self.of_launch, self.place = launch, tuple(place)
        self.kernel, self.sizes = launch.kernel, launch.sizes
        self.warp, self.host = launch.placement.warp(place)
        self._values: dict[tuple[frozenset[str], Conditions, tuple[str, ...]], Points] = {}
        self._lanes: dict[tuple[frozenset[str], Conditions], WarpIterations] = {}
        self._runs: dict[Any, StatementExecutions] = {}

    def values(self, statement: Statement, conditions: Conditions) -> Points:
        """Return the loop values (outermost first) with which *statement* executes under *conditions*."""
        key = (statement.inames, conditions, tuple(nest.iname for nest in statement.loops))
        if key not in self._values:
            points = self.of_launch.by_place(statement, conditions)
            here = fixed(points, dict(enumerate(self.place))).project_out(SET, 0, len(self.place))
            self._values[key] = self.of_launch.once(here.remove_redundancies().coalesce())
        return self._values[key]

    def lanes(self, site: Site) -> WarpIterations:
        """Return the iterations at *site* lane by lane; see :meth:`LaunchExecutions.iterations`."""
        key = site.inames, site.conditions
        if key not in self._lanes:
            self._lanes[key] = self.of_launch.iterations(site, self.warp, self.host)
        return self._lanes[key]

    def run(self, statement: Statement, conditions: Conditions) -> StatementExecutions:
        """Return the executions of *statement* under *conditions*."""
        key = (statement.inames, conditions, statement.loops, statement.name)
        if key not in self._runs:
            self._runs[key] = self._run(statement, conditions)
        return self._runs[key]

    def _run(self, statement: Statement, conditions: Conditions) -> StatementExecutions:
        loops, nest = statement.loops, self.nest(statement.loops)
        values = self.values(statement, conditions)
        if isinstance(statement.what, Barrier) and not values.is_empty:
            values = nest.met(statement.what.copied, loops, values)
        iterations, condition = nest.executed(values, loops)
        weight, on_data = self.of_launch.weight(statement, conditions), self.of_launch.on_data(statement, conditions)
        return StatementExecutions(values, iterations, weight, on_data, condition)

    def nest(self, loops: Loops) -> LoopIterations:
        """Return the iterations of the loops inside the outermost of *loops*."""
        return self._nest(loops[:1])

    @memoize_method
    def _nest(self, outermost: Loops) -> LoopIterations:
        inside = [statement for loop in outermost for statement in loop.statements()]
        return self.of_launch.nest(outermost, {each.number: self.values(each, ALWAYS) for each in inside})


# }}}
