"""Conditions: on work-items, of which a short part is predicated and a long one branched around; on passes of loops.

What is predicated is issued by each warp that comes by, though none of its lanes may take part: in the stages of a tree
of sums, most warps do so. Around a longer part lanes agree to meet again, branch and meet; at the end of the kernel,
those that take no part just end (docs/compiler.md, section 6).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pymbolic.primitives as prim

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg, between_kept, number_of_runs
from loopyperf.idg.program import NOT, Edge, Instruction, Item, Loop, Opcode, placed

SHORT = {"lanes": 8, "groups": 6}
"""instructions at most of a predicated part, under a condition on the lane, and on the group or on sizes alone"""
SHORT_WITH_LOADS = 13
"""of one that loads from global memory"""
AROUND = {"lanes": 3, "groups": 1}
"""instructions around a part that is not predicated: agree to meet, branch, meet; a group branches together"""
LONG = (Opcode.DIV, Opcode.MOD, Opcode.SPECIAL, Opcode.POW, Opcode.POWI, Opcode.BARRIER)
"""kinds with a slow path of their own, or what lanes cannot skip: they are not predicated"""


def with_predication(graph: Idg) -> Idg:
    """Return *graph* with what is issued for no lane, and with branches around what is not predicated."""
    return _Predication(graph).predicated()


@dataclass(frozen=True, slots=True)
class PredicatedRun:
    """Instructions one after the other under the same conditions."""

    instructions: tuple[Instruction, ...]
    tests: frozenset[str]

    @property
    def decided_by(self) -> str:
        """Return whether the conditions are on ``lanes``, as those on data are, or on ``groups``."""
        return "groups" if self.tests and not any(map(_names_lanes, self.tests)) else "lanes"

    @property
    def is_short(self) -> bool:
        """Return whether nvcc predicates it."""
        body = [each for each in self.instructions if not each.is_index and each.kind != Opcode.MOVE]
        if any(each.kind in LONG for each in body):
            return False
        fused = min(sum(each.kind == kind for each in body) for kind in (Opcode.ADD, Opcode.MUL))
        loads = any(each.kind == Opcode.LOAD and each.subsystem == MemorySpace.GLOBAL for each in body)
        return len(body) - fused <= (SHORT_WITH_LOADS if loads else SHORT[self.decided_by])


class _Predication:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        idle = () if graph.idle is None else graph.idle.instructions
        self.instructions = [*graph.instructions, *idle]
        tests = [each.tests for each in self.instructions if each.reference is not None]
        self.ending = tests[0].intersection(*tests) if tests else frozenset[str]()
        """what all of the kernel is under"""
        self.kept = set(range(len(graph.instructions)))
        self.runs: dict[tuple[Any, tuple[int, ...]], int] = {}
        """of a condition and the loops around it, by number: in how many passes it holds"""

    def predicated(self) -> Idg:
        body = tuple(self._with_branches(self._with_idle(self.graph.body, ()), (), self.ending))
        edges = [*self.graph.edges, *self._idle_edges()]
        numbers = {place: number for number, place in enumerate(sorted(self.kept))}
        instructions = tuple(self.instructions[place] for place in sorted(self.kept))
        return Idg(instructions, between_kept(edges, numbers), tuple(_renamed(body, numbers)))

    def _idle_edges(self) -> Iterator[Edge]:
        first = len(self.graph.instructions)
        for edge in () if self.graph.idle is None else self.graph.idle.edges:
            yield edge.between(first + edge.source, first + edge.target)

    def _with_idle(self, body: Sequence[Item], loops: tuple[str, ...]) -> Iterator[Item]:
        """Yield the items of *body*, inside these *loops*, with the idle instructions where they stand."""
        places = () if self.graph.idle is None else self.graph.idle.places
        first = len(self.graph.instructions)
        waiting = [(after, first + number) for number, (after, around) in enumerate(places) if around == loops]
        for item in body:
            here = _first(item)
            yield from (place for after, place in waiting if after <= here)
            waiting = [(after, place) for after, place in waiting if after > here]
            if isinstance(item, Loop):
                yield replace(item, body=tuple(self._with_idle(item.body, (*loops, item.name))))
            else:
                yield item
        yield from (place for _, place in waiting)

    def _with_branches(self, items: Iterator[Item], around: tuple[Loop, ...], given: frozenset[str]) -> Iterator[Item]:
        """Yield *items* with what stands around long parts, and without those long parts that no lane executes.

        What is *given* has been asked already, around the loop that the items are in.
        """
        parts = [(under, tuple(part)) for under, part in groupby(items, lambda item: self._under(item, around, given))]
        for number, ((tests, is_idle, on_data), part) in enumerate(parts):
            plain = [item for item in part if not isinstance(item, Loop)]
            found = PredicatedRun(tuple(self.instructions[place] for place in plain), tests)
            is_last = not around and number + 1 == len(parts)
            if tests or on_data:
                if is_last or len(plain) < len(part) or not found.is_short:
                    yield from self._branches(1 if is_last else AROUND[found.decided_by], around)
                    part = () if is_idle else part
                else:
                    self.kept.update(plain)
                    self._execute_always(plain if on_data else (), around)
            elif is_idle:  # the whole kernel is under what it is under: such warps have ended
                part = ()
            yield from (self._inside(item, around, given | tests) for item in part)

    def _inside(self, item: Item, around: tuple[Loop, ...], given: frozenset[str]) -> Item:
        if not isinstance(item, Loop):
            return item
        return replace(item, body=tuple(self._with_branches(iter(item.body), (*around, item), given)))

    def _execute_always(self, places: Sequence[int], around: tuple[Loop, ...]) -> None:
        """Execute what data decide of in all passes: the machine issues it for the lanes that take part."""
        for place in places:
            each = self.instructions[place]
            self.instructions[place] = replace(each, executions=self._runs(each.condition, around))

    def _runs(self, condition: Any, around: tuple[Loop, ...]) -> int:
        key = condition, tuple(loop.number for loop in around)
        if key not in self.runs:
            self.runs[key] = number_of_runs(condition, around)
        return self.runs[key]

    def _under(self, item: Item, around: tuple[Loop, ...], given: frozenset[str]) -> tuple[frozenset[str], bool, bool]:
        """Return the conditions that *item* is under, whether it is idle, and whether data decide of it.

        A loop is under what all in it are under; Loopy asks for that around the loop.
        """
        if isinstance(item, Loop):
            tests = [self.instructions[place].tests for place, _ in placed(item.body)]
            return tests[0].intersection(*tests) - given, False, False
        each = self.instructions[item]
        on_data = not each.is_idle and each.executions < self._runs(each.condition, around)
        return (each.tests | each.predicates) - given, each.is_idle, on_data

    def _branches(self, number: int, around: tuple[Loop, ...]) -> list[int]:
        """Add the branches around a part; in a loop, parts under the same condition share them, and there are none."""
        if around:
            return []
        branch = Instruction(Opcode.BRANCH, "", Pipeline.CONTROL, text="under a condition")
        first = len(self.instructions)
        self.instructions.extend([branch] * number)
        self.kept.update(range(first, len(self.instructions)))
        return list(range(first, len(self.instructions)))


def _first(item: Item) -> int:
    while isinstance(item, Loop):
        item = item.body[0]
    return item


def _renamed(body: Sequence[Item], numbers: dict[int, int]) -> Iterator[Item]:
    for item in body:
        if isinstance(item, Loop):
            yield replace(item, body=tuple(_renamed(item.body, numbers)))
        else:
            yield numbers[item]


def _names_lanes(test: str) -> bool:
    return any(f"l{axis}" in test for axis in range(3))


# {{{ passes that are not for all lanes
#
# What is under a condition on a loop's variable is tested for in each pass.
#
# What is predicated is issued in all passes, in those that no lane takes part in, too; addresses that move on by a size
# are computed anew under the predicate (docs/compiler.md, section 6).


TEST = 2
"""instructions of a test of which work-items have something to do: the left-hand side, and a comparison"""
ADDRESS = 2
"""of an access that moves on by a size, beyond the step that it has anyway: index and base, under the predicate"""


def with_predicated_iterations(graph: Idg) -> Idg:
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
        if not PredicatedRun(tuple(found), frozenset()).is_short:
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


# }}}
