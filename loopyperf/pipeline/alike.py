"""For how many passes a loop goes on alike: the same instructions, each waiting for what is as many passes ago.

What a pass does may depend on its number: conditions on it, inner loops whose passes it sets, and edges from a fixed
pass or from one that falls behind. All of these are expressions of the passes, so that ranges of them can be decided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Any

import pymbolic.primitives as prim
from pymbolic import substitute

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Loop, loops_in
from loopyperf.pipeline.expressions import Code, codes_of, decoded, decoded_body, decoded_edge
from loopyperf.polyhedral.affine import Opaque
from loopyperf.polyhedral.ranges import Range, any_holds, bounds, mentions, periods, truth, variation

LONGEST_PERIOD = 64
"""passes after which conditions are looked for to repeat: those with larger divisors are not seen through"""


@dataclass(frozen=True)
class Surroundings:
    """Where passes are compared."""

    outer: tuple[int, ...]
    """the passes of the loops around the loop"""
    oldest: int
    """the first pass of which a result may still be waited for"""


class AlikePasses:
    """What tells the passes of one loop apart."""

    def __init__(self, graph: Idg, loop: Loop, around: tuple[Loop, ...]) -> None:
        """Take a loop of *graph*, whose expressions are :class:`Code`, and the loops around it."""
        self.name, self.level = loop.name, len(around)
        self.outer_names = [each.name for each in around]
        depth = self.level
        inside = {
            place: tuple([each.name for each in loops])
            for place, loops in enumerate(graph.loops_around)
            if len(loops) > depth and loops[depth].number == loop.number
        }
        edges = [(edge, names) for place, names in inside.items() for edge in graph.definitions[place]]
        conditions = [(graph.instructions[place].condition, names) for place, names in inside.items()]
        conditions += [(edge.condition, names) for edge, names in edges]
        known = dict.fromkeys([each for each in conditions if isinstance(each[0], Code)])
        varying = [(code, names) for code, names in known if depth in code.levels]
        self.conditions = [decoded(*each) for each in varying]
        unsure = [(edge, names) for edge, names in edges if edge.source in inside and not self._is_as_early(edge)]
        self.edges = [edge for edge in (decoded_edge(*each) for each in unsure) if not self._is_steady(edge)]
        self.inner = list(loops_in(decoded_body(loop.body, [*self.outer_names, loop.name])))
        self.period = lcm(*(period for each in self._expressions() for period in periods(each)))

    def _is_as_early(self, edge: Edge) -> bool:
        """Return whether one number tells from how many passes ago *edge* comes, as of nearly all."""
        codes = codes_of(edge)
        own = codes[self.level]
        if not isinstance(own, Code) or own.lag(self.level) is None:
            return False
        others = (each for level, each in enumerate(codes) if level != self.level and isinstance(each, Code))
        return all(self.level not in each.levels for each in others)

    def _is_steady(self, edge: Edge) -> bool:
        """Return whether *edge* comes from as many passes ago in each pass."""
        own = edge.passes[self.level].terms
        others = [term for level, each in enumerate(edge.passes) if level != self.level for term in each.terms]
        is_relative = (self.name, 1) in own and all(isinstance(variable, str) for variable, _ in own)
        return is_relative and not any(
            variable == self.name or (isinstance(variable, Opaque) and mentions(variable.expression, self.name))
            for variable, _ in others
        )

    def _expressions(self) -> Iterator[Any]:
        """Yield all that may tell passes apart."""
        yield from self.conditions
        yield from (inner.trips for inner in self.inner if mentions(inner.trips, self.name))
        for edge in self.edges:
            yield from (edge.condition, edge.passes[self.level].expression)

    def until(self, first: int, trips: int, where: Surroundings) -> int:
        """Return the pass before which all from *first* on surely are alike, of *trips* at most.

        Where divisions by numbers occur, those are that are :attr:`period` passes apart.
        """
        if self.period > LONGEST_PERIOD:
            return first
        low, high = first, trips + 1
        middle = trips
        while low < high - 1:
            low, high = (middle, high) if self._are_alike(first, middle, where) else (low, middle)
            middle = (low + high) // 2
        return low

    def _are_alike(self, first: int, end: int, where: Surroundings) -> bool:
        """Return whether the passes from *first* on and before *end* surely are alike."""
        for rest, passes in enumerate(self._each_period):
            numbers = -((rest - first) // self.period), (end - 1 - rest) // self.period
            if numbers[0] < numbers[1] and not passes.are_alike(numbers, where):
                return False
        return True

    @cached_property
    def _each_period(self) -> "list[_Passes]":
        return [_Passes(self, rest) for rest in range(self.period)]


class _Passes:
    """The passes of a loop of number ``period * q + rest``: what may tell them apart."""

    def __init__(self, loop: AlikePasses, rest: int) -> None:
        """Take those of *loop* that are *rest* after one whose number its period divides."""
        self.loop = loop
        number = loop.period * prim.Variable(loop.name) + rest

        def seen(expression: Any) -> Any:
            """Return *expression* with the number of the period in place of that of the pass."""
            is_same = loop.period == 1 or not mentions(expression, loop.name)
            return expression if is_same else substitute(expression, {loop.name: number})

        self.inner = [(each.name, bounds(seen(each.trips)), mentions(each.trips, loop.name)) for each in loop.inner]
        self.conditions = [variation(seen(each), loop.name) for each in loop.conditions]
        self.edges = [
            (truth(seen(edge.condition)), [bounds(seen(each.expression)) for each in edge.passes[: loop.level + 1]])
            for edge in loop.edges
        ]

    def are_alike(self, numbers: Range, where: Surroundings) -> bool:
        """Return whether they surely are, for q from the first to the last of *numbers*."""
        box: dict[str, Range] = {name: (at, at) for name, at in zip(self.loop.outer_names, where.outer, strict=True)}
        box[self.loop.name] = numbers
        for name, trips, is_varying in self.inner:
            least, most = trips(box)
            if least != most and is_varying:
                return False
            box[name] = (0, max(most - 1, box.get(name, (0, 0))[1]))
        if any_holds(self.conditions, box):
            return False
        return not any(
            exists(box) is not False and _may_be_waited_for([each(box) for each in passes], where)
            for exists, passes in self.edges
        )


def _may_be_waited_for(source: Sequence[Range], where: Surroundings) -> bool:
    """Return whether a result of a pass somewhere in *source* may be one of this run that is not complete."""
    *outer, (_, last) = source
    return last >= where.oldest and all(low <= at <= high for at, (low, high) in zip(where.outer, outer, strict=True))
