"""A machine graph as a device's pipelines execute it: each instruction on one of them, with its latencies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopyperf.device.description import Device
from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Item
from loopyperf.models.timing import STEADY, Timed

START = "start"
"""the pipeline of the instruction that stands for the begin of a group"""


@dataclass(frozen=True, eq=False)
class TimedGraph:
    """A machine graph whose subsystems are the pipelines of a device, with the latencies of its instructions."""

    graph: Idg
    lambdas: Mapping[int, Lambdas]
    """by the identities of the instructions"""
    split: frozenset[str]
    """pipelines of which each partition of the core has its own"""

    @classmethod
    def of(cls, graph: Idg, timed: Sequence[Timed], device: Device) -> "TimedGraph":
        """Take *graph* with what its instructions take, after the begin of its group where the device tells of it."""
        instructions = [
            replace(each, subsystem=time.pipeline) for each, time in zip(graph.instructions, timed, strict=True)
        ]
        lambdas = [each.lambdas for each in timed]
        split = frozenset(time.pipeline for time in timed if time.is_split)
        edges, body = graph.edges, graph.body
        if device.stated("group_start"):
            start, first = len(instructions), _first(body)
            instructions.append(Instruction(START, subsystem=START, text="the begin of a group"))
            lambdas.append(Lambdas(1 / STEADY, device.group_start))
            edges, body = (*edges, Edge(start, first, through="control")), (start, *body)
        by_identity = {id(each): found for each, found in zip(instructions, lambdas, strict=True)}
        return cls(Idg(tuple(instructions), edges, body), by_identity, split)

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


def _first(body: Sequence[Item]) -> int:
    """Return the first instruction of *body*."""
    item = body[0]
    return item if isinstance(item, int) else _first(item.body)
