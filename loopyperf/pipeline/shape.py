"""The shape of a program: its steps through loops, how edges find their results, and which passes may differ."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Item, Loop, Opcode, common_depth
from loopyperf.pipeline.alike import AlikePasses
from loopyperf.pipeline.expressions import Code, codes_of
from loopyperf.polyhedral.sets import Same

INSTRUCTION, ENTER, REPEAT, END = range(4)
"""kinds of steps"""
SHAPES = 64
"""graphs whose shape is remembered"""
SEARCHED = -1
"""of an edge: the result is looked for by the passes that it is of"""


def shape_of(graph: Idg) -> "Shape":
    """Return the shape of *graph*."""
    return _shape(_Structure.of(graph))


class Way(NamedTuple):
    """How the result that an edge waits for is found."""

    back: int
    """so many executions before the newest one; :data:`SEARCHED` by its passes"""
    level: int = 0
    """of the loop that has had..."""
    lag: int = 0
    """...so many passes before, at least, or there is no such result"""


@dataclass(frozen=True)
class _Structure:
    """What the shape of a graph depends on: graphs of one launch have it in common, those with fewer passes too."""

    edges: Same[object]
    body: tuple[Any, ...]
    conditions: tuple[Any, ...]
    barriers: tuple[int, ...]
    graph: Idg = field(compare=False)

    @classmethod
    def of(cls, graph: Idg) -> "_Structure":
        barriers = tuple(place for place, each in enumerate(graph.instructions) if each.kind == Opcode.BARRIER)
        conditions = tuple(each.condition for each in graph.instructions)
        return cls(Same(graph.edges), _but_for_trips(graph.body), conditions, barriers, graph)


def _but_for_trips(body: Sequence[Item]) -> tuple[Any, ...]:
    """Return *body* without the numbers of passes that loops have: expressions of passes stay."""

    def structure(loop: Loop) -> tuple[Any, ...]:
        is_number = isinstance(loop.trips, int) and loop.trips > 0
        return loop.number, None if is_number else loop.trips, _but_for_trips(loop.body)

    return tuple([structure(item) if isinstance(item, Loop) else item for item in body])


@lru_cache(maxsize=SHAPES)
def _shape(structure: _Structure) -> "Shape":
    return Shape(structure.graph)


class Shape:
    """What of a graph does not depend on latencies."""

    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.steps = list[tuple[int, int, Any, tuple[Loop, ...]]]()
        """each with an instruction or the level of a loop, its condition, the loops around it, itself included"""
        self.step_of = [0] * len(graph.instructions)
        self.begins, self.ends = dict[int, int](), dict[int, int]()
        """the first and the last step of each loop by its number"""
        self.furthest = Counter[int]()
        """loop -> by how many of its passes an edge that is not searched goes back, at most"""
        self.differing = set[int]()
        """loops of which some pass may differ from the others"""
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
        self.waited_for = [list[tuple[Edge, Way]]() for _ in graph.instructions]
        """instruction -> the edges that lead to it, but for those from barriers: a warp that a barrier holds issues
        nothing, so nothing ever waits for the barrier by an edge"""
        for edge, way in zip(graph.edges, self.ways, strict=True):
            if graph.instructions[edge.source].kind != Opcode.BARRIER:
                self.waited_for[edge.target].append((edge, way))
        self._alike = dict[int, AlikePasses]()

    def alike_passes(self, loops: tuple[Loop, ...]) -> AlikePasses:
        """Return what tells the passes of the last of *loops* apart, which are inside each other."""
        *around, loop = loops
        if loop.number not in self._alike:
            self._alike[loop.number] = AlikePasses(self.graph, loop, tuple(around))
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

    def _way(self, edge: Edge) -> Way:
        source, target = (self.graph.loops_around[place] for place in (edge.source, edge.target))
        common = common_depth(source, target)
        codes = codes_of(edge)
        if self.graph.instructions[edge.source].condition is not None or len(codes) != len(source):
            return Way(SEARCHED)
        lags = [code.lag(level) if isinstance(code, Code) else None for level, code in enumerate(codes[:common])]
        ends = [loop.trips - 1 if isinstance(loop.trips, int) and loop.trips > 0 else None for loop in source[common:]]
        lag = lags[-1] if lags else 0
        if any(each != 0 for each in lags[:-1]) or lag is None or [*map(_constant, codes[common:])] != ends:
            return Way(SEARCHED)
        back = lag - int(self.step_of[edge.source] >= self.step_of[edge.target])
        if back < 0 or (back and ends):
            return Way(SEARCHED)
        return Way(back, max(0, common - 1), lag)

    # {{{ which loops have passes that differ

    def _differ_by(self, expression: Any, loops: Sequence[Loop]) -> None:
        self.differing |= {loops[level].number for level in _levels(expression)}

    def _differ_by_edge(self, edge: Edge) -> None:
        source, target = (self.graph.loops_around[place] for place in (edge.source, edge.target))
        self._differ_by(edge.condition, target)
        codes = codes_of(edge)
        if all(isinstance(code, Code) and code.lag(level) is not None for level, code in enumerate(codes)):
            return
        for level in range(common_depth(source, target)):
            code = codes[level]
            own = code.lag(level) if isinstance(code, Code) else None
            if own is None or any(level in _levels(each) for at, each in enumerate(codes) if at != level):
                self.differing.add(target[level].number)

    # }}}


def _constant(code: Code | int) -> int | None:
    return code if isinstance(code, int) else code.constant


def _levels(expression: Any) -> set[int]:
    """Return the levels of the loops whose passes *expression* mentions."""
    return expression.levels if isinstance(expression, Code) else set()
