"""Rolled graphs as a program of flat lists: steps through loops, instructions with their latencies in ticks, edges."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pymbolic.primitives as prim

from loopyperf.idg.graph import Idg
from loopyperf.idg.pass_ranges import coefficients
from loopyperf.idg.program import Edge, Item, Loop
from loopyperf.pipeline.clock import Clock
from loopyperf.pipeline.expressions import ExpressionCode
from loopyperf.pipeline.flat import END, ENTER, INSTRUCTION, REPEAT, Cells, Program
from loopyperf.pipeline.scenario import Scenario


def encoded(scenario: Scenario, clock: Clock, is_traced: bool) -> Program:
    """Return the program of the warps of *scenario*, with times in ticks of *clock*."""
    code, steps = ExpressionCode(), _Steps()
    graphs = {id(graph): graph for graph in scenario.graphs}
    offsets = dict(zip(graphs, accumulate((len(g.instructions) for g in graphs.values()), initial=0), strict=False))
    begins = {key: steps.add(graph, offsets[key], code) for key, graph in graphs.items()}
    latencies = [scenario.latencies[key] for key in graphs]
    issue = [clock.ticks(each.issue) for found in latencies for each in found]
    completion = [clock.ticks(each.completion) for found in latencies for each in found]
    instructions = [each for graph in graphs.values() for each in graph.instructions]
    numbers = {name: number for number, name in enumerate(scenario.subsystems)}
    edges = _Edges(issue, completion)
    for key, graph in graphs.items():
        edges.add(graph, offsets[key], code)
    rings = list(accumulate(edges.kept, initial=0))
    depth = [len(loops) for graph in graphs.values() for loops in graph.loops_around]
    return Program(
        steps=steps.kinds,
        arguments=steps.arguments,
        jumps=steps.jumps,
        expressions=steps.expressions,
        kinds=[begins[id(graph)] for graph in scenario.graphs],
        code_begins=code.begins,
        operations=code.operations,
        first=code.first,
        second=code.second,
        subsystem=[numbers[each.subsystem] for each in instructions],
        issue=issue,
        completion=completion,
        is_barrier=[int(each.kind == "barrier") for each in instructions],
        depth=depth,
        edge_begins=edges.begins,
        ring_begins=rings,
        sources=edges.sources,
        conditions=edges.conditions,
        levels=edges.levels,
        source_passes=edges.passes,
        warps_per_group=scenario.execution.warps_per_group,
        total_groups=scenario.execution.total_groups,
        warps=scenario.execution.concurrent_warps,
        subsystems=len(numbers),
        deepest=1 + max(steps.arguments[at] for at, kind in enumerate(steps.kinds) if kind != INSTRUCTION),
        results=rings[-1],
        places=len(instructions),
        gap=clock.ticks(scenario.gap) if scenario.gap else 0,
        goes_on=scenario.goes_on(clock),
        is_oldest_first=int(scenario.scheduler.order == "oldest"),
        is_traced=int(is_traced),
    )


@dataclass
class _Steps:
    """The steps of programs one after the other."""

    kinds: Cells = field(default_factory=list[int])
    arguments: Cells = field(default_factory=list[int])
    jumps: Cells = field(default_factory=list[int])
    expressions: Cells = field(default_factory=list[int])

    def add(self, graph: Idg, offset: int, code: ExpressionCode) -> int:
        """Append the program of *graph*, whose instructions are counted from *offset*; return where it begins."""
        begin = len(self.kinds)
        self._body(graph, graph.body, (), offset, code)
        self._step(END, 0, -1)
        return begin

    def _body(
        self, graph: Idg, body: Sequence[Item], names: tuple[str, ...], offset: int, code: ExpressionCode
    ) -> None:
        for item in body:
            if isinstance(item, Loop):
                enter = self._step(ENTER, len(names), code.add(item.trips, names))
                self._body(graph, item.body, (*names, item.name), offset, code)
                repeat = self._step(REPEAT, len(names), -1)
                self.jumps[enter], self.jumps[repeat] = repeat + 1, enter + 1
            else:
                condition = graph.instructions[item].condition
                self._step(INSTRUCTION, offset + item, -1 if condition is None else code.add(condition, names))

    def _step(self, kind: int, argument: int, expression: int) -> int:
        self.kinds.append(kind)
        self.arguments.append(argument)
        self.expressions.append(expression)
        self.jumps.append(0)
        return len(self.kinds) - 1


class _Edges:
    """The edges to each instruction, and how many results of each are kept."""

    def __init__(self, issue: Cells, completion: Cells) -> None:
        self.issue, self.completion = issue, completion
        self.begins: Cells = [0]
        self.sources: Cells = []
        self.conditions: Cells = []
        self.levels: Cells = []
        self.passes: Cells = []
        self.kept = [0] * len(issue)

    def add(self, graph: Idg, offset: int, code: ExpressionCode) -> None:
        """Append the edges of *graph*, whose instructions are counted from *offset*."""
        for target, edges in enumerate(graph.definitions):
            names = [loop.name for loop in graph.loops_around[target]]
            # A warp that a barrier holds issues nothing, so nothing ever waits for the barrier by an edge.
            for edge in (each for each in edges if graph.instructions[each.source].kind != "barrier"):
                source = offset + edge.source
                self.sources.append(source)
                self.conditions.append(-1 if edge.condition is None else code.add(edge.condition, names))
                self.levels.append(len(self.passes))
                self.passes += [code.add(each, names) for each in edge.passes]
                self.kept[source] = max(self.kept[source], self._outstanding(graph, edge, source))
            self.begins.append(len(self.sources))

    def _outstanding(self, graph: Idg, edge: Edge, source: int) -> int:
        """Return how many of the latest results of *source* *edge* may ask for."""
        # The instruction issues at most every λ, so that in the last Λ there were so many.
        outstanding = -(-self.completion[source] // self.issue[source])
        away = _executions_away(graph, edge)
        return outstanding if away is None else min(outstanding, away + 1)


def _executions_away(graph: Idg, edge: Edge) -> int | None:
    """Return how many executions of its source *edge* goes back; None if that is not the same in all passes."""
    if not edge.passes:
        return 0
    loops = graph.loops_around[edge.source]
    if graph.loops_around[edge.target][: len(loops)] != loops:
        return None
    away = [_passes_away(each, loop.name) for each, loop in zip(edge.passes, loops, strict=True)]
    return None if any(away[:-1]) or away[-1] is None else max(0, away[-1])


def _passes_away(expression: prim.ExpressionNode | int, name: str) -> int | None:
    factors = coefficients(expression)
    if factors is None or {key: factor for key, factor in factors.items() if key and factor} != {name: 1}:
        return None
    return -factors.get(None, 0)
