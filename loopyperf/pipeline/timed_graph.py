"""A machine graph as pipelines execute it: each instruction on one of them, with latencies; shortened programs.

:class:`Timed` is what an instruction takes of one pipeline. One that needs several becomes as many in a
:class:`TimedGraph`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.errors import MissingNumberError
from loopyperf.idg.graph import Idg, runs_of_all
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop

STEADY = 64
"""parts of a cycle that latencies are rounded to, so that the simulator finds periods"""
EXACT = 1e-6
"""of such a part: the rounding error of floating-point numbers is less"""


@dataclass(frozen=True, slots=True)
class Shared:
    """λ on what all cores share, which falls where others ask for less of it."""

    level: str
    """of memory; empty for what is none"""
    cycles: float
    """λ with equal parts of it for all cores"""
    least: float
    """λ with all of it"""


@dataclass(frozen=True, slots=True)
class Timed:
    """How long an instruction takes on one pipeline."""

    pipeline: str
    """that it takes"""
    issue: Cycles
    """λ"""
    latency: Cycles | None
    """Λ; None where it is not known"""
    is_split: bool = False
    """each partition of the core has a part of the pipeline, for its own warps"""
    is_issue_assumed: bool = False
    """whether λ rests on a number that the description lacks"""
    assumed_latency: float = 0.0
    """share of Λ that rests on numbers that the description lacks"""
    refusal: str = ""
    """why Λ is not known"""
    shared: Shared | None = None
    """where all cores share the pipeline"""

    @property
    def completion(self) -> Cycles:
        """Return Λ; raises :class:`MissingNumberError` where the device's description does not state it."""
        if self.latency is None:
            raise MissingNumberError(self.refusal)
        return self.latency

    @property
    def lambdas(self) -> Lambdas:
        """Return both; raises what :attr:`completion` raises."""
        return Lambdas(self.issue, self.completion)

    def balanced(self, balance: float, balances: Mapping[str, float]) -> "Timed":
        """Return it as if the mean core had *balance* of what the core with most work has of each shared level.

        Of the levels in *balances* it has that much.
        """
        if self.shared is None:
            return self
        part = balances.get(self.shared.level, balance)
        return replace(self, issue=max(self.shared.cycles * part, self.shared.least))

    def times(self, share: float) -> "Timed":
        """Return a *share* of it: what it takes on average, if it is executed so often."""
        return replace(self, issue=self.issue * share, latency=None if self.latency is None else self.latency * share)


def steady(timed: Timed) -> Timed:
    """Return *timed* with its latencies rounded to :data:`STEADY` parts of a cycle.

    λ is rounded up, so that no pipeline is faster than it is described: bounds stay bounds.
    """
    latency = None if timed.latency is None else max(1, round(timed.latency * STEADY)) / STEADY
    return replace(timed, issue=max(1, ceil(timed.issue * STEADY - EXACT)) / STEADY, latency=latency)


