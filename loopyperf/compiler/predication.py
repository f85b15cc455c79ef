"""Predication: conditions on work-items, and conditions on loop iterations.

nvcc predicates short conditional parts and branches around long ones. Every warp that reaches a predicated part issues
it, even if no lane is active: in the stages of a tree reduction, this is true of most warps. Around a longer part,
lanes set up a convergence barrier, branch, and reconverge; at the end of the kernel, inactive lanes exit
(docs/compiler.md, section 6).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import Any

import pymbolic.primitives as prim

from loopyperf.compiler.rewriting import Rewriting
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg, between_kept, number_of_runs
from loopyperf.idg.program import (
    DataCondition,
    Edge,
    Instruction,
    Item,
    Loop,
    Opcode,
    Predicates,
    expanded,
    integer_if_whole,
    placed,
)

SHORT = {"lanes": 8, "groups": 6}
"""instructions, at most, of a predicated part: under a condition on the lane, or on the group or sizes alone"""
SHORT_WITH_LOADS = 13
"""the same for a part that loads from global memory"""
AROUND = {"lanes": 3, "groups": 1}
"""instructions around a part that is branched around: barrier setup, branch, reconvergence; a group branches
uniformly"""
LONG = (Opcode.DIV, Opcode.MOD, Opcode.SPECIAL, Opcode.POW, Opcode.POWI, Opcode.BARRIER)
"""opcodes that are never predicated: they have a slow path of their own, or lanes cannot skip them"""


def with_predication(graph: Idg) -> Idg:
    """Return *graph* with predicated instructions that no lane executes, and with branches around long parts."""
    return _Predication(graph).predicated()


@dataclass(frozen=True, slots=True)
class PredicatedRun:
    """Consecutive instructions under the same conditions."""

    instructions: tuple[Instruction, ...]
    tests: Predicates

    @property
    def decided_by(self) -> str:
        """Return ``groups`` if the conditions depend only on groups, else ``lanes``, as for conditions on data."""
        return "groups" if self.tests and not any(test.is_on_lanes for test in self.tests) else "lanes"

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
        tests = [instruction.tests for instruction in self.instructions if instruction.reference is not None]
        self.ending = tests[0].intersection(*tests) if tests else Predicates()
        """tests that apply to all accesses of the kernel"""
        self.kept = set(range(len(graph.instructions)))
        self.runs: dict[tuple[Any, tuple[int, ...]], int] = {}
        """(condition, numbers of the loops around it) -> iterations in which it holds"""

    def predicated(self) -> Idg:
        body = tuple(self._with_branches(self._with_idle(self.graph.body, ()), (), self.ending))
        edges = [*self.graph.edges, *self._idle_edges()]
        numbers = {place: number for number, place in enumerate(sorted(self.kept))}
        instructions = tuple(self.instructions[place] for place in numbers)
        renumbered = expanded(body, {place: [number] for place, number in numbers.items()})
        return Idg(instructions, between_kept(edges, numbers), renumbered)

    def _idle_edges(self) -> Iterator[Edge]:
        first = len(self.graph.instructions)
        for edge in () if self.graph.idle is None else self.graph.idle.edges:
            yield edge.between(first + edge.source, first + edge.target)

    def _with_idle(self, body: Sequence[Item], loops: tuple[str, ...]) -> Iterator[Item]:
        """Yield the items of *body*, inside these *loops*, with idle instructions inserted at their positions."""
        places = () if self.graph.idle is None else self.graph.idle.places
        first = len(self.graph.instructions)
        waiting = [(after, first + number) for number, (after, around) in enumerate(places) if around == loops]
        for item in body:
            here, _ = next(placed((item,)))
            yield from (place for after, place in waiting if after <= here)
            waiting = [(after, place) for after, place in waiting if after > here]
            if isinstance(item, Loop):
                yield replace(item, body=tuple(self._with_idle(item.body, (*loops, item.name))))
            else:
                yield item
        yield from (place for _, place in waiting)

    def _with_branches(self, items: Iterator[Item], around: tuple[Loop, ...], given: Predicates) -> Iterator[Item]:
        """Yield *items* with branches around long parts, and without long parts that no lane executes.

        Conditions in *given* were already tested around the enclosing loop.
        """
        parts = [
            (under, region)
            for under, part in groupby(items, lambda item: self._under(item, around, given))
            for region in (self._regions(part) if under[-1] else [tuple(part)])
        ]
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
                    part = tuple(self._executed_always(plain, around)) if on_data else part
            elif is_idle:  # the condition applies to the whole kernel: such warps have exited
                part = ()
            yield from (self._inside(item, around, given | tests) for item in part)

    def _inside(self, item: Item, around: tuple[Loop, ...], given: Predicates) -> Item:
        if not isinstance(item, Loop):
            return item
        return replace(item, body=tuple(self._with_branches(iter(item.body), (*around, item), given)))

    def _regions(self, part: Iterator[Item]) -> Iterator[tuple[int, ...]]:
        """Yield runs of consecutive instructions of *part* that share a condition on data."""
        region, shared = list[int](), set[DataCondition]()
        for place in (item for item in part if isinstance(item, int)):
            own = set(self.instructions[place].on_data)
            if region and not shared & own:
                yield tuple(region)
                region = []
            shared = shared & own if region else own
            region.append(place)
        yield tuple(region)

    def _executed_always(self, places: Sequence[int], around: tuple[Loop, ...]) -> Iterator[int]:
        """Yield predicated instructions, which are issued in all iterations; accesses happen only for active lanes."""
        for place in places:
            yield place
            each, runs = self.instructions[place], self._runs(self.instructions[place].condition, around)
            if each.reference is None:
                self.instructions[place] = replace(each, executions=runs, on_data=())
            elif each.executions < runs:
                left = integer_if_whole(Fraction(runs - each.executions))
                self.kept.add(len(self.instructions))
                yield len(self.instructions)
                self.instructions.append(replace(each, executions=left, origin=None, is_idle=True))

    def _runs(self, condition: Any, around: tuple[Loop, ...]) -> int:
        key = condition, tuple(loop.number for loop in around)
        if key not in self.runs:
            self.runs[key] = number_of_runs(condition, around)
        return self.runs[key]

    def _under(self, item: Item, around: tuple[Loop, ...], given: Predicates) -> tuple[Predicates, bool, bool]:
        """Return (conditions of *item*, whether it is idle, whether it depends on data).

        A loop has the conditions that all its instructions share; Loopy tests these around the loop.
        """
        if isinstance(item, Loop):
            tests = [self.instructions[place].tests for place, _ in placed(item.body)]
            return tests[0].intersection(*tests) - given, False, False
        each = self.instructions[item]
        return (each.tests | each.predicates) - given, each.is_idle, bool(each.on_data) and not each.is_idle

    def _branches(self, number: int, around: tuple[Loop, ...]) -> list[int]:
        """Add the branches around a part; none inside loops, where parts under the same condition share them."""
        if around:
            return []
        branch = Instruction(Opcode.BRANCH, "", Pipeline.CONTROL, text="under a condition")
        first = len(self.instructions)
        self.instructions.extend([branch] * number)
        self.kept.update(range(first, len(self.instructions)))
        return list(range(first, len(self.instructions)))


# {{{ conditions on loop iterations
#
# A condition on a loop variable is tested in each iteration.
#
# Predicated instructions are issued in all iterations, including those in which no lane is active. Addresses that
# advance by a size are recomputed under the predicate (docs/compiler.md, section 6).


TEST = 2
"""instructions of a test which work-items are active: the left-hand side and a comparison"""
ADDRESS = 2
"""instructions of an access that advances by a size, beyond its usual step: index and base, under the predicate"""


def with_predicated_iterations(graph: Idg) -> Idg:
    """Return *graph* with tests of conditions on loop variables, and with the instructions issued where they fail."""
    testing = _Testing(graph)
    return testing.rebuilt(list(testing.items(graph.body, ())))


def on_loop(instruction: Instruction, loop: str) -> frozenset[str]:
    """Return the predicates of *instruction* that depend on the variable of *loop*."""
    return frozenset(predicate.text for predicate in instruction.predicates if loop in predicate.names)


class _Testing(Rewriting):
    def items(self, body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
        tested: frozenset[str] = frozenset()
        for predicates, together in groupby(body, lambda item: self._predicates(item, around)):
            part = list(together)
            if predicates - tested:
                yield from self._added(TEST * len(predicates - tested), around)
                tested |= predicates
            for item in part:
                if isinstance(item, Loop):
                    yield replace(item, body=tuple(self.items(item.body, (*around, item))))
                else:
                    yield item
            if predicates:
                yield from self._for_no_lane([item for item in part if not isinstance(item, Loop)], around)

    def _predicates(self, item: Item, around: tuple[Loop, ...]) -> frozenset[str]:
        if isinstance(item, Loop) or not around:
            return frozenset()
        return on_loop(self.graph.instructions[item], around[-1].name)

    def _added(self, number: int, around: tuple[Loop, ...]) -> list[int]:
        return self.add(Opcode.INTEGER, "is any lane active?", number, number_of_runs(None, around))

    def _for_no_lane(self, places: Sequence[int], around: tuple[Loop, ...]) -> Iterator[int]:
        """Yield instructions added to the part at *places*: addresses, and a copy for when no lane is active."""
        found = [self.graph.instructions[place] for place in places]
        moved = [each.symbolic for each in found if each.symbolic is not None and each.subsystem == MemorySpace.GLOBAL]
        far = [address for address in moved if address.factor_of(around[-1].name).variables]
        yield from self._added(ADDRESS * len(far), around)
        if not PredicatedRun(tuple(found), frozenset()).is_short:
            return
        numbers: dict[int, int] = {}
        iterations = number_of_runs(None, around)
        for place, each in zip(places, found, strict=True):
            if each.condition is not None and iterations > each.executions:
                numbers[place] = len(self.instructions)
                fails = prim.LogicalNot(each.condition)
                idle = replace(
                    each, is_idle=True, origin=None, condition=fails, executions=iterations - each.executions
                )
                self.instructions.append(idle)
        self.edges += [edge for place in numbers for edge in self._copied_edges(place, numbers)]
        yield from numbers.values()

    def _copied_edges(self, place: int, numbers: dict[int, int]) -> Iterator[Edge]:
        for edge in self.graph.definitions[place]:
            if edge.source in numbers and not any(edge.distance):
                yield replace(edge.between(numbers[edge.source], numbers[place]), condition=None)


# }}}
