"""A scenario as the tables of numbers that a core works on: steps, instructions, edges, expressions (``core.h``)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError
from loopyperf.idg.graph import Idg, number_of_runs
from loopyperf.idg.program import Edge, Item, Loop, Opcode, common_depth, loops_in
from loopyperf.pipeline.clock import Clock
from loopyperf.pipeline.expressions import Code, ExpressionTable, codes_of, decoded_graph
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.timed_graph import TimedGraph
from loopyperf.polyhedral.sets import Same

INSTRUCTION, ENTER, REPEAT, END = range(4)
"""kinds of steps"""
MOST = 1_000_000
"""results of an instruction that are kept"""
SHAPES = 64
"""graphs whose shape is remembered"""
SEARCHED = -1
"""of an edge: the result is looked for by the passes that it is of"""


def _record(*names: str, wide: Sequence[str] = ()) -> np.dtype[Any]:
    """Return the layout of a struct of C whose *wide* numbers have 64 bits, the others 32."""
    return np.dtype([(name, np.int64 if name in wide else np.int32) for name in names], align=True)


STEPS = _record("kind", "argument", "jump", "expression", "depth", "furthest", "loop", "is_uniform")
INSTRUCTIONS = _record(
    *("issue", "completion", "subsystem", "number", "of_program", "is_barrier", "depth", "step"),
    *("edges", "results", "kept", "is_searched"),
    wide=("issue", "completion"),
)
EDGES = _record("source", "condition", "back", "level", "lag", "passes")
OPERATIONS = _record("operation", "level", "number", wide=("number",))

Table = NDArray[Any]
Row = list[int]


@dataclass(frozen=True)
class Tables:
    """What warps execute, as ``core.h`` tells."""

    steps: Table
    around: Table
    """steps x deepest: the last step of each loop around a step; -1 where there is none"""
    instructions: Table
    """and one more"""
    edges: Table
    passes: Table
    expressions: Table
    operations: Table
    kinds: Table
    """where the programs of the warps of the first groups begin"""
    maps: Table
    """kinds x most subsystems: those of the core, for those of the program"""
    loops: tuple["LoopOf", ...]
    """by their number"""


class LoopOf(NamedTuple):
    """A loop of one of the programs."""

    graph: Idg
    loops: tuple[Loop, ...]
    """those around it, and at last itself"""


class Limits(NamedTuple):
    """What else a core is given, as ``core.h`` tells."""

    total_groups: int
    issues: float
    gap: int
    goes_on: int
    by_age: int
    warps_per_group: int
    slots: int
    subsystems: int
    window: int

    @classmethod
    def of(cls, scenario: Scenario, clock: Clock) -> "Limits":
        """Return those of *scenario*, with times in ticks of *clock*."""
        execution = scenario.execution
        size = execution.warps_per_group
        issues = [sum(each.runs) for each in scenario.programs]
        cycle = lcm(size, len(scenario.order)) // size
        return cls(
            total_groups=execution.total_groups,
            issues=sum(issues[each] for each in scenario.order) / len(scenario.order) * size,
            gap=clock.ticks(scenario.gap) if scenario.gap else 0,
            goes_on=scenario.goes_on(clock),
            by_age=scenario.scheduler.by_age,
            warps_per_group=size,
            slots=execution.concurrent_groups,
            subsystems=len(scenario.subsystems),
            window=-(-execution.concurrent_groups // cycle) * cycle,
        )


def encoded(scenario: Scenario, clock: Clock) -> Tables:
    """Return the tables of *scenario*, with times in ticks of *clock*.

    Raises :class:`GraphError` for expressions that the core has no operations for.
    """
    tables = _Programs(clock)
    numbers = {name: number for number, name in enumerate(scenario.subsystems)}
    kinds = list[tuple[int, list[int]]]()
    known = list[tuple[TimedGraph, int]]()
    for program, latencies in zip(scenario.programs, scenario.latencies, strict=True):
        # Warps in other partitions execute the same program on other subsystems.
        begin = next((begin for other, begin in known if _is_same_but_for_subsystems(program, other)), None)
        if begin is None:
            begin = tables.add(program.graph, latencies)
            known.append((program, begin))
        kinds.append((begin, [numbers[each] for each in _own_subsystems(program.graph)]))
    return tables.tables([kinds[program] for program in scenario.order])


def _own_subsystems(graph: Idg) -> list[str]:
    return list(dict.fromkeys(each.subsystem for each in graph.instructions))


def _is_same_but_for_subsystems(one: TimedGraph, other: TimedGraph) -> bool:
    a, b = one.graph, other.graph
    if not (a.edges is b.edges and a.body is b.body and one.lambdas == other.lambdas):
        return False
    pairs = {(x.subsystem, y.subsystem) for x, y in zip(a.instructions, b.instructions, strict=True)}
    is_same = len(pairs) == len(_own_subsystems(a)) == len(_own_subsystems(b))
    return is_same and all(
        x.kind == y.kind and x.condition == y.condition for x, y in zip(a.instructions, b.instructions, strict=True)
    )


class _Programs:
    """The programs of warps one after the other."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.code = ExpressionTable()
        self.steps, self.around = list[Row](), list[Row]()
        self.instructions, self.edges = list[Row](), list[Row]()
        self.passes = Row()
        self.loops = list[LoopOf]()

    def add(self, graph: Idg, latencies: Sequence[Lambdas]) -> int:
        """Append the program of *graph*; return where it begins."""
        begin, offset = len(self.steps), len(self.instructions)
        shape = _shape_of(_Structure.of(graph))
        for kind, argument, expression, loops in shape.steps:
            self.steps.append([kind, argument, 0, self._code(expression), len(loops), 0, 0, 0])
            self.around.append([begin + shape.ends[loop.number] for loop in loops])
            if kind == INSTRUCTION:
                self.steps[-1][1] += offset
            elif kind == REPEAT:
                number, own = loops[-1].number, len(self.steps) - 1
                enter = begin + shape.begins[number]
                self.steps[enter][2], self.steps[own][2] = own + 1, enter + 1
                self.steps[own][5:] = shape.furthest[number], len(self.loops), int(number not in shape.differing)
                self.loops.append(LoopOf(graph, loops))
        self._add_instructions(shape, begin, offset, latencies)
        return begin

    def _add_instructions(self, shape: "_Shape", begin: int, offset: int, latencies: Sequence[Lambdas]) -> None:
        known = {each: (self.clock.ticks(each.issue), self.clock.ticks(each.completion)) for each in set(latencies)}
        ticks = [known[each] for each in latencies]
        apart = _ticks_apart(shape.graph, [issue for issue, _ in ticks])
        subsystems = {name: number for number, name in enumerate(_own_subsystems(shape.graph))}
        kept, searched = [0] * len(ticks), set[int]()
        for place, instruction in enumerate(shape.graph.instructions):
            of_what = [subsystems[instruction.subsystem], place, len(ticks), int(instruction.kind == Opcode.BARRIER)]
            where = [len(shape.graph.loops_around[place]), begin + shape.step_of[place], len(self.edges)]
            self.instructions.append([*ticks[place], *of_what, *where, 0, 0, 0])
            for edge, way in shape.waited_for[place]:
                source = edge.source
                passes = len(self.passes)
                if way.back == SEARCHED:
                    self.passes += map(self._code, codes_of(edge))
                    searched.add(source)
                self.edges.append([offset + source, self._code(edge.condition), *way, passes])
                kept[source] = max(kept[source], _outstanding(shape, edge, way, ticks[source][1], apart[source]))
        results = accumulate(kept, initial=0)
        for place, (number, first) in enumerate(zip(kept, results, strict=False)):
            self.instructions[offset + place][9:] = first, number, int(place in searched)

    def _code(self, expression: Any) -> int:
        return -1 if expression is None else self.code.add(expression)

    def tables(self, kinds: Sequence[tuple[int, list[int]]]) -> Tables:
        """Return all programs, given where those of the warps of some groups begin, and their subsystems."""
        end = [0] * 8 + [len(self.edges), 0, 0, 0]
        return Tables(
            _table(self.steps, STEPS),
            _ragged(self.around),
            _table([*self.instructions, end], INSTRUCTIONS),
            _table(self.edges, EDGES),
            np.array(self.passes, dtype=np.int32),
            np.array(self.code.begins, dtype=np.int32),
            _table(self.code.operations, OPERATIONS),
            np.array([begin for begin, _ in kinds], dtype=np.int32),
            _ragged([subsystems for _, subsystems in kinds]),
            tuple(self.loops),
        )


