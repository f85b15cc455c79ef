"""A machine graph mapped to pipelines, with latencies; programs with fewer iterations.

:class:`Timed` has the latencies of an instruction on one pipeline. An instruction that needs several pipelines becomes
several instructions in a :class:`TimedGraph`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.errors import MissingNumberError
from loopyperf.idg.graph import Idg, runs_of_all
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, expanded, on_subsystem, placed

STEADY = 64
"""fractions of a cycle to which latencies are rounded, so that the simulator finds periods"""
EXACT = 1e-6
"""tolerance, in these fractions, for floating-point rounding errors"""


@dataclass(frozen=True, slots=True)
class Shared:
    """λ on a resource that all cores share; it falls when other cores need less of it."""

    level: str
    """level of memory; empty for other resources"""
    cycles: float
    """λ if all cores have equal shares"""
    least: float
    """λ if the core has the whole resource"""


@dataclass(frozen=True, slots=True)
class Timed:
    """The latencies of an instruction on one pipeline."""

    pipeline: str
    """name of the pipeline"""
    issue: Cycles
    """λ in cycles"""
    latency: Cycles | None
    """Λ in cycles; None if unknown"""
    is_split: bool = False
    """whether each partition of the core has its own part of the pipeline, for its own warps"""
    is_issue_assumed: bool = False
    """whether λ rests on an assumed device parameter"""
    assumed_latency: float = 0.0
    """share of Λ that rests on assumed device parameters"""
    refusal: str = ""
    """error message if Λ is unknown"""
    shared: Shared | None = None
    """properties of a pipeline that all cores share; None for other pipelines"""

    @property
    def completion(self) -> Cycles:
        """Return Λ; raises :class:`MissingNumberError` if the device parameters do not include it."""
        if self.latency is None:
            raise MissingNumberError(self.refusal)
        return self.latency

    @property
    def lambdas(self) -> Lambdas:
        """Return λ and Λ; raises the errors of :attr:`completion`."""
        return Lambdas(self.issue, self.completion)

    def balanced(self, balance: float, balances: Mapping[str, float]) -> "Timed":
        """Return the latencies if the mean core has *balance* times the work of the busiest core on each shared level.

        *balances* has other values for some levels.
        """
        if self.shared is None:
            return self
        part = balances.get(self.shared.level, balance)
        return replace(self, issue=max(self.shared.cycles * part, self.shared.least))

    def times(self, share: float) -> "Timed":
        """Return the mean latencies if the instruction is executed in a *share* of the cases."""
        return replace(self, issue=self.issue * share, latency=None if self.latency is None else self.latency * share)


def steady(timed: Timed) -> Timed:
    """Return *timed* with latencies rounded to 1 / :data:`STEADY` of a cycle.

    λ is rounded up so that no pipeline is faster than specified, and bounds stay bounds.
    """
    latency = None if timed.latency is None else max(1, round(timed.latency * STEADY)) / STEADY
    return replace(timed, issue=max(1, ceil(timed.issue * STEADY - EXACT)) / STEADY, latency=latency)


@dataclass(frozen=True)
class TimedGraph:
    """The graph of a warp whose subsystems are pipelines, with latencies."""

    graph: Idg
    """instructions on one pipeline each"""
    lambdas: tuple[Lambdas, ...]
    """latencies of each instruction"""
    split: frozenset[str] = frozenset()
    """pipelines of which each partition of the core has its own part"""
    runs: tuple[float, ...] = ()
    """iterations of the loops around each instruction; empty if unknown"""

    @classmethod
    def of(
        cls, graph: Idg, timed: Sequence[Sequence[Timed]], start: Timed | None = None, runs: Sequence[float] = ()
    ) -> "TimedGraph":
        """Create it from *graph* and the latencies of each instruction on all pipelines that it needs.

        An instruction that needs several pipelines becomes several, one after the other; its successors wait for all of
        them. *start*, if given, is an instruction before all others that stands for the start of a warp.
        """
        instructions, lambdas = list[Instruction](), list[Lambdas]()
        places: list[list[int]] = []
        known = {time: time.lambdas for time in dict.fromkeys(time for times in timed for time in times)}
        for instruction, times in zip(graph.instructions, timed, strict=True):
            places.append(list(range(len(instructions), len(instructions) + len(times))))
            instructions += [on_subsystem(instruction, time.pipeline) for time in times]
            lambdas += [known[time] for time in times]
        edges = [
            edge.between(source, target)
            for edge in graph.edges
            for source in places[edge.source]
            for target in places[edge.target]
        ]
        body = expanded(graph.body, dict(enumerate(places)))
        if start is not None:
            first = len(instructions)
            instructions.append(Instruction(start.pipeline, subsystem=start.pipeline, text="start of a group"))
            lambdas.append(start.lambdas)
            edges.append(Edge(first, next(placed(body))[0], through=Dependence.CONTROL))
            body = (first, *body)
        split = frozenset(time.pipeline for times in timed for time in times if time.is_split)
        own = [number for number, times in zip(runs, timed, strict=False) for _ in times]
        own += [1.0] if own and start is not None else []
        return cls(Idg(tuple(instructions), tuple(edges), body), tuple(lambdas), split, tuple(own))

    def in_partition(self, number: int, partitions: int) -> "TimedGraph":
        """Return the graph of a warp in partition *number*, whose split pipelines are *partitions* times slower."""
        _ = self.graph.backwards  # computed once for all partitions
        instructions = [
            on_subsystem(each, f"{each.subsystem} {number}") if each.subsystem in self.split else each
            for each in self.graph.instructions
        ]
        graph = self.graph.changed(instructions)
        return replace(self, graph=graph, lambdas=self.lambdas_in_partition(partitions))

    def lambdas_in_partition(self, partitions: int) -> tuple[Lambdas, ...]:
        """Return the latencies in one of *partitions* partitions."""
        slower = {lambdas: Lambdas(lambdas.issue * partitions, lambdas.completion) for lambdas in set(self.lambdas)}
        return tuple(
            [slower[each] if instruction.subsystem in self.split else each for instruction, each in self.issued]
        )

    @property
    def issued(self) -> Iterator[tuple[Instruction, Lambdas]]:
        """Yield (instruction, latencies)."""
        yield from zip(self.graph.instructions, self.lambdas, strict=True)


# {{{ programs with fewer iterations
#
# For simulations that would take too long, and for warps with less work.


KEPT_ITERATIONS = 4
"""loops with at most this many iterations keep them; loops inside are shortened instead"""


def with_fewer_iterations(graph: Idg, share: float, fewest: int) -> Idg:
    """Return *graph* with a *share* of the iterations of its outermost loops, but at least *fewest*.

    If that exceeds the share, inner loops are shortened by the remaining factor, to at least :data:`KEPT_ITERATIONS`
    iterations; the innermost loops, which contain nearly all instructions, are shortened last. For equal ratios of
    *share* to *fewest*, the inner loops are equal, so times grow linearly with the share. The stated executions of
    instructions do not change.
    """
    return replace(graph, body=_body(graph.body, share, fewest))


def _body(body: Sequence[Item], share: float, fewest: int) -> tuple[Item, ...]:
    return tuple(_loop(item, share, fewest) if isinstance(item, Loop) else item for item in body)


def _loop(loop: Loop, share: float, fewest: int) -> Loop:
    if not isinstance(loop.trips, int) or loop.trips <= KEPT_ITERATIONS:
        return replace(loop, body=_body(loop.body, share, fewest))
    wanted = share * loop.trips
    trips = min(loop.trips, max(fewest, round(wanted)))
    within = _body(loop.body, wanted / fewest, KEPT_ITERATIONS) if wanted < fewest else loop.body
    return replace(loop, trips=trips, body=within)


@dataclass(frozen=True, slots=True)
class Light:
    """A program whose loops with unequal trip counts make one iteration each."""

    program: int
    graph: Idg
    part: float
    """executions of the instructions in these loops, relative to the original program"""


def light(graph: Idg, program: int, loops: Collection[str]) -> Light | None:
    """Return *graph* with one iteration of its outermost *loops*, as number *program*; None if it had no more."""
    short = replace(graph, body=_in_one_iteration(graph.body, loops))
    conditions = [instruction.condition for instruction in graph.instructions]
    runs = (runs_of_all(conditions, each.loops_around) for each in (graph, short))
    instructions = list(graph.instructions)
    every = left = Fraction(0)
    for place, (before, after) in enumerate(zip(*runs, strict=True)):
        if after < before:
            each = instructions[place]
            fewer = Fraction(each.executions) * after / before
            every, left = every + Fraction(each.executions), left + fewer
            instructions[place] = replace(each, executions=fewer)
    if not every:
        return None
    return Light(program, replace(short, instructions=tuple(instructions)), float(left / every))


def _in_one_iteration(body: Sequence[Item], loops: Collection[str]) -> tuple[Item, ...]:
    def shorter(item: Item) -> Item:
        if not isinstance(item, Loop):
            return item
        return replace(item, trips=1) if item.name in loops else replace(item, body=_in_one_iteration(item.body, loops))

    return tuple(map(shorter, body))


# }}}
