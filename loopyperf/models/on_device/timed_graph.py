"""A machine graph as a device's pipelines execute it: each instruction on one of them, with its latencies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop
from loopyperf.models.on_device.timing import Timed
from loopyperf.models.pipeline_names import START


@dataclass(frozen=True, eq=False)
class TimedGraph:
    """A machine graph whose subsystems are the pipelines of a device, with the latencies of its instructions."""

    graph: Idg
    lambdas: Mapping[int, Lambdas]
    """by the identities of the instructions"""
    split: frozenset[str]
    """pipelines of which each partition of the core has its own"""

    @classmethod
    def of(cls, graph: Idg, timed: Sequence[Sequence[Timed]], start: Lambdas | None = None) -> "TimedGraph":
        """Take *graph* with what each instruction takes on every pipeline that it needs.

        One that needs several becomes as many, one after the other, and what waits for it waits for all of them. Before
        them a warp takes *start* to begin, if that is known.
        """
        instructions, lambdas = list[Instruction](), list[Lambdas]()
        places: list[list[int]] = []
        for each, times in zip(graph.instructions, timed, strict=True):
            places.append(list(range(len(instructions), len(instructions) + len(times))))
            instructions += [replace(each, subsystem=time.pipeline) for time in times]
            lambdas += [time.lambdas for time in times]
        edges = [
            edge.between(source, target)
            for edge in graph.edges
            for source in places[edge.source]
            for target in places[edge.target]
        ]
        body = _in_parts(graph.body, places)
        if start is not None:
            first = len(instructions)
            instructions.append(Instruction(START, subsystem=START, text="the begin of a group"))
            lambdas.append(start)
            edges.append(Edge(first, _first(body), through=Dependence.CONTROL))
            body = (first, *body)
        by_identity = {id(each): found for each, found in zip(instructions, lambdas, strict=True)}
        split = frozenset(time.pipeline for times in timed for time in times if time.is_split)
        return cls(Idg(tuple(instructions), tuple(edges), body), by_identity, split)

    def in_partition(self, number: int, partitions: int) -> "TimedGraph":
        """Return the graph of a warp in partition *number*, whose part of split pipelines is so many times slower."""
        changed: list[tuple[Instruction, Lambdas]] = []
        for each, lambdas in self.issued:
            if each.subsystem in self.split:
                lambdas = Lambdas(lambdas.issue * partitions, lambdas.completion)
                each = replace(each, subsystem=f"{each.subsystem} {number}")
            else:
                each = replace(each)
            changed.append((each, lambdas))
        graph = Idg(tuple(each for each, _ in changed), self.graph.edges, self.graph.body)
        return TimedGraph(graph, {id(each): lambdas for each, lambdas in changed}, self.split)

    @property
    def issued(self) -> Iterator[tuple[Instruction, Lambdas]]:
        """Yield each instruction with its latencies."""
        yield from ((each, self.lambdas[id(each)]) for each in self.graph.instructions)


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
