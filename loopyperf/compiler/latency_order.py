"""The order of instructions in which a warp alone waits least, and the registers that values and addresses take in it.

ptxas aims at it: list scheduling from the end of each piece of the program without loops, barriers and branches, in
which an instruction stands as late as what uses its result allows, by the latencies of the machine (Cooper and Torczon,
Engineering a Compiler, section 12.3.5); of several, that which could have stood there first. Of independent loads all
are under way at once; of a chain as many as its arithmetic takes to go on. Registers count addresses: an index of 32
bits, which arrays share whose indices differ by constants, an address of 64 bits for each global array, and a counter
for each loop. In loops, addresses that differ by products of sizes are one that moves on. What is measured stands in
docs/compiler/private_data.md.
"""

import heapq
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from loopyperf.compiler.entry import is_axis
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.live_values import Lives
from loopyperf.idg.program import Edge, Instruction, Item, Loop, Opcode, loops_in, placed
from loopyperf.polyhedral.affine import Opaque, Symbol
from loopyperf.polyhedral.polynomial import Term

LATENCY: Mapping[str, int] = {Opcode.MUFU: 20}
ARITHMETIC, LOCAL, GLOBAL = 4, 30, 200
"""cycles, about, of Volta (Jia et al., Dissecting the NVIDIA Volta GPU architecture via microbenchmarking, 2018)"""


def registers_without_waiting(graph: Idg) -> int:
    """Return the registers of 32 bits that values and addresses of the machine *graph* take in the order of latency."""
    lives = Lives(in_order_of_latency(with_addresses(graph)))
    return max(lives.pressure(lives.taken[0]), default=0)


# {{{ the order


def in_order_of_latency(graph: Idg) -> Idg:
    """Return the machine *graph* with its instructions in the order in which a warp waits least."""
    return replace(graph, body=tuple(_items(graph, graph.body)))


def _items(graph: Idg, body: Sequence[Item]) -> Iterator[Item]:
    piece: list[int] = []
    for item in body:
        if isinstance(item, Loop) or graph.instructions[item].kind in (Opcode.BARRIER, Opcode.BRANCH):
            yield from _Piece(graph, piece).order()
            piece = []
            yield replace(item, body=tuple(_items(graph, item.body))) if isinstance(item, Loop) else item
        else:
            piece.append(item)
    yield from _Piece(graph, piece).order()


def _latency(instruction: Instruction) -> int:
    if instruction.kind == Opcode.LOAD:
        return LOCAL if instruction.subsystem == MemorySpace.LOCAL else GLOBAL
    return LATENCY.get(instruction.kind, ARITHMETIC)


class _Piece:
    """Instructions with nothing between that they are not moved past."""

    def __init__(self, graph: Idg, places: Sequence[int]) -> None:
        self.position = {place: position for position, place in enumerate(places)}
        self.latency = {place: _latency(graph.instructions[place]) for place in places}
        self.before: dict[int, set[int]] = {
            place: {
                edge.source
                for edge in graph.definitions[place]
                if not any(edge.distance) and self.position.get(edge.source, len(places)) < position
            }
            for place, position in self.position.items()
        }
        for one, other in pairwise(place for place in places if graph.instructions[place].is_volatile):
            self.before[other].add(one)

    def order(self) -> Iterator[int]:
        """Yield the instructions in their new order."""
        return reversed(self._from_last())

    def _from_last(self) -> list[int]:
        users = dict.fromkeys(self.position, 0)
        for each in (each for before in self.before.values() for each in before):
            users[each] += 1
        left_at = dict.fromkeys(self.position, 0)
        """of each: how many cycles before the end it has to begin at least"""
        ready = [(0, -self.position[place], place) for place, number in users.items() if not number]
        heapq.heapify(ready)
        found: list[int] = []
        cycle = 0
        while ready:
            begin, _, place = heapq.heappop(ready)
            cycle = max(cycle, begin)
            found.append(place)
            for each in self.before[place]:
                users[each] -= 1
                left_at[each] = max(left_at[each], cycle + self.latency[each])
                if not users[each]:
                    heapq.heappush(ready, (left_at[each], -self.position[each], each))
            cycle += 1
        return found


# }}}


# {{{ addresses


def with_addresses(graph: Idg) -> Idg:
    """Return the machine *graph* with what defines addresses, before their first use or the loops that it is in."""
    return _Addressing(graph).graph()


class _Addressing:
    def __init__(self, graph: Idg) -> None:
        self.source, self.instructions, self.edges = graph, list(graph.instructions), list(graph.edges)
        self.defined: dict[Hashable, int] = {}

    def graph(self) -> Idg:
        body = tuple(each for item in self.source.body for each in (*self._before(item), item))
        return Idg(tuple(self.instructions), tuple(self.edges), body)

    def _before(self, item: Item) -> Iterator[int]:
        """Yield what defines the addresses of *item*, and the counters of loops, that is not defined yet."""
        if isinstance(item, int):
            yield from self._address(item)
            return
        for loop in loops_in((item,)):
            first = [place for place, _ in placed(loop.body)][:1]
            yield from self._defined(loop.number, "i64" if loop.is_counted else "i32", first)
        for place, _ in placed((item,)):
            yield from self._address(place)

    def _address(self, place: int) -> Iterator[int]:
        """Yield what defines the address of *place*; what data decide is loaded, and is a value already."""
        each = self.source.instructions[place]
        if each.symbolic is None or each.subsystem == MemorySpace.PRIVATE:
            return
        terms = frozenset(term for term in each.symbolic.terms if term[0] and not self._moves_on(term, place))
        if not terms or any(isinstance(name, Opaque) for names, _ in terms for name in names):
            return
        if each.subsystem == MemorySpace.LOCAL:
            yield from self._defined((MemorySpace.LOCAL, terms), "i32", [place])
            return
        index = list(self._defined(terms, "i32", []))
        address = list(self._defined((each.reference.array, terms), "i64", [place]))
        self.edges += [Edge(self.defined[terms], each) for each in address]
        yield from (*index, *address)

    def _moves_on(self, term: Term[Symbol], place: int) -> bool:
        """Return whether *term* is a product of sizes, which a loop around *place* adds to an address."""
        names = {loop.name for loop in self.source.loops_around[place]}
        return bool(names) and not any(name in names or is_axis(name) for name in term[0])

    def _defined(self, key: Hashable, dtype: str, users: Sequence[int]) -> Iterator[int]:
        """Yield the instruction that defines *key*, where it is new; *users* use it."""
        if key not in self.defined:
            self.defined[key] = len(self.instructions)
            self.instructions.append(Instruction(Opcode.BITWISE, dtype, Pipeline.ALU, "", "address"))
            yield self.defined[key]
        self.edges += [Edge(self.defined[key], user) for user in users]


# }}}
