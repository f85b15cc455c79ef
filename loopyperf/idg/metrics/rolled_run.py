"""A warp run through a rolled graph: once a loop has become periodic, its other passes are not executed but added.

The run of one warp in order is max-plus linear in the moments that may still be waited for. These, seen from the pass
of a loop, come back to the same pattern after some passes; from then on everything repeats, shifted in time, for as
long as the passes of the loop are alike. A loop of a million passes costs a few of them, and the result is exact.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pymbolic

from loopyperf.errors import GraphError
from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.alike import AlikePasses, Surroundings
from loopyperf.idg.metrics.one_warp import Execution, OneWarp, Rule
from loopyperf.idg.metrics.paths import Component
from loopyperf.idg.metrics.repetition import Repeated, View
from loopyperf.idg.program import Edge, Item, Loop
from loopyperf.polyhedral.affine import Affine

LIMIT = 3_000_000
"""instructions executed one by one, unless another limit is asked for"""

OfPasses = Callable[[tuple[int, ...]], Any]
"""a function of the passes of the loops around, from the outermost on"""


def run_rolled(graph: Idg, rules: list[Rule], limit: int = LIMIT) -> OneWarp:
    """Return a warp that has executed *graph*, each instruction by its one of *rules*.

    Raises :class:`GraphError` where more than *limit* instructions would have to be executed one by one, as no steady
    state is found in a loop.
    """
    run = _RolledRun(graph, OneWarp(rules), limit)
    run.body(graph.body, ())
    return run.warp


class _RolledRun:
    def __init__(self, graph: Idg, warp: OneWarp, limit: int) -> None:
        self.graph, self.warp, self.limit = graph, warp, limit
        self.left = limit
        self._sources: dict[int, list[tuple[int, OfPasses]]] = {}
        """of each instruction: what it may wait for, and the function to its execution"""
        self._conditions: dict[int, OfPasses | None] = {}
        self._loops: dict[int, tuple[OfPasses, AlikePasses]] = {}

    def body(self, body: Sequence[Item], passes: tuple[int, ...], around: tuple[Loop, ...] = ()) -> None:
        """Execute *body* in these *passes* of the loops around it."""
        for item in body:
            if isinstance(item, Loop):
                self._loop(item, passes, around)
            else:
                self._instruction(item, passes)

    def _instruction(self, place: int, passes: tuple[int, ...]) -> None:
        if place not in self._sources:
            self._prepare(place)
        condition = self._conditions[place]
        if condition is not None and not condition(passes):
            return
        if not self.left:
            raise GraphError(
                f"no steady state in {self.limit} executions: limit=... sets another number, at about 1 s per million"
            )
        self.left -= 1
        pending = self.warp.pending
        found = [source(passes) for origin, source in self._sources[place] if origin in pending]
        self.warp.execute(place, passes, [source for source in found if source is not None])

    def _prepare(self, place: int) -> None:
        names = tuple(loop.name for loop in self.graph.loops_around[place])
        condition = self.graph.instructions[place].condition
        self._conditions[place] = None if condition is None else _function(condition, names)
        self._sources[place] = [(edge.source, _source(edge, names)) for edge in self.graph.definitions[place]]

    # {{{ loops

    def _loop(self, loop: Loop, outer: tuple[int, ...], around: tuple[Loop, ...]) -> None:
        if id(loop) not in self._loops:
            names = tuple(each.name for each in around)
            self._loops[id(loop)] = _function(loop.trips, names), AlikePasses(self.graph, loop, around)
        trips, alike = self._loops[id(loop)]
        number, last, seen = 0, trips(outer), _Seen()
        while number < last:
            span, times = self._repetitions(loop, alike, View(self.warp, outer, number), last, seen)
            begun = Repeated(View(self.warp, outer, number)) if times > 1 else None
            for here in range(number, number + span):
                self.body(loop.body, (*outer, here), (*around, loop))
            if begun is not None:
                begun.repeat(View(self.warp, outer, number + span), span, times)
                seen.clear()
            number += span * times

    def _repetitions(self, loop: Loop, alike: AlikePasses, view: View, last: int, seen: "_Seen") -> tuple[int, int]:
        """Return how many of the next passes to execute, and for how many times as many they stand."""
        self.warp.forget()
        if not self._are_all_of(loop, view.outer):
            return 1, 1
        pattern = view.number % alike.period, view.signature()
        first, oldest = seen.setdefault(pattern, (view.number, view.oldest()))
        span = view.number - first
        if not span or view.number + 2 * span > last:
            return 1, 1
        times = (alike.until(first, last, Surroundings(view.outer, oldest)) - view.number) // span
        if times > 1:
            return span, times
        seen[pattern] = view.number, view.oldest()
        return 1, 1

    def _are_all_of(self, loop: Loop, outer: tuple[int, ...]) -> bool:
        """Return whether all results that may still be waited for are of this run of *loop*."""
        level = len(outer)
        for place, passes in self.warp.results:
            around = self.graph.loops_around[place]
            if len(around) <= level or around[level] is not loop or passes[:level] != outer:
                return False
        return True

    # }}}


_Seen = dict[Component, tuple[int, int]]
"""a pattern -> the pass at whose start it was seen, and the first one of which a result might be waited for"""


def _source(edge: Edge, names: tuple[str, ...]) -> OfPasses:
    """Return the function to what *edge* comes from, None where there is no such edge."""
    place = edge.source
    condition = None if edge.condition is None else _function(edge.condition, names)
    levels = [_function(each, names) for each in edge.passes]

    def source(passes: tuple[int, ...]) -> Execution | None:
        if condition is not None and not condition(passes):
            return None
        return place, tuple([level(passes) for level in levels])

    return source


def _function(expression: Any, names: tuple[str, ...]) -> OfPasses:
    """Return *expression* as a function of the passes of the loops of these *names*."""
    match Affine.of(expression):
        case Affine(terms=(), constant=constant):
            return lambda passes: constant
        case Affine(terms=((name, 1),), constant=constant):
            level = names.index(name)
            return lambda passes: passes[level] + constant
        case _:
            compiled: Any = pymbolic.compile(expression, list(names))
            return lambda passes: compiled(*passes)
