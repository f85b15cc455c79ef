"""The core of ``core.c`` in Python: the same rules for the same tables, but slow.

It keeps no queues: each issue examines all warps. It skips nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopyperf.pipeline import encoding as on
from loopyperf.pipeline.encoding import CoreOptions, Tables
from loopyperf.pipeline.scenario import NEVER
from loopyperf.pipeline.shape import ENTER, INSTRUCTION, REPEAT, SEARCHED
from loopyperf.pipeline.simulator import AT_BARRIER, AT_START, DONE, IN_ORDER, LIMIT, TOO_LONG

OUTSIDE, WAITING, HELD = range(3)
"""states of a warp: it has no next instruction, it has one, it waits at a barrier"""
LAST = 1 << 61
"""the latest time of a run, in ticks"""

ON_TWO: Mapping[int, Callable[[int, int], int]] = {
    on.ADD: lambda one, other: one + other,
    on.MULTIPLY: lambda one, other: one * other,
    on.FLOOR: lambda one, other: one // other,
    on.REMAINDER: lambda one, other: one % other,
    on.MINIMUM: min,
    on.MAXIMUM: max,
    on.EQUAL: lambda one, other: one == other,
    on.UNEQUAL: lambda one, other: one != other,
    on.LESS: lambda one, other: one < other,
    on.AT_MOST: lambda one, other: one <= other,
    on.AND: lambda one, other: bool(one and other),
    on.OR: lambda one, other: bool(one or other),
}
"""operation -> its function of two numbers"""


def value_of(operations: Sequence[on.Operation], iterations: Sequence[int]) -> int:
    """Return the value of an expression at *iterations* of the loops around it."""
    stack: list[int] = []
    for operation, level, number in operations:
        if operation == on.CONSTANT:
            stack.append(number)
        elif operation == on.PASS:
            stack.append(iterations[level] + number)
        elif operation == on.NOT:
            stack.append(not stack.pop())
        elif operation == on.CHOOSE:
            *stack, condition, then, otherwise = stack
            stack.append(then if condition else otherwise)
        else:
            *stack, one, other = stack
            stack.append(ON_TWO[operation](one, other))
    return int(stack[-1])


@dataclass
class CoreStatus:
    """Progress of a core, as in ``core.h``."""

    time: int = 0
    finish: int = 0
    issued: int = 0
    made: int = 0
    settled: int = 0
    tolerance: float = 0.0
    busy: list[int] = field(default_factory=list[int])


class StepRow(NamedTuple):
    kind: int
    argument: int
    jump: int
    expression: int
    depth: int
    furthest: int
    loop: int
    is_uniform: int


class InstructionRow(NamedTuple):
    issue: int
    completion: int
    subsystem: int
    number: int
    of_program: int
    is_barrier: int
    depth: int
    step: int
    edges: int
    results: int
    kept: int
    is_searched: int


class EdgeRow(NamedTuple):
    source: int
    condition: int
    back: int
    level: int
    lag: int
    iterations: int


@dataclass(eq=False)
class SimulatedWarp:
    slot: int
    iterations: list[int]
    trips: list[int]
    results: dict[int, list[tuple[int, tuple[int, ...]]]] = field(default_factory=dict[int, Any])
    """instruction -> (completion time, iterations) of its latest results, newest first"""
    state: int = OUTSIDE
    step: int = 0
    place: int = 0
    subsystem: int = 0
    reason: int = 0
    source: int = -1
    number: int = 0
    stamp: int = 0
    complete: int = 0
    able: int = 0
    map: Sequence[int] = ()


@dataclass(eq=False)
class Slot:
    end: int = 0
    release: int = 0
    unfinished: int = 0
    held: int = 0
    is_vacant: bool = True


class PythonCore:
    """A core that runs the scenario in *tables*."""

    def __init__(self, given: CoreOptions, tables: Tables, skips: bool, tolerance: float) -> None:
        assert not skips
        self.given = given
        self.steps = [StepRow(*row) for row in tables.steps.tolist()]
        self.around: list[list[int]] = tables.around.tolist()
        self.instructions = [InstructionRow(*row) for row in tables.instructions.tolist()]
        self.edges = [EdgeRow(*row) for row in tables.edges.tolist()]
        self.passes: list[int] = tables.passes.tolist()
        operations, begins = tables.operations.tolist(), tables.expressions.tolist()
        self.expressions: list[list[tuple[int, int, int]]] = [operations[a:b] for a, b in pairwise(begins)]
        self.kinds: list[int] = tables.kinds.tolist()
        self.maps: list[list[int]] = tables.maps.tolist()
        self.progress = CoreStatus(busy=[0] * given.subsystems)
        deepest = len(self.around[0])
        slots = [slot for slot in range(given.slots) for _ in range(given.warps_per_group)]
        self.warps = [SimulatedWarp(slot, [0] * deepest, [0] * deepest) for slot in slots]
        self.groups = [Slot() for _ in range(given.slots)]
        self.free = [0] * given.subsystems
        self.opened = self.begun = self.counter = self.slice = 0
        self.current: int | None = None
        self.rows: NDArray[np.int64] | None = None
        self.written = 0

    def run(self, limit: int, rows: NDArray[np.int64] | None) -> int:
        """Issue up to *limit* instructions and fill *rows*; return why the core stopped."""
        end, self.rows, self.written = self.progress.made + limit, rows, 0
        while True:
            if self.progress.made >= end:
                return TOO_LONG if self.progress.time > LAST else LIMIT
            time = self._next_issue()
            slot = min((g.end, s) for s, g in enumerate(self.groups) if g.is_vacant)[1] if self._has_vacant() else None
            if slot is not None and self.groups[slot].end <= time:
                self._start_group(slot)
            elif time == NEVER:
                return TOO_LONG if self.progress.finish > LAST else DONE
            else:
                self._issue(self._chosen(time), time)

    # {{{ rule 1: when an instruction can issue

    def _value(self, warp: SimulatedWarp, expression: int) -> int:
        return value_of(self.expressions[expression], warp.iterations)

    def _complete_at(self, warp: SimulatedWarp, edge: EdgeRow, since: int) -> int:
        """Return when the result that *warp* needs by *edge* is complete; 0 if there is none or it already is."""
        results = warp.results.get(edge.source, [])
        if edge.back != SEARCHED:
            is_there = warp.iterations[edge.level] >= edge.lag and edge.back < len(results)
            return results[edge.back][0] if is_there else 0
        depth = self.instructions[edge.source].depth
        wanted = tuple(self._value(warp, each) for each in self.passes[edge.iterations : edge.iterations + depth])
        found = (time for time, iterations in results if iterations == wanted)
        return max(next(found, 0), 0)

    def _wait_for_results(self, warp: SimulatedWarp, since: int) -> None:
        warp.complete, warp.source = since, -1
        for edge in self.edges[self.instructions[warp.place].edges : self.instructions[warp.place + 1].edges]:
            if edge.condition >= 0 and not self._value(warp, edge.condition):
                continue
            time = self._complete_at(warp, edge, since)
            if time > warp.complete:
                warp.complete, warp.source = time, edge.source

    def _to_next(self, x: int, step: int) -> bool:
        """Advance warp *x* from *step* to the next instruction that it executes; return whether there is one."""
        warp = self.warps[x]
        while True:
            at = self.steps[step]
            if at.kind == INSTRUCTION:
                if at.expression < 0 or self._value(warp, at.expression):
                    warp.step, warp.place = step, at.argument
                    return True
                step += 1
            elif at.kind == ENTER:
                warp.iterations[at.argument], warp.trips[at.argument] = 0, self._value(warp, at.expression)
                step = step + 1 if warp.trips[at.argument] > 0 else at.jump
            elif at.kind == REPEAT:
                warp.iterations[at.argument] += 1
                is_over = warp.iterations[at.argument] >= warp.trips[at.argument]
                step = step + 1 if is_over else at.jump
            else:
                warp.step = step
                return False

    def _ready(self, warp: SimulatedWarp) -> int:
        return max(warp.complete, self.free[warp.subsystem], self.opened)

    def _next_issue(self) -> int:
        return min((self._ready(warp) for warp in self.warps if warp.state == WAITING), default=NEVER)

    def _chosen(self, time: int) -> int:
        """Return the warp that issues at *time*, at which at least one can."""
        able = [x for x, warp in enumerate(self.warps) if warp.state == WAITING and self._ready(warp) <= time]
        can_go_on = self.current in able
        if can_go_on and time - self.slice < self.given.goes_on:
            assert self.current is not None
            return self.current
        is_over, by_age = can_go_on and self.given.goes_on > 0, self.given.by_age
        by_stamp = is_over or not by_age
        self.current = min(able, key=lambda x: self.warps[x].stamp if by_stamp else by_age * self.warps[x].number)
        self.slice = time
        return self.current

    # }}}

    # {{{ rules 2 to 4: effects of an issue, barriers, groups

    def _issue(self, x: int, time: int) -> None:
        warp = self.warps[x]
        done, group, q = self.instructions[warp.place], self.groups[warp.slot], warp.subsystem
        if self.rows is not None:
            waited = warp.able, warp.reason, warp.complete, warp.source, self.free[q], self.opened
            self.rows[self.written] = warp.number, warp.place, time, *waited
            self.written += 1
        self.free[q] = time + done.issue
        self.progress.busy[q] += done.issue
        self.opened = time + self.given.gap
        self.progress.time = time
        self.progress.issued += 1
        self.progress.made += 1
        self._stamp(warp)
        if done.is_barrier:
            warp.state = HELD
            group.held, group.release = group.held + 1, done.completion
        else:
            self._keep_result(warp, done, time + done.completion)
            group.end = max(group.end, time + done.completion)
            self._advance(x, warp.step + 1, time, IN_ORDER)
        self._settle(warp.slot, time)

    def _stamp(self, warp: SimulatedWarp) -> None:
        warp.stamp, self.counter = self.counter, self.counter + 1

    def _keep_result(self, warp: SimulatedWarp, done: InstructionRow, complete: int) -> None:
        if done.kept:
            own = warp.results.setdefault(warp.place, [])
            own.insert(0, (complete, tuple(warp.iterations[: done.depth])))
            del own[done.kept :]

    def _advance(self, x: int, step: int, since: int, reason: int) -> None:
        """Advance warp *x* to its next instruction, which could issue at *since* if its operands were complete."""
        warp = self.warps[x]
        if not self._to_next(x, step):
            warp.state = OUTSIDE
            self.groups[warp.slot].unfinished -= 1
            return
        self._wait_for_results(warp, since)
        warp.able, warp.reason = since, reason
        warp.subsystem = warp.map[self.instructions[warp.place].subsystem]
        warp.state = WAITING

    def _settle(self, slot: int, time: int) -> None:
        """Release a group if all its warps have reached a barrier, and record when a group is complete."""
        group = self.groups[slot]
        if group.held > 0 and group.held == group.unfinished:
            release = time + group.release
            group.end, group.held = max(group.end, release), 0
            for x in self._of_slot(slot):
                if self.warps[x].state == HELD:
                    self._advance(x, self.warps[x].step + 1, release, AT_BARRIER)
        if group.unfinished == 0:
            self.progress.finish = max(self.progress.finish, group.end)
            group.is_vacant = True

    def _of_slot(self, slot: int) -> range:
        return range(slot * self.given.warps_per_group, (slot + 1) * self.given.warps_per_group)

    def _has_vacant(self) -> bool:
        return any(group.is_vacant for group in self.groups)

    def _start_group(self, slot: int) -> None:
        """Start the next waiting group, if any, in a vacant slot."""
        group = self.groups[slot]
        time, group.is_vacant = group.end, False
        if self.begun == self.given.total_groups:
            return
        self.progress.time = time
        first = self.begun * self.given.warps_per_group
        self.begun += 1
        group.unfinished = self.given.warps_per_group
        if self.current is not None and self.warps[self.current].slot == slot:
            self.current = None
        for number, x in enumerate(self._of_slot(slot), start=first):
            warp, kind = self.warps[x], number % len(self.kinds)
            warp.number, warp.map, warp.results = number, self.maps[kind], {}
            self._stamp(warp)
            self._advance(x, self.kinds[kind], time, AT_START)
        self._settle(slot, time)

    # }}}
