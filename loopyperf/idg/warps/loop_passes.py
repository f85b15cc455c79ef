"""The passes that warps make through the loops in one outermost loop of a launch.

A pass is numbered from zero each time that its loop is entered. Most loops make the same passes whenever they are
entered: what is asked of such is told by intervals, and isl is asked about the others.
"""

from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any

import islpy as isl

from loopyperf.idg.warps.passes import condition_on, function_of
from loopyperf.idg.warps.warp import Loops
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import Box, Points, affine_map, union

SET = isl.dim_type.set


class LoopPasses:
    """The passes of loops, for all warps that execute the statements in them with the same values of the loops."""

    def __init__(self, kernel: Kernel, values: Mapping[int, Points]) -> None:
        """Take the *values* of the loops' variables, the outermost first, with which each statement runs, by number."""
        self._kernel, self._values = kernel, values
        self._numbers: dict[tuple[Points, Loops], tuple[Points, Any]] = {}
        self._met: dict[tuple[Points, Loops, frozenset[str]], Points] = {}
        self._conditions: dict[tuple[tuple[Box, ...], Points, Loops], Any] = {}
        self._regions: dict[Loops, Box | None] = {}
        self._visited: dict[Loops, Points] = {}
        self._numbering: dict[Loops, isl.Map] = {}
        self._last: dict[Loops, isl.Map] = {}
        self._passes: dict[Loops, Points] = {}
        self._trips: dict[Loops, Any] = {}
        self._firsts: dict[Loops, Any] = {}

    def executed(self, values: Points, loops: Loops) -> tuple[Points, Any]:
        """Return the numbers of the passes of *loops* whose variables have *values*, and the condition on them."""
        if (values, loops) not in self._numbers:
            passes = self.numbered(values, loops)
            condition = None if passes.is_empty else condition_on(passes, self.passes(loops), loops)
            self._numbers[values, loops] = passes, condition
        return self._numbers[values, loops]

    def condition(self, where: tuple[Box, ...], everywhere: Points, loops: Loops) -> Any:
        """Return the condition on passes of *loops*, which are *everywhere*, to be in disjoint boxes *where*.

        None where they all are.
        """
        key = where, everywhere, loops
        if key not in self._conditions:
            is_all = sum(prod(map(len, box)) for box in where) == everywhere.number
            inside = everywhere if is_all else union([Points(box) for box in where], len(loops))
            self._conditions[key] = condition_on(inside, everywhere, loops)
        return self._conditions[key]

    def met(self, barrier: Barrier, loops: Loops, values: Points) -> Points:
        """Return the values of loops with which *barrier* is met that runs with *values*: no condition leaves it out.

        It is met where a loop has holes, and in every copy of the unrolled loops right around it.
        """
        key = values, loops, barrier.copied
        if key not in self._met:
            self._met[key] = self._met_in(barrier, loops, values)
        return self._met[key]

    def _met_in(self, barrier: Barrier, loops: Loops, values: Points) -> Points:
        copied = [place for place, nest in enumerate(loops) if nest.iname in barrier.copied]
        region = self.region(loops)
        if values.box is not None and region is not None:
            return Points(tuple((region if place in copied else values.box)[place] for place in range(len(loops))))
        whole = isl.Set.from_basic_set(values.set.convex_hull())
        for place in copied:
            whole = whole.project_out(SET, place, 1).insert_dims(SET, place, 1)
        return Points(whole & self.passes(loops).set.apply(self.numbering(loops).reverse()))

    def visited(self, loops: Loops) -> Points:
        """Return the values of the variables of *loops* with which the innermost one makes a pass."""
        if loops not in self._visited:
            self._visited[loops] = self._copied(loops) if loops[-1].is_unrolled else self._entered(loops)
        return self._visited[loops]

    def _entered(self, loops: Loops) -> Points:
        inside = dict.fromkeys(self._values[statement.number] for statement in loops[-1].statements())
        return union([values.outer(len(loops)) for values in inside], len(loops))

    def _copied(self, loops: Loops) -> Points:
        """Return the values of the variables of *loops*, all that there are copies for of the innermost one.

        Whether anything is to be done in a copy, each instruction asks for itself; barriers do not.
        """
        copies = self._kernel.values(loops[-1].iname)
        assert copies is not None, "Loopy unrolls loops that constants bound"
        return (self.visited(loops[:-1]) if len(loops) > 1 else Points(())).times(copies)

    def region(self, loops: Loops) -> Box | None:
        """Return the values that the variables of *loops* have, where each has the same whenever its loop is entered.

        None where some have not, or where the innermost loop is never entered.
        """
        if loops not in self._regions:
            found = self.visited(loops).box if loops else ()
            outside = self.region(loops[:-1]) if loops else None
            self._regions[loops] = found if found is None or not loops or found[:-1] == outside else None
        return self._regions[loops]

    def trips(self, loops: Loops) -> Any:
        """Return how many passes the innermost of *loops* makes each time that it is entered.

        An integer, or an expression of the passes of the loops around it.
        """
        if loops not in self._trips:
            self._trips[loops] = self._found_trips(loops)
        return self._trips[loops]

    def _found_trips(self, loops: Loops) -> Any:
        region = self.region(loops)
        if region is not None:
            return len(region[-1])
        around = self.passes(loops[:-1]).set
        last = self._last_pass(loops)
        number = isl.PwMultiAff.from_map(last).coalesce().get_pw_aff(0).add_constant_val(isl.Val(1))
        never = around - last.domain()
        if not never.is_empty():
            zero = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(number.get_domain_space()))
            number = number.union_add(isl.PwAff.from_aff(zero).intersect_domain(never))
        return _value(number, around, loops)

    def first(self, loops: Loops) -> Any:
        """Return the variable of the innermost of *loops* in its first pass.

        An integer, or an expression of the passes of the loops around it.
        """
        if loops not in self._firsts:
            self._firsts[loops] = self._found_first(loops)
        return self._firsts[loops]

    def _found_first(self, loops: Loops) -> Any:
        region = self.region(loops)
        if region is not None:
            return region[-1].start
        if self.visited(loops).is_empty:
            return 0
        least = self._by_outer(self.visited(loops).set).lexmin().apply_domain(self.numbering(loops[:-1]))
        value = isl.PwMultiAff.from_map(least).coalesce().get_pw_aff(0)
        return _value(value, self.passes(loops[:-1]).set, loops)

    def passes(self, loops: Loops) -> Points:
        """Return the passes of *loops*, whether anything runs in them or not."""
        if loops not in self._passes:
            region = self.region(loops)
            box = None if region is None else tuple(range(len(interval)) for interval in region)
            self._passes[loops] = Points(self._upto_last(loops) if box is None else box)
        return self._passes[loops]

    def numbered(self, values: Points, loops: Loops) -> Points:
        """Return the numbers of the passes of *loops* in which their variables have *values*."""
        region = self.region(loops)
        if region is None or values.box is None:
            return Points(values.set.apply(self.numbering(loops)))
        pairs = zip(values.box, region, strict=True)
        return Points(tuple(range(here.start - all_.start, here.stop - all_.start) for here, all_ in pairs))

    # }}}

    # {{{ loops whose passes depend on those of others

    def numbering(self, loops: Loops) -> isl.Map:
        """Return the map from the values of the variables of *loops* to the numbers of their passes."""
        if loops not in self._numbering:
            self._numbering[loops] = self._numbered(loops)
        return self._numbering[loops]

    def _numbered(self, loops: Loops) -> isl.Map:
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

    def _last_pass(self, loops: Loops) -> isl.Map:
        """Return the map from the passes of the outer *loops* to the last one of the innermost."""
        if loops not in self._last:
            passes = self.visited(loops).set.apply(self.numbering(loops))
            self._last[loops] = self._by_outer(passes).lexmax()
        return self._last[loops]

    @staticmethod
    def _by_outer(points: isl.Set) -> isl.Map:
        """Return the map from all dimensions of *points* but the last to that one."""
        depth = points.dim(SET)
        return _outer(depth).reverse().apply_range(_innermost(depth).intersect_domain(points))

    def _upto_last(self, loops: Loops) -> isl.Set:
        depth = len(loops) - 1
        inside = self._last_pass(loops).intersect_domain(self.passes(loops[:-1]).set)
        upto = inside.apply_range(isl.Map("{ [last] -> [x] : 0 <= x <= last }")).wrap()
        around = ", ".join(f"x{place}" for place in range(depth))
        flat = f"[{around}, x{depth}]" if depth else f"[x{depth}]"
        return upto.apply(isl.Map(f"{{ [[{around}] -> [x{depth}]] -> {flat} }}"))

    # }}}


@cache
def _outer(depth: int) -> isl.Map:
    """Return the map from so many values to all but the last of them."""
    return affine_map(_names(depth), [Affine.variable(name) for name in _names(depth)[:-1]])


@cache
def _innermost(depth: int) -> isl.Map:
    return affine_map(_names(depth), [Affine.variable(_names(depth)[-1])])


def _names(depth: int) -> list[str]:
    return [f"x{place}" for place in range(depth)]


def _value(number: isl.PwAff, around: isl.Set, loops: Loops) -> Any:
    """Return *number*, a function of the passes of all *loops* but the innermost, which are *around*."""
    if number.max_val() == number.min_val():
        return number.max_val().to_python()
    return function_of(number.gist(around), loops)
