"""Loop-invariant code: what is the same in all passes of a loop is computed once, before it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pymbolic.primitives as prim

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import STAYING, Edge, Instruction, Item, Iteration, Loop, Opcode, placed
from loopyperf.polyhedral.affine import Opaque
from loopyperf.polyhedral.expressions import names_of


def without_invariants(graph: Idg) -> Idg:
    """Return *graph* with instructions before a loop that would do the same in each of its passes.

    A load moves out where nothing in the kernel stores to its array; one of local memory where nothing in the loop
    does, and no barrier is passed; a volatile one does not.
    """
    while (moved := _Hoister(graph).hoisted()) is not None:
        graph = moved
    return graph


class _Hoister:
    """Moves what can go out of the innermost loop around it, each instruction by one loop."""

    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        stored = (each.reference for each in graph.instructions if each.kind == Opcode.STORE)
        self.stored = {each.array for each in stored if each}
        self.invariant: set[int] = set()

    def hoisted(self) -> Idg | None:
        """Return the graph with them moved; None where there is none."""
        for loop in _loops(self.graph.body):
            if isinstance(loop.trips, int) and loop.trips > 0:
                self._look_at(loop)
        if not self.invariant:
            return None
        body = tuple(self._items(self.graph.body))
        instructions = tuple(
            self._once(each, place) if place in self.invariant else each
            for place, each in enumerate(self.graph.instructions)
        )
        return Idg(instructions, tuple(map(self._outside, self.graph.edges)), body)

    def _look_at(self, loop: Loop) -> None:
        here = {item for item in loop.body if isinstance(item, int)}
        inside = [self.graph.instructions[place] for place, _ in placed(loop.body)]
        meets = any(each.kind == Opcode.BARRIER for each in inside)
        changed = {each.reference.array for each in inside if each.kind == Opcode.STORE and each.reference is not None}
        for place in loop.body:
            if (
                isinstance(place, int)
                and self._may_move(place, meets, changed)
                and self._is_the_same(place, loop, here)
            ):
                self.invariant.add(place)

    def _may_move(self, place: int, meets: bool, changed: set[str]) -> bool:
        """Return whether an instruction may be moved out of a loop, where a barrier *meets* the warp or none does."""
        each = self.graph.instructions[place]
        if each.reference is None:
            return each.kind not in STAYING and not each.is_stated
        read = each.reference
        lasts = (
            read.array not in changed and not meets
            if read.space == MemorySpace.LOCAL
            else read.array not in self.stored
        )
        return each.kind not in STAYING and each.address is not None and lasts and not each.is_volatile

    def _is_the_same(self, place: int, loop: Loop, here: set[int]) -> bool:
        each = self.graph.instructions[place]
        address = () if each.address is None else (each.address,)
        known = [each.condition, *(operand.known for operand in each.operands)]
        return not _depends_on(loop.name, address, known) and all(
            self._comes_from_outside(edge, loop, here) for edge in self.graph.definitions[place]
        )

    def _comes_from_outside(self, edge: Edge, loop: Loop, here: set[int]) -> bool:
        if edge.source in here:
            return edge.source in self.invariant and not _depends_on(loop.name, (), [edge.condition])
        inside = any(around.number == loop.number for around in self.graph.loops_around[edge.source])
        return not inside and not _depends_on(loop.name, edge.passes, [edge.condition])

    def _once(self, instruction: Instruction, place: int) -> Instruction:
        number = Fraction(instruction.executions) / self.graph.loops_around[place][-1].trips
        return replace(instruction, executions=int(number) if number.denominator == 1 else number)

    def _outside(self, edge: Edge) -> Edge:
        """Return *edge*, where one of its ends is moved: the loop is no longer around it."""
        depth = len(self.graph.loops_around[edge.source]) - (edge.source in self.invariant)
        target = len(self.graph.loops_around[edge.target]) - (edge.target in self.invariant)
        return replace(edge, passes=edge.passes[:depth], distance=edge.distance[: min(depth, target)])

    def _items(self, body: Sequence[Item]) -> Iterator[Item]:
        for item in body:
            if not isinstance(item, Loop):
                yield item
                continue
            own = [place for place in item.body if isinstance(place, int) and place in self.invariant]
            inside = tuple(each for each in item.body if not isinstance(each, int) or each not in self.invariant)
            yield from own
            if inside:
                yield replace(item, body=tuple(self._items(inside)))


def _depends_on(name: str, sums: Sequence[Iteration], expressions: Sequence[Any]) -> bool:
    """Return whether some of *sums* and *expressions* depend on the pass of the loop of that *name*."""
    variables = [variable for each in sums for variable, _ in each.terms]
    nodes = [each for each in expressions if isinstance(each, prim.ExpressionNode)]
    nodes += [each.expression for each in variables if isinstance(each, Opaque)]
    return name in variables or (bool(nodes) and name in names_of(nodes))


def _loops(body: Sequence[Item]) -> Iterator[Loop]:
    for item in body:
        if isinstance(item, Loop):
            yield from _loops(item.body)
            yield item