@dataclass(frozen=True)
class TimedGraph:
    """The graph of a warp whose subsystems are pipelines, with the latencies of its instructions."""

    graph: Idg
    """of instructions on one pipeline each"""
    lambdas: tuple[Lambdas, ...]
    """of each instruction"""
    split: frozenset[str] = frozenset()
    """pipelines of which each partition of the core has its own"""
    runs: tuple[float, ...] = ()
    """of each instruction: how many passes the loops around it make; empty where that is not known"""

    @classmethod
    def of(
        cls,
        graph: Idg,
        timed: Sequence[Sequence[Timed]],
        start: Timed | None = None,
        runs: Sequence[float] = (),
    ) -> "TimedGraph":
        """Take *graph* with what each instruction takes on every pipeline that it needs.

        One that needs several becomes as many, one after the other, and what waits for it waits for all of them. Before
        them a warp takes *start* to begin, if that is known.
        """
        instructions, lambdas = list[Instruction](), list[Lambdas]()
        places: list[list[int]] = []
        known = {time: time.lambdas for time in dict.fromkeys(time for times in timed for time in times)}
        for each, times in zip(graph.instructions, timed, strict=True):
            places.append(list(range(len(instructions), len(instructions) + len(times))))
            instructions += [replace(each, subsystem=time.pipeline) for time in times]
            lambdas += [known[time] for time in times]
        edges = [
            edge.between(source, target)
            for edge in graph.edges
            for source in places[edge.source]
            for target in places[edge.target]
        ]
        body = _in_parts(graph.body, places)
        if start is not None:
            first = len(instructions)
            instructions.append(Instruction(start.pipeline, subsystem=start.pipeline, text="the begin of a group"))
            lambdas.append(start.lambdas)
            edges.append(Edge(first, _first(body), through=Dependence.CONTROL))
            body = (first, *body)
        split = frozenset(time.pipeline for times in timed for time in times if time.is_split)
        own = [number for number, times in zip(runs, timed, strict=False) for _ in times]
        own += [1.0] if own and start is not None else []
        return cls(Idg(tuple(instructions), tuple(edges), body), tuple(lambdas), split, tuple(own))

    def in_partition(self, number: int, partitions: int) -> "TimedGraph":
        """Return the graph of a warp in partition *number*, whose part of split pipelines is so many times slower."""
        instructions = tuple(
            replace(each, subsystem=f"{each.subsystem} {number}") if each.subsystem in self.split else each
            for each in self.graph.instructions
        )
        graph = Idg(instructions, self.graph.edges, self.graph.body)
        return replace(self, graph=graph, lambdas=self.lambdas_in_partition(partitions))

    def lambdas_in_partition(self, partitions: int) -> tuple[Lambdas, ...]:
        """Return the latencies in one of so many *partitions*."""
        slower = {each: Lambdas(each.issue * partitions, each.completion) for each in set(self.lambdas)}
        return tuple(
            [slower[each] if instruction.subsystem in self.split else each for instruction, each in self.issued]
        )

    @property
    def issued(self) -> Iterator[tuple[Instruction, Lambdas]]:
        """Yield each instruction with its latencies."""
        yield from zip(self.graph.instructions, self.lambdas, strict=True)


def _in_parts(body: Sequence[Item], places: Sequence[Sequence[int]]) -> tuple[Item, ...]:
    """Return *body* with the new *places* of each instruction."""
    found: list[Item] = []
    for item in body:
        if isinstance(item, Loop):
            found.append(replace(item, body=_in_parts(item.body, places)))
        else:
            found += places[item]
    return tuple(found)


def _first(body: Sequence[Item]) -> int:
    """Return the first instruction of *body*."""
    item = body[0]
    return item if isinstance(item, int) else _first(item.body)


# {{{ programs with fewer passes of their loops
#
# For simulations of what would take too long, and for lighter warps.


FEW = 4
"""passes: a loop that has no more keeps them, and those in it lose some"""


def with_fewer_iterations(graph: Idg, share: float, fewest: int) -> Idg:
    """Return *graph* with a *share* of the passes of its outermost loops, but not less than the *fewest*.

    Where that is more than the share, loops within keep so much less, but :data:`FEW` passes: those that are innermost,
    in which nearly all instructions are, keep theirs longest. Of two shares with as many times the fewest passes, these
    loops have the same, so that times grow linearly with the share. How often instructions say that they are executed
    stays what it was.
    """
    return replace(graph, body=_body(graph.body, share, fewest))


def _body(body: Sequence[Item], share: float, fewest: int) -> tuple[Item, ...]:
    return tuple(_loop(item, share, fewest) if isinstance(item, Loop) else item for item in body)


def _loop(loop: Loop, share: float, fewest: int) -> Loop:
    if not isinstance(loop.trips, int) or loop.trips <= FEW:
        return replace(loop, body=_body(loop.body, share, fewest))
    wanted = share * loop.trips
    trips = min(loop.trips, max(fewest, round(wanted)))
    within = _body(loop.body, wanted / fewest, FEW) if wanted < fewest else loop.body
    return replace(loop, trips=trips, body=within)


@dataclass(frozen=True, slots=True)
class Light:
    """A program whose loops of unequal passes make one pass each."""

    program: int
    graph: Idg
    part: float
    """executions of what is in these loops, relative to those of the original program"""


def light(graph: Idg, program: int, loops: Collection[str]) -> Light | None:
    """Return *graph* with one pass of its outermost *loops*, as a *program* of that number; None if it has no more."""
    short = replace(graph, body=_in_one_iteration(graph.body, loops))
    conditions = [each.condition for each in graph.instructions]
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
