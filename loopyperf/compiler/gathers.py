"""Addresses that data or shifts by a loop's variable tell: computed anew for each, where affine ones are immediates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode

IRREGULAR: Mapping[str, int] = {MemorySpace.GLOBAL: 2, MemorySpace.LOCAL: 1, MemorySpace.PRIVATE: 1}
"""multiply-adds that make the address of an index which a loop moves on by no constant step, in each memory"""


def with_gathered_addresses(graph: Idg) -> Idg:
    """Return *graph* with a multiply-add before each access whose index is data: base, plus index times size.

    So have those whose index is computed in each pass of a loop, as ``1 << k`` is; in global memory the index is a sum
    of its own. Accesses of the same element of a row, by the same index, share it (docs/compiler.md, section 5).
    """
    return _Addressing(graph).added()


class _Addressing:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)
        self.before: dict[int, list[int]] = {}
        """of an access: what computes its address"""
        self.last: dict[Any, int] = {}

    def added(self) -> Idg:
        gathers = [
            place
            for place, each in enumerate(self.graph.instructions)
            if each.reference is not None and (each.address is None or self._is_irregular(place))
        ]
        edges = [edge for edge in self.graph.edges if edge.target not in gathers or not self._is_index(edge)]
        for place in gathers:
            edges += self._addressed(place)
        return Idg(tuple(self.instructions), tuple(dict.fromkeys(edges)), tuple(self._items(self.graph.body)))

    def _addressed(self, place: int) -> Iterator[Edge]:
        """Yield the edges of the address of the access at *place*."""
        access, loops = self.graph.instructions[place], self.graph.loops_around[place]
        wanted = [edge for edge in self.graph.definitions[place] if self._is_index(edge)]
        what = frozenset((edge.source, edge.passes, edge.condition) for edge in wanted)
        key = (access.reference.array, tuple(loop.number for loop in loops), access.condition, what)
        names = [loop.name for loop in loops]
        if key not in self.last:
            number = 1 if access.address is None else IRREGULAR[access.subsystem]
            added = range(len(self.instructions), len(self.instructions) + number)
            self.last[key], self.before[place] = added[-1], list(added)
            self.instructions += [_step(access)] * number
            yield from (replace(edge, target=added[0], operand=None) for edge in wanted)
            yield from (Edge.within(one, one + 1, names) for one in added[:-1])
        yield Edge.within(self.last[key], place, names)

    def _is_irregular(self, place: int) -> bool:
        """Return whether index arithmetic that is computed in each pass tells the address."""
        sources = (edge.source for edge in self.graph.definitions[place] if self._is_index(edge))
        around = self.graph.loops_around
        return any(self.graph.instructions[each].is_index and around[each] == around[place] for each in sources)

    def _is_index(self, edge: Edge) -> bool:
        """Return whether *edge* leads to the index of an access; the first operand of a store is what it stores."""
        is_store = self.graph.instructions[edge.target].kind == Opcode.STORE
        return edge.through == Dependence.DATA and edge.operand is not None and edge.operand >= int(is_store)

    def _items(self, body: Sequence[Item]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                yield replace(item, body=tuple(self._items(item.body)))
            else:
                yield from (*self.before.get(item, ()), item)


def _step(access: Instruction) -> Instruction:
    """Return an instruction on the way to the address of *access*."""
    text, condition = f"address of {access.reference.array}", access.condition
    found = Instruction(Opcode.INTEGER, "i64", Pipeline.ALU, access.source, text, None, access.executions, condition)
    return replace(found, is_idle=access.is_idle)
