"""For how many passes a loop goes on alike: the same instructions, each waiting for what is as many passes ago.

What a pass does may depend on its number: conditions on it, inner loops whose passes it sets, and edges from a fixed
pass or from one that falls behind. All of these are expressions of the passes, so that ranges of them can be decided.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, lcm
from typing import Any

import pymbolic.primitives as prim
from pymbolic import substitute

from loopyperf.idg.graph import Idg
from loopyperf.idg.pass_ranges import Range, bounds, coefficients, mentions, periods, truth, varies_with
from loopyperf.idg.program import Edge, Loop, placed

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
        inside = [place for place, _ in placed(loop.body)]
        within = frozenset(inside)
        edges = [edge for place in inside for edge in graph.definitions[place]]
        self.inner = list(_loops(loop))
        self.conditions = list(
            dict.fromkeys(
                condition
                for condition in (*(graph.instructions[p].condition for p in inside), *(e.condition for e in edges))
                if mentions(condition, self.name)
            )
        )
        self.edges = [edge for edge in edges if edge.source in within and not self._is_steady(edge)]
        self.period = lcm(*(period for each in self._expressions() for period in periods(each)))

    def _is_steady(self, edge: Edge) -> bool:
        """Return whether *edge* comes from as many passes ago in each pass."""
        own = coefficients(edge.passes[self.level])
        others = [each for level, each in enumerate(edge.passes) if level != self.level]
        return own is not None and own.get(self.name) == 1 and not any(mentions(each, self.name) for each in others)

    def _expressions(self) -> Iterator[Any]:
        """Yield all that tells passes apart."""
        yield from self.conditions
        yield from (inner.trips for inner in self.inner if mentions(inner.trips, self.name))
        for edge in self.edges:
            yield from (edge.condition, edge.passes[self.level])

    def until(self, first: int, trips: int, where: Surroundings) -> int:
        """Return the pass before which all from *first* on are alike, of *trips* at most."""
        if self.period > LONGEST_PERIOD:
            return first
        low, high = first, trips
        if self._are_alike(first, trips, where):
            return trips
        while low < high - 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._are_alike(first, middle, where) else (low, middle)
        return low

    def _are_alike(self, first: int, end: int, where: Surroundings) -> bool:
        """Return whether the passes from *first* on and before *end* surely are: those a period apart, with a period."""
        return all(self._class_is_alike(rest, first, end, where) for rest in range(self.period))

    def _class_is_alike(self, rest: int, first: int, end: int, where: Surroundings) -> bool:
        quotients = ceil((first - rest) / self.period), (end - 1 - rest) // self.period
        if quotients[0] >= quotients[1]:
            return True
        number = self.period * prim.Variable(self.name) + rest if self.period > 1 else prim.Variable(self.name)

        def rewritten(expression: Any) -> Any:
            return substitute(expression, {self.name: number}) if mentions(expression, self.name) else expression

        box: dict[str, Range] = {name: (at, at) for name, at in zip(self.outer_names, where.outer, strict=True)}
        box[self.name] = quotients
        for inner in self.inner:
            least, most = bounds(rewritten(inner.trips), box)
            if least != most and mentions(inner.trips, self.name):
                return False
            box[inner.name] = (0, max(most - 1, box.get(inner.name, (0, 0))[1]))
        return not any(varies_with(rewritten(each), self.name, box) for each in self.conditions) and not any(
            self._may_be_waited_for(edge, rewritten, box, where) for edge in self.edges
        )

    def _may_be_waited_for(self, edge: Edge, rewritten: Any, box: dict[str, Range], where: Surroundings) -> bool:
        """Return whether *edge* may come from a result that is not complete."""
        if truth(rewritten(edge.condition), box) is False:
            return False
        for at, expression in zip(where.outer, edge.passes, strict=False):
            low, high = bounds(rewritten(expression), box)
            if at < low or at > high:
                return False
        return bounds(rewritten(edge.passes[self.level]), box)[1] >= where.oldest


def _loops(loop: Loop) -> Iterator[Loop]:
    """Yield the loops inside *loop*, each before those inside it."""
    for item in loop.body:
        if isinstance(item, Loop):
            yield item
            yield from _loops(item)


