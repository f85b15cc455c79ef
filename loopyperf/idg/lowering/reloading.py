"""Loads once more of what there are no registers to keep: ptxas loads read-only data again rather than spill them.

Common subexpressions make one load of all that read the same element, however far apart. Where more values are alive
than there are registers, the one that is used last is given up (Belady, A study of replacement algorithms for a
virtual-storage computer, 1966), if it can be loaded again: from global memory, of an array that is not stored to.
Loops are not looked into.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopyperf.idg.graph import Idg
from loopyperf.idg.lowering.rewriting import rewritten
from loopyperf.idg.metrics.live_values import widths
from loopyperf.idg.program import Edge, Item, Loop


def with_reloads(graph: Idg, registers: int) -> Idg:
    """Return *graph* with loads repeated so that values take no more than so many *registers* at once, if that can be.

    Registers are of 32 bits, those that values take in one work-item.
    """
    return _Reloading(graph, registers).reloaded()


@dataclass
class _Value:
    """The result of an instruction, as far as a straight piece of code has come."""

    home: int
    """the instruction that loaded it last"""
    uses: list[int]
    """the positions at which it is still to be used, the latest first"""
    width: int
    is_lasting: bool
    """it is used in a loop, or behind one"""
    is_kept: bool = True
    is_used: bool = False


class _Reloading:
    def __init__(self, graph: Idg, registers: int) -> None:
        self.graph, self.widths = graph, widths(graph)
        # A load needs its registers before what uses it frees others.
        self.registers = registers - max(self.widths, default=0)
        self.stored = {each.reference.array for each in graph.instructions if each.kind == "store" and each.reference}
        self.users: list[list[int]] = [[] for _ in graph.instructions]
        for edge in graph.edges:
            if edge.through == "data":
                self.users[edge.source].append(edge.target)
        self.instructions, self.edges = list(graph.instructions), list[Edge]()
        self.removed = set[int]()

    def reloaded(self) -> Idg:
        """Return the graph with loads made again."""
        body: list[Item] = []
        block: list[int] = []
        for item in self.graph.body:
            if isinstance(item, Loop):
                body += self._block(block)
                body.append(item)
                block = []
            else:
                block.append(item)
        body += self._block(block)
        moved = {edge.target for edge in self.edges}
        edges = [edge for edge in self.graph.edges if edge.target not in moved] + self.edges
        whole = Idg(tuple(self.instructions), tuple(edges), tuple(body))
        kept = [place for place in range(len(self.instructions)) if place not in self.removed]
        return rewritten(whole, kept, whole.edges)

    def _block(self, places: Sequence[int]) -> Iterator[int]:
        """Yield the *places* of a straight piece of code, and those of loads that are made once more between them."""
        position = {place: number for number, place in enumerate(places)}
        values: dict[int, _Value] = {}
        for number, place in enumerate(places):
            needed = list(dict.fromkeys(e.source for e in self.graph.definitions[place] if e.source in values))
            for source in needed:
                value = values[source]
                if not value.is_kept:
                    value.home = self._again(value, source)
                    yield value.home
                value.is_kept = value.is_used = True
                while value.uses and value.uses[-1] <= number:
                    value.uses.pop()
            self.edges += [
                edge.between(values[edge.source].home, place) if edge.source in values else edge
                for edge in self.graph.definitions[place]
            ]
            users = self.users[place]
            uses = sorted((position[user] for user in users if user in position), reverse=True)
            if users:
                values[place] = _Value(place, uses, self.widths[place], len(uses) < len(users))
            yield place
            for source in needed:
                if not values[source].uses and not values[source].is_lasting:
                    del values[source]
            self._give_up(values)

    def _again(self, value: _Value, source: int) -> int:
        """Return the place of another load of *value*."""
        if not value.is_used:
            self.removed.add(value.home)
        place = len(self.instructions)
        self.instructions.append(self.graph.instructions[source])
        self.edges += [edge.between(edge.source, place) for edge in self.graph.definitions[source]]
        return place

    def _give_up(self, values: Mapping[int, _Value]) -> None:
        """Give values up until those that are alive have room, the ones that are used latest first."""
        alive = {place: each for place, each in values.items() if each.is_kept}
        taken = sum(each.width for each in alive.values())
        if taken <= self.registers:
            return
        loads = [place for place, each in alive.items() if not each.is_lasting and self._can_be_loaded_again(place)]
        for place in sorted(loads, key=lambda place: alive[place].uses[-1], reverse=True):
            if taken <= self.registers:
                return
            alive[place].is_kept = False
            taken -= alive[place].width

    def _can_be_loaded_again(self, place: int) -> bool:
        each = self.graph.instructions[place]
        if each.kind != "load" or each.subsystem != "global" or each.reference is None or each.is_volatile:
            return False
        return each.reference.array not in self.stored
