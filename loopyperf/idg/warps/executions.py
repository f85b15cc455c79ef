"""What one warp executes, as sets of the passes that it makes through the loops of its launch.

A pass is numbered from zero each time that its loop is entered. A warp executes what at least one of its lanes does.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.kernel.data import GroupInameTag, LocalInameTag
from loopy.symbolic import aff_to_expr, set_to_cond_expr

from loopyperf.counts.conditions import ALWAYS, Conditions
from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.quasipolynomial import number_of_points
from loopyperf.counts.sub_groups import in_passes
from loopyperf.errors import UncountableError
from loopyperf.idg.warps.kinds import Placement
from loopyperf.idg.warps.nest import Nest, Statement
from loopyperf.idg.warps.passes import at_sizes
from loopyperf.idg.warps.warp import first_value, grid_extent, group_shape, warps_of_group
from loopyperf.launches import Barrier, Launch

SET = isl.dim_type.set
PARAM = isl.dim_type.param


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

    @cached_property
    def warps(self) -> isl.Set:
        """Return the places of all warps of the launch."""
        site = Site(self.launch, self.launch.host_inames, ALWAYS, f"launch of {self.launch.name}")
        host = at_sizes(self.counter.points(site), self.sizes)
        names: Sequence[str] = host.get_var_names_not_none(SET)
        before = ", ".join(f"x{place}" for place in range(len(names)))
        places = [f"x{names.index(name)}" for name in self.placement.host]
        tests = [f"0 <= g{axis} < {grid_extent(self.launch, axis, self.sizes)}" for axis in self.placement.groups]
        tests.append(f"0 <= w < {warps_of_group(self.placement.shape, self.placement.size)}")
        after = ", ".join([*places, *(f"g{axis}" for axis in self.placement.groups), "w"])
        return host.apply(isl.Map(f"{{ [{before}] -> [{after}] : {' and '.join(tests)} }}"))

    def by_place(self, statement: Statement, conditions: Conditions) -> isl.Set:
        """Return the places of the warps that execute *statement* under *conditions*, with the values of its loops."""
        loops = tuple(nest.iname for nest in statement.loops)
        key = (statement.inames, conditions, loops)
        if key not in self._of_sites:
            with naming(statement):
                points = self.counter.points(self._site(statement, conditions))
            self._of_sites[key] = self._placed(points, loops).intersect(self._anywhere(len(loops))).coalesce()
        return self._of_sites[key]

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
        names: Sequence[str] = points.get_var_names_not_none(SET)
        numbered = in_passes(self.kernel, self.launch, points, lambda inames: self.counter.loops(inames).points)
        # Along an axis that a statement does not use, all groups and work-items execute it.
        groups = {axis: f"g{axis}" for axis in self.placement.groups}
        lanes = {axis: f"y{axis}" for axis in self.placement.shape}
        for place, name in enumerate(names):
            tag = self.kernel.hardware_axis(name)
            if isinstance(tag, GroupInameTag):
                groups[tag.axis] = f"x{place} - {self._first(name)}"
            elif isinstance(tag, LocalInameTag):
                lanes[tag.axis] = f"x{place} - {self._first(name)}"
        lengths = list(self.placement.shape.values())
        number = " + ".join(f"{prod(lengths[:place])}*({lane})" for place, lane in enumerate(lanes.values()))
        before = ", ".join(f"x{place}" for place in range(len(names)))
        host = [f"x{names.index(name)}" if name in names else name for name in self.placement.host]
        places = [*host, *groups.values(), "w"]
        idle = [
            f"0 <= y{axis} < {extent}" for axis, extent in self.placement.shape.items() if lanes[axis] == f"y{axis}"
        ]
        after = ", ".join([*places, *(f"x{names.index(loop)}" for loop in loops)])
        free = ", ".join(f"y{axis}" for axis in lanes if lanes[axis] == f"y{axis}")
        tests = " and ".join([f"w = floor(({number})/{self.placement.size})", *idle])
        text = f"{{ [{before}] -> [{after}] : {f'exists {free} : ' if free else ''}{tests} }}"
        return at_sizes(numbered, self.sizes).apply(isl.Map(text))

    def _first(self, name: str) -> int:
        return first_value(self.kernel, name, self.sizes)


@dataclass(frozen=True, slots=True)
class Run:
    """How one warp executes a statement under some conditions."""

    values: isl.Set
    """of the variables of the loops around it, the outermost first"""
    passes: isl.Set
    """the numbers of their passes"""
    number: int
    """how many"""
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
        self._values: dict[tuple[frozenset[str], Conditions, tuple[int, ...]], isl.Set] = {}
        self._numbering: dict[tuple[int, ...], isl.Map] = {}
        self._visited: dict[int, isl.Set] = {}
        self._last: dict[tuple[int, ...], isl.Map] = {}
        self._everywhere: dict[tuple[int, ...], isl.Set] = {}
        self._runs: dict[Any, Run] = {}

    def values(self, statement: Statement, conditions: Conditions) -> isl.Set:
        """Return the values of the loops' variables with which *statement* runs under *conditions*, outermost first."""
        key = (statement.inames, conditions, tuple(map(id, statement.loops)))
        if key not in self._values:
            points = self.of_launch.by_place(statement, conditions)
            for axis, value in enumerate(self.place):
                points = points.fix_val(SET, axis, isl.Val(value))
            self._values[key] = points.project_out(SET, 0, len(self.place)).coalesce()
        return self._values[key]

    # {{{ passes by number

    def numbering(self, loops: tuple[Nest, ...]) -> isl.Map:
        """Return the map from the values of the variables of *loops* to the numbers of their passes."""
        key = tuple(map(id, loops))
        if key not in self._numbering:
            self._numbering[key] = self._numbered(loops)
        return self._numbering[key]

    def _numbered(self, loops: tuple[Nest, ...]) -> isl.Map:
        if not loops:
            return isl.Map("{ [] -> [] }")
        outer = self.numbering(loops[:-1])
        depth = len(loops)
        around = ", ".join(f"x{place}" for place in range(depth - 1))
        everything = ", ".join(f"x{place}" for place in range(depth))
        visited = self.visited(loops)
        if visited.is_empty():
            last = isl.Map(f"{{ [{everything}] -> [x{depth - 1}] }}")
        elif visited.is_box():
            last = isl.Map(f"{{ [{everything}] -> [x{depth - 1} - {visited.dim_min_val(depth - 1)}] }}")
        else:
            first = visited.apply(isl.Map(f"{{ [{everything}] -> [[{around}] -> [x{depth - 1}]] }}")).unwrap().lexmin()
            apart = isl.Map(f"{{ [{everything}] -> [{around}] }}").apply_range(first)
            value = isl.Map(f"{{ [{everything}] -> [x{depth - 1}] }}")
            last = value.sum(apart.neg())
        to_outer = isl.Map(f"{{ [{everything}] -> [{around}] }}").apply_range(outer)
        return to_outer.flat_range_product(last)

    def visited(self, loops: tuple[Nest, ...]) -> isl.Set:
        """Return the values of the variables of *loops* with which the innermost one makes a pass."""
        key = id(loops[-1])
        if key not in self._visited and loops[-1].is_unrolled:
            self._visited[key] = self._copied(loops)
        elif key not in self._visited:
            depth = len(loops)
            found = [_first_dimensions(self.values(statement, ALWAYS), depth) for statement in loops[-1].statements()]
            together = isl.Set(f"{{ [{', '.join(f'x{place}' for place in range(depth))}] : false }}")
            for each in found:
                together = together.union(each)
            self._visited[key] = together.coalesce()
        return self._visited[key]

    def _copied(self, loops: tuple[Nest, ...]) -> isl.Set:
        """Return the values of the variables of *loops*, all that there are copies for of the innermost one.

        Whether anything is to be done in a copy, each instruction asks for itself; barriers do not.
        """
        depth = len(loops) - 1
        copies = self.kernel.domain([loops[-1].iname])
        around = self.visited(loops[:-1]) if depth else isl.Set("{ [] }")
        within = around.insert_dims(SET, depth, 1)
        within = within.lower_bound_val(SET, depth, copies.dim_min_val(0))
        return within.upper_bound_val(SET, depth, copies.dim_max_val(0))

    def trips(self, loops: tuple[Nest, ...]) -> Any:
        """Return how many passes the innermost of *loops* makes each time that it is entered.

        An integer, or an expression of the passes of the loops around it.
        """
        around = self.all_passes(loops[:-1])
        last = self._last_pass(loops)
        number = isl.PwMultiAff.from_map(last).coalesce().get_pw_aff(0).add_constant_val(isl.Val(1))
        never = around - last.domain()
        if not never.is_empty():
            zero = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(number.get_domain_space()))
            number = number.union_add(isl.PwAff.from_aff(zero).intersect_domain(never))
        if number.max_val() == number.min_val():
            return number.max_val().to_python()
        return _expression(number.gist(around), loops)

    def first(self, loops: tuple[Nest, ...]) -> Any:
        """Return the variable of the innermost of *loops* in its first pass.

        An integer, or an expression of the passes of the loops around it.
        """
        visited = self.visited(loops)
        depth = len(loops) - 1
        if visited.is_empty():
            return 0
        around = ", ".join(f"x{place}" for place in range(depth))
        everything = ", ".join(f"x{place}" for place in range(depth + 1))
        least = visited.apply(isl.Map(f"{{ [{everything}] -> [[{around}] -> [x{depth}]] }}")).unwrap().lexmin()
        least = least.apply_domain(self.numbering(loops[:-1]))
        value = isl.PwMultiAff.from_map(least).coalesce().get_pw_aff(0)
        if value.max_val() == value.min_val():
            return value.max_val().to_python()
        return _expression(value.gist(self.all_passes(loops[:-1])), loops)

    def _last_pass(self, loops: tuple[Nest, ...]) -> isl.Map:
        """Return the map from the passes of the outer *loops* to the last one of the innermost."""
        key = tuple(map(id, loops))
        if key not in self._last:
            self._last[key] = self._found_last_pass(loops)
        return self._last[key]

    def _found_last_pass(self, loops: tuple[Nest, ...]) -> isl.Map:
        depth = len(loops) - 1
        everything = ", ".join(f"x{place}" for place in range(depth + 1))
        around = ", ".join(f"x{place}" for place in range(depth))
        visited = self.visited(loops).apply(self.numbering(loops))
        return visited.apply(isl.Map(f"{{ [{everything}] -> [[{around}] -> [x{depth}]] }}")).unwrap().lexmax()

    def run(self, statement: Statement, conditions: Conditions) -> Run:
        """Return how the warp executes *statement* under *conditions*."""
        key = (statement.inames, conditions, tuple(map(id, statement.loops)))
        if key not in self._runs:
            everywhere = self.all_passes(statement.loops)
            values = self.values(statement, conditions)
            if isinstance(statement.what, Barrier) and not values.is_empty():
                values = self._met(statement, values) & everywhere.apply(self.numbering(statement.loops).reverse())
            passes = values.apply(self.numbering(statement.loops))
            condition = None if passes.is_empty() else condition_on(passes, everywhere, statement.loops)
            weight = self.of_launch.weight(statement, conditions)
            self._runs[key] = Run(values, passes, number_of_points(passes), weight, condition)
        return self._runs[key]

    def _met(self, statement: Statement, values: isl.Set) -> isl.Set:
        """Return the values of loops with which a barrier is met that runs with *values*: no condition leaves it out.

        It is met where a loop has holes, and in every copy of the unrolled loops right around it.
        """
        barrier = statement.what
        assert isinstance(barrier, Barrier)
        whole = isl.Set.from_basic_set(values.convex_hull())
        for place, nest in enumerate(statement.loops):
            if nest.iname in barrier.copied:
                whole = whole.project_out(SET, place, 1).insert_dims(SET, place, 1)
        return whole

    def all_passes(self, loops: tuple[Nest, ...]) -> isl.Set:
        """Return the passes of *loops*, whether anything runs in them or not."""
        key = tuple(map(id, loops))
        if key not in self._everywhere:
            self._everywhere[key] = self._found_passes(loops) if loops else isl.Set("{ [] }")
        return self._everywhere[key]

    def _found_passes(self, loops: tuple[Nest, ...]) -> isl.Set:
        depth = len(loops) - 1
        around = ", ".join(f"x{place}" for place in range(depth))
        inside = self._last_pass(loops).intersect_domain(self.all_passes(loops[:-1]))
        upto = inside.apply_range(isl.Map("{ [last] -> [x] : 0 <= x <= last }")).wrap()
        flat = f"[{around}, x{depth}]" if depth else f"[x{depth}]"
        return upto.apply(isl.Map(f"{{ [[{around}] -> [x{depth}]] -> {flat} }}"))

    # }}}


