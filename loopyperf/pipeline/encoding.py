"""Rolled graphs as a program of flat lists: steps through loops, instructions with their latencies in ticks, edges."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from loopyperf.errors import GraphError
from loopyperf.idg.graph import Idg, number_of_runs
from loopyperf.idg.program import Edge, Item, Loop, Opcode, loops_in
from loopyperf.pipeline import memory as at
from loopyperf.pipeline.expressions import Code, ExpressionCode, codes_of, decoded_graph
from loopyperf.pipeline.memory import END, ENTER, INSTRUCTION, REPEAT, Clock, Memory, laid_out
from loopyperf.pipeline.scenario import Scenario

MOST = 1_000_000
"""results of an instruction that are kept"""

Numbers = dict[int, int]
Tables = dict[int, list[int]]


def encoded(scenario: Scenario, clock: Clock) -> Memory:
    """Return the memory of a core that is about to begin with *scenario*, with times in ticks of *clock*.

    A trace would come after it.
    """
    numbers, tables = _program(scenario, clock)
    return laid_out(numbers | {at.CURRENT: -1}, tables | _state(numbers, tables))


def _program(scenario: Scenario, clock: Clock) -> tuple[Numbers, Tables]:
    """Return what does not change: the configuration, and the programs of warps."""
    code, steps = ExpressionCode(), _Steps()
    graphs = scenario.graphs
    offsets = list(accumulate((len(graph.instructions) for graph in graphs[:-1]), initial=0))
    begins = [steps.add(graph, offset, code) for graph, offset in zip(graphs, offsets, strict=True)]
    instructions = _instructions(scenario, clock)
    edges = _Edges(instructions[at.ISSUE], instructions[at.COMPLETION])
    for graph, offset in zip(graphs, offsets, strict=True):
        edges.add(graph, offset, code)
    rings = list(accumulate(edges.kept, initial=0))
    numbers: Numbers = {
        at.WARPS_PER_GROUP: scenario.execution.warps_per_group,
        at.TOTAL_GROUPS: scenario.execution.total_groups,
        at.WARPS: (warps := scenario.execution.concurrent_warps),
        at.QUEUES: warps + warps // scenario.execution.warps_per_group,
        at.SUBSYSTEMS: len(scenario.subsystems),
        at.DEEPEST: steps.deepest,
        at.RESULTS: rings[-1],
        at.PLACES: len(instructions[at.ISSUE]),
        at.NUMBER_OF_KINDS: len(scenario.order),
        at.GAP: clock.ticks(scenario.gap) if scenario.gap else 0,
        at.GOES_ON: scenario.goes_on(clock),
        at.BY_AGE: scenario.scheduler.by_age,
    }
    kinds = [begins[program] for program in scenario.order]
    tables = {
        at.STEPS: steps.kinds,
        at.ARGUMENTS: steps.arguments,
        at.JUMPS: steps.jumps,
        at.WORTH: [2] * len(steps.kinds),
    }
    tables |= {at.EXPRESSIONS: steps.expressions, at.KINDS: kinds}
    tables |= {at.CODE_BEGINS: code.begins, at.OPERATIONS: code.operations}
    tables |= {at.FIRST: code.first, at.SECOND: code.second}
    tables |= instructions | {at.EDGE_BEGINS: edges.begins, at.RING_BEGINS: rings}
    tables |= {at.SOURCES: edges.sources, at.CONDITIONS: edges.conditions}
    tables |= {at.LEVELS: edges.levels, at.SOURCE_PASSES: edges.passes}
    return numbers, tables


def _instructions(scenario: Scenario, clock: Clock) -> Tables:
    instructions = [each for graph in scenario.graphs for each in graph.instructions]
    latencies = [each for found in scenario.latencies for each in found]
    ticks = {each: (clock.ticks(each.issue), clock.ticks(each.completion)) for each in set(latencies)}
    numbers = {name: number for number, name in enumerate(scenario.subsystems)}
    return {
        at.SUBSYSTEM: [numbers[each.subsystem] for each in instructions],
        at.ISSUE: [ticks[each][0] for each in latencies],
        at.COMPLETION: [ticks[each][1] for each in latencies],
        at.IS_BARRIER: [int(each.kind == Opcode.BARRIER) for each in instructions],
        at.DEPTH: [len(loops) for graph in scenario.graphs for loops in graph.loops_around],
    }


def _state(numbers: Numbers, tables: Tables) -> Tables:
    """Return what changes, as it is at time 0, when all slots are vacant."""
    warps, subsystems, deepest = numbers[at.WARPS], numbers[at.SUBSYSTEMS], numbers[at.DEEPEST]
    slots = warps // numbers[at.WARPS_PER_GROUP]
    kept = warps * numbers[at.RESULTS]
    lengths = {at.FREE: subsystems, at.BUSY: subsystems}
    lengths |= dict.fromkeys((at.NUMBER, at.STEP, at.STAMP, at.RANK, at.READY, at.SINCE, at.WHY, at.CULPRIT), warps)
    lengths |= {at.QUEUE: warps, at.IS_HELD: warps, at.PASSES: warps * deepest, at.TRIPS: warps * deepest}
    lengths |= {at.RESULT_TIME: kept, at.RESULT_PASSES: kept * deepest, at.NEWEST: warps * numbers[at.PLACES]}
    lengths |= dict.fromkeys((at.UNFINISHED, at.HELD, at.RELEASE, at.ENDS, at.VACANT), slots)
    lengths |= {at.STACK: len(tables[at.OPERATIONS]), at.WANTED: deepest}
    state = {name: [0] * length for name, length in lengths.items()}
    state[at.QUEUE] = [-1] * warps
    state[at.SLOT] = [x // numbers[at.WARPS_PER_GROUP] for x in range(warps)]
    waiting = range(warps, numbers[at.QUEUES])
    state[at.NEXT], state[at.PREVIOUS] = _links(waiting, numbers[at.QUEUES] + 2 * subsystems)
    state[at.TRACE] = []
    return state


def _links(waiting: range, last: int) -> tuple[Memory, Memory]:
    """Return what comes after and before each item: all queues are empty but for the last, which closes in *last*."""
    after, before = list(range(last + 1)), list(range(last + 1))
    for one, other in pairwise([last, *waiting, last]):
        after[one], before[other] = other, one
    return after, before


@dataclass
class _Steps:
    """The steps of programs one after the other."""

    kinds: Memory = field(default_factory=list[int])
    arguments: Memory = field(default_factory=list[int])
    jumps: Memory = field(default_factory=list[int])
    expressions: Memory = field(default_factory=list[int])
    deepest: int = 1
    """loops around an instruction, at most"""

    def add(self, graph: Idg, offset: int, code: ExpressionCode) -> int:
        """Append the program of *graph*, whose instructions are counted from *offset*; return where it begins."""
        begin = len(self.kinds)
        self._body(graph, graph.body, 0, offset, code)
        self._step(END, 0, -1)
        return begin

    def _body(self, graph: Idg, body: Sequence[Item], depth: int, offset: int, code: ExpressionCode) -> None:
        for item in body:
            if isinstance(item, Loop):
                self.deepest = max(self.deepest, depth + 1)
                enter = self._step(ENTER, depth, code.add(item.trips))
                self._body(graph, item.body, depth + 1, offset, code)
                repeat = self._step(REPEAT, depth, -1)
                self.jumps[enter], self.jumps[repeat] = repeat + 1, enter + 1
            else:
                condition = graph.instructions[item].condition
                self._step(INSTRUCTION, offset + item, -1 if condition is None else code.add(condition))

    def _step(self, kind: int, argument: int, expression: int) -> int:
        self.kinds.append(kind)
        self.arguments.append(argument)
        self.expressions.append(expression)
        self.jumps.append(0)
        return len(self.kinds) - 1


class _Edges:
    """The edges to each instruction, and how many results of each are kept."""

    def __init__(self, issue: Memory, completion: Memory) -> None:
        self.issue, self.completion = issue, completion
        self.apart: Memory = []
        """ticks from one execution of each instruction to its next one, at least"""
        self.begins: Memory = [0]
        self.sources: Memory = []
        self.conditions: Memory = []
        self.levels: Memory = []
        self.passes: Memory = []
        self.kept = [0] * len(issue)

    def add(self, graph: Idg, offset: int, code: ExpressionCode) -> None:
        """Append the edges of *graph*, whose instructions are counted from *offset*."""
        self.apart += _ticks_apart(graph, self.issue[offset:])
        for edges in graph.definitions:
            # A warp that a barrier holds issues nothing, so nothing ever waits for the barrier by an edge.
            for edge in (each for each in edges if graph.instructions[each.source].kind != Opcode.BARRIER):
                source = offset + edge.source
                self.sources.append(source)
                self.conditions.append(-1 if edge.condition is None else code.add(edge.condition))
                self.levels.append(len(self.passes))
                self.passes += map(code.add, codes_of(edge))
                self.kept[source] = max(self.kept[source], self._outstanding(graph, edge, source))
            self.begins.append(len(self.sources))

    def _outstanding(self, graph: Idg, edge: Edge, source: int) -> int:
        """Return how many of the latest results of *source* *edge* may ask for."""
        completion, apart = self.completion[source], self.apart[source]
        if not completion:
            return 0
        away = _executions_away(graph, edge)
        known = [] if away is None else [away + 1]
        # In the last Λ there were so many.
        known += [-(-completion // apart)] if apart else []
        return min(known) if known else _runs(graph, edge.source)


def _runs(graph: Idg, place: int) -> int:
    """Return how often *place*, which takes no time, is executed: all of its results may be waited for at once."""
    known = decoded_graph(graph)
    instruction = known.instructions[place]
    if (runs := number_of_runs(instruction.condition, known.loops_around[place])) > MOST:
        raise GraphError(f"{instruction.kind!r} takes no time: {runs} results at once are more than {MOST}")
    return runs


def _ticks_apart(graph: Idg, issue: Memory) -> Memory:
    """Return for how long what each instruction issues on is taken between two of its executions, at least.

    It is by the instruction, and by those that are executed in each iteration of the innermost loop around it.
    """
    found = issue[: len(graph.instructions)]
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
