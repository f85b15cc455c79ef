"""Encode a scenario as the tables of numbers that a core uses: steps, instructions, edges, expressions (``core.h``).

Trip counts, conditions, and the sources of edges are expressions of loop iterations
(:mod:`loopyperf.idg.program`). Each becomes operations in the order in which a stack machine evaluates them. Nearly all
are one operation: a constant, or the iteration of a loop plus a constant.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import lcm
from typing import Any, NamedTuple, cast

import numpy as np
import pymbolic.primitives as prim
from numpy.typing import NDArray
from pymbolic.mapper import Mapper

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError
from loopyperf.idg.graph import Idg, number_of_runs
from loopyperf.idg.program import Edge, Loop, Opcode, lag, loops_in
from loopyperf.pipeline.scenario import Clock, Scenario
from loopyperf.pipeline.shape import ENTER, INSTRUCTION, REPEAT, SEARCHED, ResultLookup, Shape, shape_of
from loopyperf.pipeline.timed_graph import TimedGraph
from loopyperf.polyhedral.affine import Affine, Symbol

OUTSTANDING_AT_MOST = 1_000_000
"""outstanding results of an instruction, at most"""


def _record(*names: str, wide: Sequence[str] = ()) -> np.dtype[Any]:
    """Return the layout of a C struct with 64 bits for the *wide* numbers and 32 bits for the others."""
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
    """The programs of warps, in the layout of ``core.h``."""

    steps: Table
    around: Table
    """steps x deepest: the last step of each loop around a step; -1 for none"""
    instructions: Table
    """all instructions and a sentinel"""
    edges: Table
    passes: Table
    expressions: Table
    operations: Table
    kinds: Table
    """first steps of the programs of the warps in the first groups"""
    maps: Table
    """kinds x most subsystems: program's subsystem -> core's subsystem"""
    shifts: Table
    """index of an instruction among those of all programs, minus its index in :attr:`instructions`, for each kind;
    programs that differ only in subsystems share the latter"""
    loops: tuple["LoopOf", ...]
    """loops by number"""


class LoopOf(NamedTuple):
    """A loop of one of the programs."""

    shape: Shape
    """shape of the program"""
    loops: tuple[Loop, ...]
    """loops around it, then the loop itself"""


class CoreOptions(NamedTuple):
    """Other options of a core, as in ``core.h``."""

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
    def of(cls, scenario: Scenario, clock: Clock) -> "CoreOptions":
        """Return the options for *scenario*, with times in ticks of *clock*."""
        execution = scenario.execution
        size = execution.warps_per_group
        issues = [sum(program.runs) for program in scenario.programs]
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

    Raises :class:`GraphError` for expressions that the core cannot evaluate.
    """
    tables = _Programs(clock)
    numbers = {name: number for number, name in enumerate(scenario.subsystems)}
    kinds = list[tuple[int, list[int], int]]()
    known = list[tuple[TimedGraph, int, int]]()
    own = 0
    for program, latencies in zip(scenario.programs, scenario.latencies, strict=True):
        # Warps in other partitions execute the same program on other subsystems.
        found = next(((begin, at) for other, begin, at in known if _is_same_but_for_subsystems(program, other)), None)
        if found is None:
            at = len(tables.instructions)
            found = tables.add(program.graph, latencies), at
            known.append((program, *found))
        kinds.append((found[0], [numbers[each] for each in _own_subsystems(program.graph)], own - found[1]))
        own += len(program.graph.instructions)
    return tables.tables([kinds[program] for program in scenario.order])


