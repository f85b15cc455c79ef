"""Passes that are not for all lanes: what is under a condition on a loop's variable is tested for in each pass.

What is predicated is issued in all passes, in those that no lane takes part in, too; addresses that move on by a size
are computed anew under the predicate (docs/compiler.md, section 6).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import pymbolic.primitives as prim

from loopyperf.compiler.predication import Part
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import NOT, Edge, Instruction, Item, Loop, Opcode
from loopyperf.idg.unrolling import number_of_runs

TEST = 2
"""instructions of a test of which work-items have something to do: the left-hand side, and a comparison"""
ADDRESS = 2
"""of an access that moves on by a size, beyond the step that it has anyway: index and base, under the predicate"""


def with_tested_passes(graph: Idg) -> Idg:
    """Return *graph* with the tests of conditions on loop variables, and with what is issued where they fail."""
    return _Testing(graph).tested()


def on_loop(instruction: Instruction, loop: str) -> frozenset[str]:
    """Return the predicates of *instruction* that depend on the variable of *loop*."""
    found = (each.removeprefix(NOT) for each in instruction.predicates)
    return frozenset(each for each in found if loop in re.findall(r"\w+", each))


class _Testing:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)
        self.edges = list(graph.edges)

    def tested(self) -> Idg:
        body = tuple(self._items(self.graph.body, ()))
        return Idg(tuple(self.instructions), tuple(self.edges), body)

    def _items(self, body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
        tested: frozenset[str] = frozenset()
        for predicates, together in groupby(body, lambda item: self._predicates(item, around)):
            part = list(together)
            if predicates - tested:
                yield from self._added(TEST * len(predicates - tested), around)
                tested |= predicates
            for item in part:
                yield self._inside(item, around) if isinstance(item, Loop) else item
            if predicates:
                yield from self._for_no_lane([item for item in part if not isinstance(item, Loop)], around)

    def _inside(self, loop: Loop, around: tuple[Loop, ...]) -> Loop:
        return replace(loop, body=tuple(self._items(loop.body, (*around, loop))))

    def _predicates(self, item: Item, around: tuple[Loop, ...]) -> frozenset[str]:
        if isinstance(item, Loop) or not around:
            return frozenset()
        return on_loop(self.graph.instructions[item], around[-1].name)

    def _added(self, number: int, around: tuple[Loop, ...]) -> list[int]:
        test = Instruction(
            Opcode.INTEGER, "i32", Pipeline.ALU, text="is it for a lane?", executions=number_of_runs(None, around)
        )
        first = len(self.instructions)
        self.instructions.extend([test] * number)
        return list(range(first, len(self.instructions)))

    def _for_no_lane(self, places: Sequence[int], around: tuple[Loop, ...]) -> Iterator[int]:
        """Yield what is added to the part at *places*: addresses, and the part once more, for where no lane does it."""
        found = [self.graph.instructions[place] for place in places]
        moved = [each.symbolic for each in found if each.symbolic is not None and each.subsystem == MemorySpace.GLOBAL]
        far = [address for address in moved if address.factor_of(around[-1].name).variables]
        yield from self._added(ADDRESS * len(far), around)
        if not Part(tuple(found), frozenset()).is_short:
            return
        numbers: dict[int, int] = {}
        passes = number_of_runs(None, around)
        for place, each in zip(places, found, strict=True):
            if each.condition is not None and passes > each.executions:
                numbers[place] = len(self.instructions)
                fails = prim.LogicalNot(each.condition)
                idle = replace(each, is_idle=True, origin=None, condition=fails, executions=passes - each.executions)
                self.instructions.append(idle)
        self.edges += [edge for place in numbers for edge in self._copied_edges(place, numbers)]
        yield from numbers.values()

    def _copied_edges(self, place: int, numbers: dict[int, int]) -> Iterator[Edge]:
        for edge in self.graph.definitions[place]:
            if edge.source in numbers and not any(edge.distance):
                yield replace(edge.between(numbers[edge.source], numbers[place]), condition=None)
