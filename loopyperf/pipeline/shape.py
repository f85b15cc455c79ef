"""The shape of a program: its steps through loops, how edges find their results, and which iterations may differ.

It decides for how many iterations a loop is periodic: the same instructions, each waiting for results that are equally
many iterations old.

An iteration may depend on its number: through conditions on it, inner loops whose trip counts it determines, and edges
from a fixed iteration or from one that falls behind. All of these are expressions of iterations, so they can be decided
for ranges of iterations.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import lcm
from typing import Any, NamedTuple

import pymbolic.primitives as prim
from pymbolic import substitute

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Item, Loop, Opcode, common_depth, lag, loops_in
from loopyperf.polyhedral.affine import Opaque
from loopyperf.polyhedral.expressions import (
    Range,
    Same,
    any_holds,
    bounds,
    divisors_of,
    mentions,
    names_of,
    truth,
    variation,
)

LONGEST_PERIOD = 64
"""largest period considered; conditions with larger divisors are treated as aperiodic"""


@dataclass(frozen=True)
class Surroundings:
    """The context of a comparison of iterations."""

    outer: tuple[int, ...]
    """current iterations of the loops around the loop"""
    oldest: int
    """first iteration of which a result may still be outstanding"""


class PeriodicIterations:
    """The conditions, trip counts and edges that may distinguish the iterations of one loop."""

    def __init__(self, graph: Idg, loop: Loop, around: tuple[Loop, ...]) -> None:
        """Examine *loop* of *graph*, inside the loops *around* it."""
        self.name, self.level = loop.name, len(around)
        self.outer_names = [each.name for each in around]
        depth = self.level
        inside = {
            place
            for place, loops in enumerate(graph.loops_around)
            if len(loops) > depth and loops[depth].number == loop.number
        }
        edges = [edge for place in inside for edge in graph.definitions[place]]
        conditions = dict.fromkeys([each.condition for each in (*map(graph.instructions.__getitem__, inside), *edges)])
        self.conditions = [condition for condition in conditions if mentions(condition, loop.name)]
        unsure = [edge for edge in edges if edge.source in inside and not self._is_as_early(edge)]
        self.edges = [edge for edge in unsure if not self._is_steady(edge)]
        self.inner = list(loops_in(loop.body))
        self.period = lcm(*(period for each in self._expressions() for period in divisors_of(each)))

    def _is_as_early(self, edge: Edge) -> bool:
        """Return whether *edge* goes back a constant number of iterations, as nearly all do."""
        if lag(edge.iterations[self.level], self.name) is None:
            return False
        return self.name not in names_of([each for level, each in enumerate(edge.iterations) if level != self.level])

    def _is_steady(self, edge: Edge) -> bool:
        """Return whether *edge* goes back equally many iterations in each iteration."""
        own = edge.iterations[self.level].terms
        others = [term for level, each in enumerate(edge.iterations) if level != self.level for term in each.terms]
        is_relative = (self.name, 1) in own and all(isinstance(variable, str) for variable, _ in own)
        return is_relative and not any(
            variable == self.name or (isinstance(variable, Opaque) and mentions(variable.expression, self.name))
            for variable, _ in others
        )

    def _expressions(self) -> Iterator[Any]:
        """Yield all expressions that may distinguish iterations."""
        yield from self.conditions
        yield from (inner.trips for inner in self.inner if mentions(inner.trips, self.name))
        for edge in self.edges:
            yield from (edge.condition, edge.iterations[self.level].expression)

    def until(self, first: int, trips: int, where: Surroundings) -> int:
        """Return the iteration, at most *trips*, before which all from *first* on surely are periodic.

        If divisions occur, iterations :attr:`period` apart are equal.
        """
        if self.period > LONGEST_PERIOD:
            return first
        low, high = first, trips + 1
        middle = trips
        while low < high - 1:
            low, high = (middle, high) if self._are_periodic(first, middle, where) else (low, middle)
            middle = (low + high) // 2
        return low

    def _are_periodic(self, first: int, end: int, where: Surroundings) -> bool:
        """Return whether the iterations from *first* to *end* (exclusive) surely are periodic."""
        for rest, passes in enumerate(self._each_period):
            numbers = -((rest - first) // self.period), (end - 1 - rest) // self.period
            if numbers[0] < numbers[1] and not passes.are_periodic(numbers, where):
                return False
        return True

    @cached_property
    def _each_period(self) -> "list[_Iterations]":
        return [_Iterations(self, rest) for rest in range(self.period)]


class _Iterations:
    """The iterations ``period * q + rest`` of a loop, with the expressions that may distinguish them."""

    def __init__(self, loop: PeriodicIterations, rest: int) -> None:
        """Select the iterations of *loop* with remainder *rest* modulo its period."""
        self.loop = loop
        number = loop.period * prim.Variable(loop.name) + rest

        def seen(expression: Any) -> Any:
            """Return *expression* as a function of q."""
            is_same = loop.period == 1 or not mentions(expression, loop.name)
            return expression if is_same else substitute(expression, {loop.name: number})

        self.inner = [(each.name, bounds(seen(each.trips)), mentions(each.trips, loop.name)) for each in loop.inner]
        self.conditions = [variation(seen(condition), loop.name) for condition in loop.conditions]
        self.edges = [
            (truth(seen(edge.condition)), [bounds(seen(each.expression)) for each in edge.iterations[: loop.level + 1]])
            for edge in loop.edges
        ]

    def are_periodic(self, numbers: Range, where: Surroundings) -> bool:
        """Return whether they surely are periodic for q in the range *numbers*."""
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
    """Return whether a result from one of the iterations in *source* may be incomplete in this run of the loop."""
    *outer, (_, last) = source
    return last >= where.oldest and all(low <= at <= high for at, (low, high) in zip(where.outer, outer, strict=True))


INSTRUCTION, ENTER, REPEAT, END = range(4)
"""kinds of steps"""
SHAPES = 32
"""size of the cache of shapes"""
SEARCHED = -1
"""value of :attr:`ResultLookup.back`: the result is found by its iterations"""


class ResultLookup(NamedTuple):
    """How to find the result that an edge waits for."""

    back: int
    """executions before the newest one; :data:`SEARCHED` for a search by iterations"""
    level: int = 0
    """level of a loop"""
    lag: int = 0
    """iterations that this loop must have completed; otherwise there is no such result"""


@dataclass(frozen=True)
class _Structure:
    """The part of a graph that determines its shape; graphs of a launch share it, even with fewer iterations."""

    edges: Same[object]
    body: tuple[Any, ...]
    conditions: tuple[Any, ...]
    barriers: tuple[int, ...]
    graph: Idg = field(compare=False)

    @classmethod
    def of(cls, graph: Idg) -> "_Structure":
        barriers = tuple(place for place, each in enumerate(graph.instructions) if each.kind == Opcode.BARRIER)
        conditions = tuple(instruction.condition for instruction in graph.instructions)
        return cls(Same(graph.edges), _but_for_trips(graph.body), conditions, barriers, graph)


def _but_for_trips(body: Sequence[Item]) -> tuple[Any, ...]:
    """Return *body* without constant trip counts; trip counts that are expressions of iterations stay."""

    def structure(loop: Loop) -> tuple[Any, ...]:
        is_number = isinstance(loop.trips, int) and loop.trips > 0
        return loop.number, None if is_number else loop.trips, _but_for_trips(loop.body)

    return tuple([structure(item) if isinstance(item, Loop) else item for item in body])


def shape_of(graph: Idg) -> "Shape":
    """Return the shape of *graph*."""
    return _shape(_Structure.of(graph))


@lru_cache(maxsize=SHAPES)
def _shape(structure: _Structure) -> "Shape":
    return Shape(structure.graph)


class Shape:
    """The part of a graph that does not depend on latencies."""

    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.steps = list[tuple[int, int, Any, tuple[Loop, ...]]]()
        """(kind, instruction or level of a loop, condition, loops around it including itself)"""
        self.step_of = [0] * len(graph.instructions)
        self.begins, self.ends = dict[int, int](), dict[int, int]()
        """loop number -> its first and last step"""
        self.furthest = Counter[int]()
        """loop -> iterations that an edge without search goes back, at most"""
        self.differing = set[int]()
        """loops with iterations that may differ"""
        self._body(graph.body, ())
        self.steps.append((END, 0, None, ()))
        for place, instruction in enumerate(graph.instructions):
            self._differ_by(instruction.condition, graph.loops_around[place])
        self.ways = [self._way(edge) for edge in graph.edges]
        for edge, way in zip(graph.edges, self.ways, strict=True):
            self._differ_by_edge(edge)
            if way.lag:
                number = graph.loops_around[edge.target][way.level].number
                self.furthest[number] = max(self.furthest[number], way.lag)
        self.waited_for = [list[tuple[Edge, ResultLookup]]() for _ in graph.instructions]
        """instruction -> edges to it, except those from barriers: a warp at a barrier issues nothing, so no edge from
        the barrier ever delays it"""
        for edge, way in zip(graph.edges, self.ways, strict=True):
            if graph.instructions[edge.source].kind != Opcode.BARRIER:
                self.waited_for[edge.target].append((edge, way))
        self._alike = dict[int, PeriodicIterations]()

    def periodic_iterations(self, loops: tuple[Loop, ...]) -> PeriodicIterations:
        """Return the iterations of the last of the nested *loops*, for a test of periodicity."""
        *around, loop = loops
        if loop.number not in self._alike:
            self._alike[loop.number] = PeriodicIterations(self.graph, loop, tuple(around))
        return self._alike[loop.number]

    def _body(self, body: Sequence[Item], loops: tuple[Loop, ...]) -> None:
        for item in body:
            if isinstance(item, Loop):
                self.begins[item.number] = len(self.steps)
                self.steps.append((ENTER, len(loops), None, (*loops, item)))
                self._body(item.body, (*loops, item))
                self.ends[item.number] = len(self.steps)
                self.steps.append((REPEAT, len(loops), None, (*loops, item)))
                self._differ_by(item.trips, loops)
            else:
                self.step_of[item] = len(self.steps)
                self.steps.append((INSTRUCTION, item, self.graph.instructions[item].condition, loops))

    def _way(self, edge: Edge) -> ResultLookup:
        source, target = (self.graph.loops_around[place] for place in (edge.source, edge.target))
        common = common_depth(source, target)
        if self.graph.instructions[edge.source].condition is not None or len(edge.iterations) != len(source):
            return ResultLookup(SEARCHED)
        lags = [lag(each, loop.name) for each, loop in zip(edge.iterations[:common], source, strict=False)]
        ends = [loop.trips - 1 if isinstance(loop.trips, int) and loop.trips > 0 else None for loop in source[common:]]
        earlier = lags[-1] if lags else 0
        constants = [None if iteration.terms else iteration.constant for iteration in edge.iterations[common:]]
        if any(each != 0 for each in lags[:-1]) or earlier is None or constants != ends:
            return ResultLookup(SEARCHED)
        back = earlier - int(self.step_of[edge.source] >= self.step_of[edge.target])
        if back < 0 or (back and ends):
            return ResultLookup(SEARCHED)
        return ResultLookup(back, max(0, common - 1), earlier)

    # {{{ loops with iterations that differ

    def _differ_by(self, expression: Any, loops: Sequence[Loop]) -> None:
        names = names_of([expression])
        self.differing |= {loop.number for loop in loops if loop.name in names}

    def _differ_by_edge(self, edge: Edge) -> None:
        source, target = (self.graph.loops_around[place] for place in (edge.source, edge.target))
        self._differ_by(edge.condition, target)
        for level, loop in enumerate(target[: common_depth(source, target)]):
            own, others = edge.iterations[level], [each for at, each in enumerate(edge.iterations) if at != level]
            if lag(own, loop.name) is None or loop.name in names_of(others):
                self.differing.add(loop.number)

    # }}}