def _own_subsystems(graph: Idg) -> list[str]:
    return list(dict.fromkeys(instruction.subsystem for instruction in graph.instructions))


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
    """The programs of warps, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.expressions = ExpressionTable()
        self.steps, self.around = list[Row](), list[Row]()
        self.instructions, self.edges = list[Row](), list[Row]()
        self.passes = Row()
        self.loops = list[LoopOf]()

    def add(self, graph: Idg, latencies: Sequence[Lambdas]) -> int:
        """Append the program of *graph*; return its first step."""
        begin, offset = len(self.steps), len(self.instructions)
        shape = shape_of(graph)
        trips = {loop.number: loop.trips for loop in loops_in(graph.body)}
        for kind, argument, condition, loops in shape.steps:
            around = loops[:-1] if kind == ENTER else loops
            names = tuple([loop.name for loop in around])
            self.steps.append([kind, argument, 0, self.expressions.add(condition, names), len(around), 0, 0, 0])
            self.around.append([begin + shape.ends[loop.number] for loop in around])
            if kind == INSTRUCTION:
                self.steps[-1][1] += offset
            elif kind == ENTER:
                self.steps[-1][3] = self.expressions.add(trips[loops[-1].number], names)
            elif kind == REPEAT:
                number, own = loops[-1].number, len(self.steps) - 1
                enter = begin + shape.begins[number]
                self.steps[enter][2], self.steps[own][2] = own + 1, enter + 1
                self.steps[own][5:] = shape.furthest[number], len(self.loops), int(number not in shape.differing)
                self.loops.append(LoopOf(shape, loops))
        self._add_instructions(graph, shape, begin, latencies)
        return begin

    def _add_instructions(self, graph: Idg, shape: Shape, begin: int, latencies: Sequence[Lambdas]) -> None:
        # The shape may be that of another graph, on other subsystems.
        offset = len(self.instructions)
        known = {each: (self.clock.ticks(each.issue), self.clock.ticks(each.completion)) for each in set(latencies)}
        ticks = [known[latency] for latency in latencies]
        apart = _ticks_apart(graph, [issue for issue, _ in ticks])
        subsystems = {name: number for number, name in enumerate(_own_subsystems(graph))}
        kept, searched = [0] * len(ticks), set[int]()
        for place, instruction in enumerate(graph.instructions):
            of_what = [subsystems[instruction.subsystem], place, len(ticks), int(instruction.kind == Opcode.BARRIER)]
            where = [len(graph.loops_around[place]), begin + shape.step_of[place], len(self.edges)]
            self.instructions.append([*ticks[place], *of_what, *where, 0, 0, 0])
            names = tuple([loop.name for loop in graph.loops_around[place]])
            for edge, way in shape.waited_for[place]:
                source = edge.source
                passes = len(self.passes)
                if way.back == SEARCHED:
                    self.passes += [self.expressions.add(iteration, names) for iteration in edge.iterations]
                    searched.add(source)
                self.edges.append([offset + source, self.expressions.add(edge.condition, names), *way, passes])
                kept[source] = max(kept[source], _outstanding(shape, edge, way, ticks[source][1], apart[source]))
        results = accumulate(kept, initial=0)
        for place, (number, first) in enumerate(zip(kept, results, strict=False)):
            self.instructions[offset + place][9:] = first, number, int(place in searched)

    def tables(self, kinds: Sequence[tuple[int, list[int], int]]) -> Tables:
        """Return all programs; *kinds* has (first step, subsystems, shift) for the warps of some groups."""
        end = [0] * 8 + [len(self.edges), 0, 0, 0]
        return Tables(
            _table(self.steps, STEPS),
            _ragged(self.around),
            _table([*self.instructions, end], INSTRUCTIONS),
            _table(self.edges, EDGES),
            np.array(self.passes, dtype=np.int32),
            np.array(self.expressions.begins, dtype=np.int32),
            _table(self.expressions.operations, OPERATIONS),
            np.array([begin for begin, _, _ in kinds], dtype=np.int32),
            _ragged([subsystems for _, subsystems, _ in kinds]),
            np.array([shift for _, _, shift in kinds], dtype=np.int64),
            tuple(self.loops),
        )


def _table(rows: Sequence[Sequence[int]], layout: np.dtype[Any]) -> Table:
    return np.array([tuple(row) for row in rows], dtype=layout)


def _ragged(rows: Sequence[Sequence[int]]) -> Table:
    """Return *rows* as a table as wide as the longest row, padded with -1."""
    found = np.full((len(rows), max(1, *map(len, rows))), -1, dtype=np.int32)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


def _outstanding(shape: Shape, edge: Edge, way: ResultLookup, completion: int, apart: int) -> int:
    """Return how many of the latest results of its source *edge* may wait for.

    The results are complete *completion* ticks after issue, and issued at least *apart* ticks apart.
    """
    if not completion:
        return 0
    away = way.back if way.back != SEARCHED else _executions_away(shape.graph, edge)
    known = [] if away is None else [away + 1]
    # Results issued within the last Λ.
    known += [-(-completion // apart)] if apart else []
    return min(known) if known else _runs(shape.graph, edge.source)


def _runs(graph: Idg, place: int) -> int:
    """Return the executions of *place*, which takes no time: all of its results may be outstanding at once."""
    instruction = graph.instructions[place]
    if (runs := number_of_runs(instruction.condition, graph.loops_around[place])) > OUTSTANDING_AT_MOST:
        raise GraphError(
            f"{instruction.kind!r} takes no time: {runs} results are outstanding at once, at most {OUTSTANDING_AT_MOST}"
        )
    return runs


def _ticks_apart(graph: Idg, issue: Sequence[int]) -> list[int]:
    """Return the minimum ticks between two executions of each instruction, from the use of its subsystem.

    The subsystem is occupied by the instruction itself and by those that every iteration of its innermost loop
    executes.
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
    """Return how many executions of its source *edge* goes back; None if the number varies between iterations."""
    if not edge.iterations:
        return 0
    loops = graph.loops_around[edge.source]
    others = graph.loops_around[edge.target][: len(loops)]
    if [loop.number for loop in loops] != [loop.number for loop in others]:
        return None
    *around, innermost = (lag(iteration, loop.name) for iteration, loop in zip(edge.iterations, loops, strict=True))
    return None if any(each != 0 for each in around) or innermost is None else max(0, innermost)


# {{{ expressions as operations of a stack machine