@contextmanager
def naming(statement: Statement) -> Generator[None]:
    """Begin what is refused of *statement* with its name."""
    try:
        yield
    except UncountableError as error:
        error.args = (f"instruction {statement.name!r}: {error}",)
        raise


def condition_on(passes: isl.Set, everywhere: isl.Set, loops: Sequence[Nest]) -> Any:
    """Return the condition on passes of *loops* under which those of *everywhere* are among *passes*; None for all."""
    if everywhere.is_subset(passes):
        return None
    return set_to_cond_expr(_named(passes.gist(everywhere), loops))


def _first_dimensions(points: isl.Set, number: int) -> isl.Set:
    return points.project_out(SET, number, points.dim(SET) - number)


def _expression(number: isl.PwAff, loops: Sequence[Nest]) -> Any:
    """Return *number* as an expression of the passes of *loops*."""
    found: Any = None
    for where, value in reversed(number.get_pieces()):
        for place in range(value.dim(isl.dim_type.in_)):
            value = value.set_dim_name(isl.dim_type.in_, place, loops[place].iname)
        expression = aff_to_expr(value)
        found = expression if found is None else prim.If(set_to_cond_expr(_named(where, loops)), expression, found)
    return found


def _named(passes: isl.Set, loops: Sequence[Nest]) -> isl.Set:
    """Return *passes* with its dimensions called as *loops*, as many as there are."""
    for place in range(passes.dim(SET)):
        passes = passes.set_dim_name(SET, place, loops[place].iname)
    return passes
