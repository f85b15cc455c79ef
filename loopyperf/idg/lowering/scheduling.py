"""The order that the compiler gives instructions: loads of global memory as early as their addresses are known.

A warp issues in order, so that a load which stands behind what waits for another load waits too. Between barriers and
loops, loads are moved up past what does not decide their addresses, as long as not too many results wait to be used:
each is a register. The order does not change what is executed, and registers are estimated on the program's own
(:mod:`loopyperf.idg.metrics.registers`), so this is no pass of ``PASSES``.

nvcc moves loads of local memory up too. What else they cost when they are many is not known, and with them left where
they are, simulations are nearer to measurements (docs/compiler.md, section 11).
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Item, Loop


def with_early_loads(graph: Idg, waiting: int) -> Idg:
    """Return *graph* with loads moved up, where no more than *waiting* results of loads then wait to be used."""
    return Idg(graph.instructions, graph.edges, tuple(_items(graph, graph.body, waiting)))


def _items(graph: Idg, body: Sequence[Item], waiting: int) -> Iterator[Item]:
    block: list[int] = []
    for item in body:
        if isinstance(item, Loop) or graph.instructions[item].kind == "barrier":
            yield from _Block(graph, block, waiting).order()
            block = []
            yield replace(item, body=tuple(_items(graph, item.body, waiting))) if isinstance(item, Loop) else item
        else:
            block.append(item)
    yield from _Block(graph, block, waiting).order()


class _Block:
    """Instructions that are executed one after the other, neither a barrier nor a loop among them."""

    def __init__(self, graph: Idg, places: Sequence[int], waiting: int) -> None:
        self.graph, self.places, self.most = graph, places, waiting
        self.position = {place: position for position, place in enumerate(places)}
        self.users: dict[int, list[int]] = {place: [] for place in places}
        self.missing = dict.fromkeys(places, 0)
        for place in places:
            for source in {edge.source for edge in graph.definitions[place] if not edge.is_carried}:
                if source in self.position:
                    self.users[source].append(place)
                    self.missing[place] += 1

    def order(self) -> Iterator[int]:
        """Yield the places in their new order."""
        loads: list[int] = []
        others: list[int] = []
        unused = set[int]()
        """loads that nothing has used yet"""
        for place in self.places:
            if not self.missing[place]:
                heapq.heappush(self._heap(place, loads, others), self.position[place])
        while loads or others:
            early = loads if loads and (not others or len(unused) < self.most or loads[0] < others[0]) else others
            place = self.places[heapq.heappop(early)]
            yield place
            unused -= {edge.source for edge in self.graph.definitions[place]}
            if early is loads and self.users[place]:
                unused.add(place)
            for user in self.users[place]:
                self.missing[user] -= 1
                if not self.missing[user]:
                    heapq.heappush(self._heap(user, loads, others), self.position[user])

    def _heap(self, place: int, loads: list[int], others: list[int]) -> list[int]:
        each = self.graph.instructions[place]
        return loads if each.kind == "load" and each.subsystem == "global" else others
