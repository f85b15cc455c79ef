"""A core whose warps issue any instruction whose operands are ready (dataflow order), as in a paper's simulator.

The simulator issues in program order; docs/pipeline.md shows how the two orders differ in the paper's figure. Here only
edges order instructions: one of a later iteration may issue next, so the graph is unrolled. Only barriers stay in
program order: a warp issues one after it is released from the previous one. Instructions that no edge connects with a
barrier may issue before or after it.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, pairwise

import numpy as np

from loopyperf.idg.graph import executions
from loopyperf.idg.program import Opcode
from loopyperf.pipeline.scenario import NEVER, Clock, Scenario
from loopyperf.pipeline.simulator import AT_START, COLUMNS, CoreRun


def run_dataflow(scenario: Scenario) -> CoreRun:
    """Return the core's run of *scenario*, in ticks of its clock."""
    clock = scenario.clock
    core = _Core(scenario, clock)
    core.run()
    busy = tuple(core.busy[name] for name in scenario.subsystems)
    trace = np.array(core.trace, dtype=np.int64).reshape(-1, COLUMNS)
    return CoreRun(core.finish, len(core.trace), busy, trace)


class _Flat:
    """An unrolled graph, with latencies in ticks."""

    def __init__(self, program: int, offset: int, scenario: Scenario, clock: Clock) -> None:
        graph = scenario.graphs[program]
        flat = graph.unrolled()
        found = [place for place, _ in executions(graph.instructions, graph.body)]
        latencies = scenario.latencies[program]
        self.places = [offset + place for place in found]
        self.issue = [clock.ticks(latencies[place].issue) for place in found]
        self.completion = [clock.ticks(latencies[place].completion) for place in found]
        self.subsystem = [each.subsystem for each in flat.instructions]
        self.is_barrier = [each.kind == Opcode.BARRIER for each in flat.instructions]
        barriers = [place for place, is_barrier in enumerate(self.is_barrier) if is_barrier]
        ends = {(edge.source, edge.target) for edge in flat.edges} | set(pairwise(barriers))
        self.uses: list[list[int]] = [[] for _ in found]
        self.waits = [0] * len(found)
        for source, target in sorted(ends):
            self.uses[source].append(target)
            self.waits[target] += 1


@dataclass(eq=False)
class _Warp:
    flat: _Flat
    group: "_Group"
    number: int
    stamp: int
    missing: list[int]
    ready: list[int]
    culprit: list[int]
    left: int
    """number of instructions that are not yet issued"""
    held: int | None = None
    """the barrier at which the warp waits"""
    available: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """subsystem -> ready instructions, a heap in program order"""


@dataclass(eq=False)
class _Group:
    start: int
    warps: list[_Warp] = field(default_factory=list[_Warp])
    end: int = 0
    release: int = 0
    """completion latency Λ of the barrier that was issued last"""