CONSTANT, PASS, ADD, MULTIPLY, FLOOR, REMAINDER, MINIMUM, MAXIMUM = range(8)
EQUAL, UNEQUAL, LESS, AT_MOST, AND, OR, NOT, CHOOSE = range(8, 16)
COMPARISONS = {"==": EQUAL, "!=": UNEQUAL, "<": LESS, "<=": AT_MOST}
SWAPPED = {">": LESS, ">=": AT_MOST}
ENCODED = 1 << 10
"""size of the cache of encoded expressions"""
Operation = tuple[int, int, int]
"""(operation, level of a loop with 0 for the outermost, constant or addend)"""


class ExpressionTable:
    """The operations of all expressions of some graphs."""

    def __init__(self) -> None:
        """Create an empty table."""
        self.begins: list[int] = [0]
        """start of each expression among the operations, and the end of the last one"""
        self.operations: list[Operation] = []
        self._numbers: dict[tuple[Operation, ...], int] = {}

    def add(self, expression: Any, names: tuple[str, ...]) -> int:
        """Return the number of *expression*, -1 if it is None; *names* are the loops around it, outermost first.

        Raises :class:`GraphError` if the core has no operation for it.
        """
        if expression is None:
            return -1
        operations = operations_of(expression, names)
        if operations not in self._numbers:
            self._numbers[operations] = len(self.begins) - 1
            self.operations += operations
            self.begins.append(len(self.operations))
        return self._numbers[operations]


@lru_cache(maxsize=ENCODED)
def operations_of(expression: Any, names: tuple[str, ...]) -> tuple[Operation, ...]:
    """Return the operations of *expression* of the iterations of the loops *names*, outermost first."""
    encoder = _Encoder(names)
    encoder(expression)
    return tuple(encoder.operations)


class _Encoder(Mapper[None, []]):
    """Appends the operations of an expression in postfix order."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.operations, self.names = list[Operation](), list(names)

    def append(self, operation: int, level: int = 0, number: int = 0) -> None:
        self.operations.append((operation, level, number))

    def __call__(self, expression: Any) -> None:
        """Append the operations of *expression*; a loop's iteration plus a constant is one operation."""
        if isinstance(expression, (bool, int)):
            return self.append(CONSTANT, 0, int(expression))
        if isinstance(expression, prim.Sum) and (known := Affine.of(expression)) is not None:
            expression = known
        if isinstance(expression, Affine):
            return self._sum(cast("Affine[Symbol]", expression))
        try:
            return super().__call__(expression)
        except (NotImplementedError, ValueError) as error:
            what = type(expression).__name__
            raise GraphError(f"the simulator cannot evaluate {expression}: unsupported operation {what}") from error

    def _sum(self, known: Affine[Symbol]) -> None:
        match known:
            case Affine(terms=()):
                self.append(CONSTANT, 0, known.constant)
            case Affine(terms=((str(name), 1),)):
                self.append(PASS, self._level(name), known.constant)
            case _:
                super().__call__(known.expression)

    def map_variable(self, expr: prim.Variable) -> None:
        self.append(PASS, self._level(expr.name))

    def map_sum(self, expr: prim.Sum) -> None:
        self._fold(ADD, expr.children)

    def map_product(self, expr: prim.Product) -> None:
        self._fold(MULTIPLY, expr.children)

    def map_min(self, expr: prim.Min) -> None:
        self._fold(MINIMUM, expr.children)

    def map_max(self, expr: prim.Max) -> None:
        self._fold(MAXIMUM, expr.children)

    def map_logical_and(self, expr: prim.LogicalAnd) -> None:
        self._fold(AND, expr.children)

    def map_logical_or(self, expr: prim.LogicalOr) -> None:
        self._fold(OR, expr.children)

    def map_logical_not(self, expr: prim.LogicalNot) -> None:
        self._fold(NOT, [expr.child])
        self.append(NOT)

    def map_floor_div(self, expr: prim.FloorDiv) -> None:
        self._divide(FLOOR, expr)

    def map_remainder(self, expr: prim.Remainder) -> None:
        self._divide(REMAINDER, expr)

    def map_comparison(self, expr: prim.Comparison) -> None:
        operator = str(expr.operator)
        if operator in SWAPPED:
            return self._fold(SWAPPED[operator], [expr.right, expr.left])
        return self._fold(COMPARISONS[operator], [expr.left, expr.right])

    def map_if(self, expr: prim.If) -> None:
        self(expr.condition)
        self(expr.then)
        self(expr.else_)
        self.append(CHOOSE)

    def _fold(self, operation: int, children: Sequence[Any]) -> None:
        for number, child in enumerate(children):
            self(child)
            if number:
                self.append(operation)

    def _divide(self, operation: int, expr: Any) -> None:
        # All parts of a condition are always evaluated, so a divisor that is not a number might be 0.
        if not isinstance(expr.denominator, int) or expr.denominator <= 0:
            raise GraphError(f"the simulator cannot evaluate {expr}: the divisor must be a positive integer")
        self._fold(operation, [expr.numerator, expr.denominator])

    def _level(self, name: str) -> int:
        if name not in self.names:
            raise GraphError(f"no enclosing loop is named {name!r}; enclosing loops are {self.names}")
        return self.names.index(name)


# }}}
