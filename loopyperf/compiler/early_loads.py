"""The order that the compiler gives instructions: loads as early as their addresses are known.

A warp issues in order, so that a load which stands behind what waits for another load waits too. Between barriers and
loops, loads are moved up past what does not decide their addresses, as long as not too many of their results wait to be
used: each is a register. Volatile accesses keep their order. The order changes nothing that is executed, and registers
are estimated on the program's own (:mod:`loopyperf.compiler.registers`), so this is no pass of ``PASSES``.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Item, Loop, Opcode

WAITING = 8
"""results of loads that wait to be used, at most: about as in nvcc's machine code (docs/compiler.md, section 11)"""


def with_early_loads(graph: Idg, waiting: int = WAITING, registers: int | None = None) -> Idg:
    """Return the machine *graph* with loads moved up, where no more than *waiting* of their results wait to be used.

    With *registers*, no more than there is room for in so many, of 64 bits each.
    """
    if registers is not None:
        waiting = min(waiting, max(registers, 0) // 2)
    return Idg(graph.instructions, graph.edges, tuple(_items(graph, graph.body, waiting)))


def _items(graph: Idg, body: Sequence[Item], waiting: int) -> Iterator[Item]:
    block: list[int] = []
    for item in body:
        if isinstance(item, Loop) or graph.instructions[item].kind == Opcode.BARRIER:
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
        volatile = [place for place in places if graph.instructions[place].is_volatile]
        before = dict(zip(volatile[1:], volatile[:-1], strict=True))
        for place in places:
            sources = {edge.source for edge in graph.definitions[place] if not any(edge.distance)}
            for source in sources.union([before[place]] if place in before else ()):
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
                heapq.heappush(self._ready(place, loads, others), self.position[place])
        while loads or others:
            is_early = bool(loads) and (not others or len(unused) < self.most or loads[0] < others[0])
            place = self.places[heapq.heappop(loads if is_early else others)]
            yield place
            unused -= {edge.source for edge in self.graph.definitions[place]}
            if is_early and self.users[place]:
                unused.add(place)
            for user in self.users[place]:
                self.missing[user] -= 1
                if not self.missing[user]:
                    heapq.heappush(self._ready(user, loads, others), self.position[user])

    def _ready(self, place: int, loads: list[int], others: list[int]) -> list[int]:
        return loads if self.graph.instructions[place].kind == Opcode.LOAD else others