def _table(rows: Sequence[Sequence[int]], layout: np.dtype[Any]) -> Table:
    return np.array([tuple(row) for row in rows], dtype=layout)


def _ragged(rows: Sequence[Sequence[int]]) -> Table:
    """Return *rows* as a table as wide as the longest of them, filled up with -1."""
    found = np.full((len(rows), max(1, *map(len, rows))), -1, dtype=np.int32)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


class _Way(NamedTuple):
    """How the result that an edge waits for is found."""

    back: int
    """so many executions before the newest one; :data:`SEARCHED` by its passes"""
    level: int = 0
    """of the loop that has had..."""
    lag: int = 0
    """...so many passes before, at least, or there is no such result"""


@dataclass(frozen=True)
class _Structure:
    """What the shape of a graph depends on: graphs of one launch have it in common."""

    edges: Same[object]
    body: Same[object]
    conditions: tuple[Any, ...]
    barriers: tuple[int, ...]
    graph: Idg = field(compare=False)

    @classmethod
    def of(cls, graph: Idg) -> "_Structure":
        barriers = tuple(place for place, each in enumerate(graph.instructions) if each.kind == Opcode.BARRIER)
        conditions = tuple(each.condition for each in graph.instructions)
        return cls(Same(graph.edges), Same(graph.body), conditions, barriers, graph)


