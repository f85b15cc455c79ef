"""For how many passes a loop goes on alike: the same instructions, each waiting for what is as many passes ago.

What a pass does may depend on its number: conditions on it, inner loops whose passes it sets, and edges from a fixed
pass or from one that falls behind. All of these are expressions of the passes, so that ranges of them can be decided.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm
from typing import Any

import pymbolic.primitives as prim
from pymbolic import substitute

from loopyperf.idg.graph import Idg
from loopyperf.idg.pass_ranges import Range, bounds, coefficients, mentions, periods, truth, varies_with
from loopyperf.idg.program import Edge, Loop, loops_in, placed

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
        """Take a loop of *graph*, and the loops around it."""
        self.name, self.level = loop.name, len(around)
        self.outer_names = [each.name for each in around]
        inside = dict.fromkeys(place for place, _ in placed(loop.body))
        edges = [edge for place in inside for edge in graph.definitions[place]]
        conditions = (*(graph.instructions[place].condition for place in inside), *(edge.condition for edge in edges))
        self.conditions = [each for each in dict.fromkeys(conditions) if mentions(each, self.name)]
        self.edges = [edge for edge in edges if edge.source in inside and not self._is_steady(edge)]
        self.inner = list(loops_in(loop.body))
        self.period = lcm(*(period for each in self._expressions() for period in periods(each)))

    def _is_steady(self, edge: Edge) -> bool:
        """Return whether *edge* comes from as many passes ago in each pass."""
        factors = coefficients(edge.passes[self.level])
        others = [each for level, each in enumerate(edge.passes) if level != self.level]
        is_relative = factors is not None and factors.get(self.name) == 1
        return is_relative and not any(mentions(each, self.name) for each in others)

    def _expressions(self) -> Iterator[Any]:
        """Yield all that may tell passes apart."""
        yield from self.conditions
        yield from (inner.trips for inner in self.inner if mentions(inner.trips, self.name))
        for edge in self.edges:
            yield from (edge.condition, edge.passes[self.level])

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
        for rest in range(self.period):
            numbers = -((rest - first) // self.period), (end - 1 - rest) // self.period
            if numbers[0] < numbers[1] and not _Passes(self, rest, numbers, where).are_alike():
                return False
        return True


class _Passes:
    """Some passes of a loop: every one, or one each period."""

    def __init__(self, loop: AlikePasses, rest: int, numbers: tuple[int, int], where: Surroundings) -> None:
        """Take those of number ``period * q + rest``, for q from the first to the last of *numbers*."""
        self.loop, self.where = loop, where
        self.number = loop.period * prim.Variable(loop.name) + rest
        self.box: dict[str, Range] = {name: (at, at) for name, at in zip(loop.outer_names, where.outer, strict=True)}
        self.box[loop.name] = numbers

    def are_alike(self) -> bool:
        """Return whether they surely are."""
        for inner in self.loop.inner:
            least, most = bounds(self._seen(inner.trips), self.box)
            if least != most and mentions(inner.trips, self.loop.name):
                return False
            self.box[inner.name] = (0, max(most - 1, self.box.get(inner.name, (0, 0))[1]))
        decided = not any(varies_with(self._seen(each), self.loop.name, self.box) for each in self.loop.conditions)
        return decided and not any(self._may_be_waited_for(edge) for edge in self.loop.edges)

    def _seen(self, expression: Any) -> Any:
        """Return *expression* with the number of the period in place of that of the pass."""
        name = self.loop.name
        is_same = self.loop.period == 1 or not mentions(expression, name)
        return expression if is_same else substitute(expression, {name: self.number})

    def _may_be_waited_for(self, edge: Edge) -> bool:
        """Return whether *edge* may come from a result of this run of the loop that is not complete."""
        if truth(self._seen(edge.condition), self.box) is False:
            return False
        for at, expression in zip(self.where.outer, edge.passes, strict=False):
            low, high = bounds(self._seen(expression), self.box)
            if not low <= at <= high:
                return False
        return bounds(self._seen(edge.passes[self.loop.level]), self.box)[1] >= self.where.oldest