class _Core:
    def __init__(self, scenario: Scenario, clock: Clock) -> None:
        self.scenario = scenario
        self.scheduler = scenario.scheduler
        offsets = accumulate((len(graph.instructions) for graph in scenario.graphs), initial=0)
        numbered = zip(range(len(scenario.programs)), offsets, strict=False)
        flats = [_Flat(program, offset, scenario, clock) for program, offset in numbered]
        self.flats = [flats[program] for program in scenario.order]
        self.gap = clock.ticks(scenario.gap) if scenario.gap else 0
        self.goes_on = scenario.goes_on(clock)
        self.free = dict.fromkeys(scenario.subsystems, 0)
        self.busy = dict.fromkeys(scenario.subsystems, 0)
        self.open, self.stamp, self.finish = 0, 0, 0
        self.vacant = [0] * min(scenario.execution.concurrent_groups, scenario.execution.total_groups)
        self.started = 0
        self.pending: dict[str, list[tuple[int, int, int]]] = {name: [] for name in scenario.subsystems}
        """subsystem -> (time at which it is ready, warp, instruction)"""
        self.warps: dict[int, _Warp] = {}
        """warps with instructions that are not yet issued"""
        self.current: _Warp | None = None
        self.since = 0
        self.trace: list[tuple[int, ...]] = []

    def run(self) -> None:
        """Run until all groups have completed."""
        while (time := self._next_time()) < NEVER:
            if self.vacant and self.vacant[0] <= time:
                self._start_group(heappop(self.vacant))
                continue
            for name, pending in self.pending.items():
                while pending and pending[0][0] <= time:
                    _, number, place = heappop(pending)
                    heappush(self.warps[number].available[name], place)
            warp = self._chosen(time)
            self._issue(warp, min(self._issuable(warp, time)), time)

    def _next_time(self) -> int:
        times = [self.vacant[0]] if self.vacant else []
        for name, pending in self.pending.items():
            free = max(self.free[name], self.open)
            if any(warp.available[name] for warp in self.warps.values()):
                times.append(free)
            elif pending:
                times.append(max(free, pending[0][0]))
        return min(times, default=NEVER)

    # {{{ choice of the warp and the instruction

    def _issuable(self, warp: _Warp, time: int) -> Iterator[int]:
        """Yield the first instruction of *warp* on each subsystem that could issue at *time*."""
        return (ready[0] for name, ready in warp.available.items() if ready and self.free[name] <= time)

    def _chosen(self, time: int) -> _Warp:
        able = [warp for warp in self.warps.values() if any(True for _ in self._issuable(warp, time))]
        goes_on = self.current in able
        if goes_on and self.current and time - self.since < self.goes_on:
            return self.current
        by_age = 0 if goes_on and self.goes_on else self.scheduler.by_age
        self.since = time
        self.current = min(able, key=lambda warp: by_age * warp.number if by_age else warp.stamp)
        return self.current

    # }}}

    # {{{ state changes

    def _issue(self, warp: _Warp, place: int, time: int) -> None:
        flat, name = warp.flat, warp.flat.subsystem[place]
        heappop(warp.available[name])
        able = warp.group.start, AT_START, warp.ready[place], warp.culprit[place]
        self.trace.append((warp.number, flat.places[place], time, *able, self.free[name], self.open))
        self.free[name] = time + flat.issue[place]
        self.busy[name] += flat.issue[place]
        self.open = time + self.gap
        warp.stamp = self._next_stamp()
        warp.left -= 1
        if flat.is_barrier[place]:
            warp.held = place
            warp.group.release = flat.completion[place]
        else:
            self._complete(warp, place, time + flat.completion[place])
        self._settle(warp.group, time)

    def _complete(self, warp: _Warp, place: int, time: int) -> None:
        """Schedule the uses of *place*, which completes at *time*."""
        warp.group.end = max(warp.group.end, time)
        for use in warp.flat.uses[place]:
            if time > warp.ready[use]:
                warp.ready[use], warp.culprit[use] = time, warp.flat.places[place]
            warp.missing[use] -= 1
            if not warp.missing[use]:
                heappush(self.pending[warp.flat.subsystem[use]], (warp.ready[use], warp.number, use))

    def _settle(self, group: _Group, time: int) -> None:
        """Release the group if all of its warps wait at barriers; if it has issued everything, record its end."""
        held = [(warp, warp.held) for warp in group.warps if warp.held is not None]
        if held and all(warp.held is not None or not warp.left for warp in group.warps):
            for warp, place in held:
                warp.held = None
                self._complete(warp, place, time + group.release)
        for warp in group.warps:
            if not warp.left:
                self.warps.pop(warp.number, None)
        if not any(warp.left or warp.held is not None for warp in group.warps):
            self.finish = max(self.finish, group.end)
            heappush(self.vacant, group.end)

    def _start_group(self, time: int) -> None:
        """Start the next group, if there is one."""
        if self.started == self.scenario.execution.total_groups:
            return
        group = _Group(time, end=time)
        size = self.scenario.execution.warps_per_group
        for number in range(self.started * size, (self.started + 1) * size):
            flat = self.flats[number % len(self.flats)]
            length = len(flat.places)
            ready, culprit = [time] * length, [-1] * length
            warp = _Warp(flat, group, number, self._next_stamp(), list(flat.waits), ready, culprit, length)
            group.warps.append(warp)
            self.warps[number] = warp
            for place, waits in enumerate(flat.waits):
                if not waits:
                    heappush(self.pending[flat.subsystem[place]], (time, number, place))
        self.started += 1
        self._settle(group, time)

    def _next_stamp(self) -> int:
        self.stamp += 1
        return self.stamp

    # }}}