@lru_cache(maxsize=SHAPES)
def _shape_of(structure: _Structure) -> "_Shape":
    return _Shape(structure.graph)


class _Shape:
    """What of a graph does not depend on latencies."""

    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.steps = list[tuple[int, int, Any, tuple[Loop, ...]]]()
        """each with an instruction or the level of a loop, an expression, the loops around it"""
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
        self.waited_for = [list[tuple[Edge, _Way]]() for _ in graph.instructions]
        """instruction -> the edges that lead to it, but for those from barriers: a warp that a barrier holds issues
        nothing, so nothing ever waits for the barrier by an edge"""
        for edge, way in zip(graph.edges, self.ways, strict=True):
            if graph.instructions[edge.source].kind != Opcode.BARRIER:
                self.waited_for[edge.target].append((edge, way))

    def _body(self, body: Sequence[Item], loops: tuple[Loop, ...]) -> None:
        for item in body:
            if isinstance(item, Loop):
                self.begins[item.number] = len(self.steps)
                self.steps.append((ENTER, len(loops), item.trips, loops))
                self._body(item.body, (*loops, item))
                self.ends[item.number] = len(self.steps)
                self.steps.append((REPEAT, len(loops), None, (*loops, item)))
                self._differ_by(item.trips, loops)
            else:
                self.step_of[item] = len(self.steps)
                self.steps.append((INSTRUCTION, item, self.graph.instructions[item].condition, loops))

    def _way(self, edge: Edge) -> _Way:
        source, target = (self.graph.loops_around[place] for place in (edge.source, edge.target))
        common = common_depth(source, target)
        codes = codes_of(edge)
        if self.graph.instructions[edge.source].condition is not None or len(codes) != len(source):
            return _Way(SEARCHED)
        lags = [code.lag(level) if isinstance(code, Code) else None for level, code in enumerate(codes[:common])]
        ends = [loop.trips - 1 if isinstance(loop.trips, int) and loop.trips > 0 else None for loop in source[common:]]
        lag = lags[-1] if lags else 0
        if any(each != 0 for each in lags[:-1]) or lag is None or [*map(_constant, codes[common:])] != ends:
            return _Way(SEARCHED)
        back = lag - int(self.step_of[edge.source] >= self.step_of[edge.target])
        if back < 0 or (back and ends):
            return _Way(SEARCHED)
        return _Way(back, max(0, common - 1), lag)

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


def _outstanding(shape: _Shape, edge: Edge, way: _Way, completion: int, apart: int) -> int:
    """Return how many of the latest results of its source *edge* may wait for.

    These are complete *completion* after their issue, and issued *apart* at least.
    """
    if not completion:
        return 0
    away = way.back if way.back != SEARCHED else _executions_away(shape.graph, edge)
    known = [] if away is None else [away + 1]
    # In the last Λ there were so many.
    known += [-(-completion // apart)] if apart else []
    return min(known) if known else _runs(shape.graph, edge.source)


def _runs(graph: Idg, place: int) -> int:
    """Return how often *place*, which takes no time, is executed: all of its results may be waited for at once."""
    known = decoded_graph(graph)
    instruction = known.instructions[place]
    if (runs := number_of_runs(instruction.condition, known.loops_around[place])) > MOST:
        raise GraphError(f"{instruction.kind!r} takes no time: {runs} results at once are more than {MOST}")
    return runs


def _ticks_apart(graph: Idg, issue: Sequence[int]) -> list[int]:
    """Return for how long what each instruction issues on is taken between two of its executions, at least.

    It is by the instruction, and by those that are executed in each iteration of the innermost loop around it.
    """
    found = list(issue)
    for body in (graph.body, *(loop.body for loop in loops_in(graph.body))):
        places = [(item, graph.instructions[item]) for item in body if not isinstance(item, Loop)]
        always = Counter[str]()
        for place, instruction in places:
            always[instruction.subsystem] += issue[place] if instruction.condition is None else 0
        for place, instruction in places:
            found[place] = always[instruction.subsystem] + (0 if instruction.condition is None else issue[place])
    return found


def _executions_away(graph: Idg, edge: Edge) -> int | None:
    """Return how many executions of its source *edge* goes back; None if that is not the same in all passes."""
    if not edge.passes:
        return 0
    loops = graph.loops_around[edge.source]
    others = graph.loops_around[edge.target][: len(loops)]
    if [loop.number for loop in loops] != [loop.number for loop in others]:
        return None
    passes = zip(codes_of(edge), range(len(loops)), strict=True)
    *around, innermost = (each.lag(level) if isinstance(each, Code) else None for each, level in passes)
    return None if any(each != 0 for each in around) or innermost is None else max(0, innermost)
