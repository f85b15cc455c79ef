"""Addresses that data tell: one instruction for each, where those of loop variables and sizes are immediates."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pymbolic.primitives as prim

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Item, Loop


def with_gathered_addresses(graph: Idg) -> Idg:
    """Return *graph* with a multiply-add before each access whose index is data: base, plus index times size.

    Accesses of the same element of a row, by the same index, share it (docs/compiler.md, section 5).
    """
    return _Addressing(graph).added()


class _Addressing:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)
        self.before: dict[int, int] = {}
        """of an access: what computes its address"""
        self.first: dict[Any, int] = {}

    def added(self) -> Idg:
        gathers = [
            place
            for place, each in enumerate(self.graph.instructions)
            if each.reference is not None and each.address is None
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
        key = (access.reference.array, tuple(map(id, loops)), access.condition, what)
        if key not in self.first:
            self.first[key] = self.before[place] = len(self.instructions)
            text = f"address of {access.reference.array}"
            self.instructions.append(
                Instruction("integer", "i64", "alu", access.source, text, None, access.executions, access.condition)
            )
            yield from (replace(edge, target=self.first[key], operand=None) for edge in wanted)
        same = tuple(prim.Variable(loop.name) for loop in loops)
        yield Edge(self.first[key], place, (0,) * len(loops), same)

    def _is_index(self, edge: Edge) -> bool:
        """Return whether *edge* leads to the index of an access; the first operand of a store is what it stores."""
        is_store = self.graph.instructions[edge.target].kind == "store"
        return edge.through == "data" and edge.operand is not None and edge.operand >= int(is_store)

    def _items(self, body: Sequence[Item]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                yield replace(item, body=tuple(self._items(item.body)))
            else:
                yield from (self.before[item], item) if item in self.before else (item,)
