"""Stall reasons of warps, as totals and as a timeline, from the trace of a short part of the simulation.

The stall reasons are those of :func:`loopyperf.pipeline.core.stalls`, and two for memory. Waiting for an operand
counts as memory latency if a load from beyond the core produces it. Waiting for a pipeline counts as memory bandwidth
if it is a memory level that all cores share. On a GPU, warps issue such loads and wait for the results, so that both
correspond to Nsight Compute's "long scoreboard" stall.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.models.pipeline import explicit_scenario
from loopyperf.models.timing import is_of_device
from loopyperf.pipeline.core import PLACE, SOURCE, TIME, WARP, Ticks, stalls
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import executed
from loopyperf.pipeline.timed_program import TimedLaunch

ISSUES = 12_000
"""number of traced issues"""
WINDOW = 400
"""length of a timeline in cycles"""
WARPS = 16
"""maximum number of warps in a timeline"""

StallReason = Literal["pipeline busy", "memory bandwidth", "memory latency", "dependency", "barrier", "issue limit"]
"""stall reasons: a busy pipeline of the core; a busy memory level beyond the core; the result of a load; another
result; other warps of the group; the issue limit"""
STALLS: tuple[StallReason, ...] = get_args(StallReason)
BUSY: tuple[StallReason, ...] = ("pipeline busy", "memory bandwidth")
"""stall reasons that utilization already shows"""
OF_MEMORY = (MemorySpace.GLOBAL, MemorySpace.PRIVATE)


class Span(NamedTuple):
    """A span of a timeline, in cycles from its start."""

    row: int
    """index of the warp or of the pipeline"""
    begin: float
    """start in cycles"""
    end: float
    """end in cycles"""
    what: str
    """stall reason of a warp, or source line that keeps a pipeline busy"""


@dataclass(frozen=True, slots=True)
class Timeline:
    """A timeline of some warps of a core over a few hundred cycles, from the middle of the simulated part."""

    cycles: float
    """length in cycles"""
    warps: tuple[int, ...]
    """numbers of the warps on the core"""
    waits: tuple[Span, ...]
    """stalls of the warps; rows are indices into :attr:`warps`"""
    issues: tuple[tuple[int, float], ...]
    """issues, as (index into :attr:`warps`, time in cycles)"""
    pipelines: tuple[str, ...]
    """busy pipelines; of those that each partition of the core has, only the first"""
    busy: tuple[Span, ...]
    """busy spans of these pipelines, by all warps of the core"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Stall reasons of the warps of a core, as shares of stall cycles, by waiting instruction."""

    OMITTED = ("timeline",)
    DERIVED = ("total",)

    by_source: Mapping[str, Mapping[StallReason, float]]
    """source line -> stall reason -> share"""
    timeline: Timeline
    """timeline of some of these warps"""

    @property
    def total(self) -> dict[StallReason, float]:
        """Return the share of each stall reason, largest first."""
        found = {cause: sum((each.get(cause, 0.0) for each in self.by_source.values()), 0.0) for cause in STALLS}
        order: list[StallReason] = sorted(STALLS, key=lambda cause: -found[cause])
        return {cause: found[cause] for cause in order if found[cause]}


def waiting_of(launch: TimedLaunch) -> Waiting:
    """Return the stall reasons in the part of *launch* that is simulated instruction by instruction.

    Raises :class:`MissingNumberError` if the device lacks a latency.
    """
    scenario = explicit_scenario(launch, ISSUES)
    traced = _Traced(launch, scenario, executed(scenario, is_traced=True).trace)
    return Waiting(traced.by_source(), traced.timeline())


@dataclass(frozen=True)
class _Traced:
    """The trace of a core, with one row per issue."""

    launch: TimedLaunch
    scenario: Scenario
    trace: Ticks

    @cached_property
    def instructions(self) -> list[Instruction]:
        """Return the instructions of all programs, numbered as in the trace."""
        return [each for graph in self.scenario.graphs for each in graph.instructions]

    def by_source(self) -> dict[str, dict[StallReason, float]]:
        """Return source line -> stall reason -> share of stall cycles."""
        instructions = self.instructions
        found: dict[str, dict[StallReason, float]] = {}
        for cause, rows, begin, end in self.waits:
            places, ticks = self.trace[rows, PLACE], (end - begin)[rows]
            by_place = np.bincount(places, weights=ticks, minlength=len(instructions))
            for place in np.flatnonzero(by_place):
                own = found.setdefault(instructions[place].label, {})
                own[cause] = own.get(cause, 0.0) + float(by_place[place])
        every = sum(sum(each.values()) for each in found.values()) or 1.0
        return {source: {cause: each / every for cause, each in own.items()} for source, own in found.items()}

    @cached_property
    def waits(self) -> tuple[tuple[StallReason, NDArray[np.bool_], Ticks, Ticks], ...]:
        """Return each stall reason with a mask of the issues that waited for it, and the start and end times."""
        return tuple(self._waits())

    def _waits(self) -> Iterator[tuple[StallReason, NDArray[np.bool_], Ticks, Ticks]]:
        trace, instructions = self.trace, self.instructions
        loads = _loads(self.launch)
        is_load = np.array([_identity(each) in loads for each in instructions], dtype=bool)
        shared = {name for name in self.scenario.subsystems if is_of_device(name, self.launch)}
        is_shared = np.array([each.subsystem in shared for each in instructions], dtype=bool)
        of_shared = is_shared[trace[:, PLACE]]
        of_memory = (trace[:, SOURCE] >= 0) & is_load[np.maximum(trace[:, SOURCE], 0)]
        for cause, start, until in stalls(trace):
            waited = until > start
            if cause == "dependency":
                yield "memory latency", waited & of_memory, start, until
                waited &= ~of_memory
            if cause == "pipeline busy":
                yield "memory bandwidth", waited & of_shared, start, until
                waited &= ~of_shared
            yield cause, waited, start, until

    def timeline(self) -> Timeline:
        """Return the timeline of some warps in the middle of the trace."""
        clock, trace = self.scenario.clock, self.trace
        tick = float(clock.cycles(1))
        last = int(trace[:, TIME].max()) if len(trace) else 0
        begin = max(0, (last - clock.ticks(WINDOW)) // 2)
        end = min(last, begin + clock.ticks(WINDOW))
        seen = trace[(trace[:, TIME] >= begin) & (trace[:, TIME] < end)]
        warps = sorted(set(seen[:, WARP].tolist()))[:WARPS]
        rows = {warp: row for row, warp in enumerate(warps)}
        issued: Iterable[tuple[int, int]] = zip(seen[:, WARP].tolist(), seen[:, TIME].tolist(), strict=True)
        issues = tuple((rows[warp], (time - begin) * tick) for warp, time in issued if warp in rows)
        pipelines, busy = self._busy(seen, begin, end, tick)
        waits = tuple(self._spans(rows, begin, end, tick))
        return Timeline((end - begin) * tick, tuple(warps), waits, issues, pipelines, busy)

    def _spans(self, rows: Mapping[int, int], begin: int, end: int, tick: float) -> Iterator[Span]:
        """Yield the stalls of the warps of *rows* between *begin* and *end*, in ticks."""
        for cause, waited, starts, ends in self.waits:
            seen = waited & (starts < end) & (ends > begin)
            numbers = self.trace[seen, WARP].tolist()
            for warp, since, until in zip(numbers, starts[seen].tolist(), ends[seen].tolist(), strict=True):
                if warp in rows:
                    yield Span(rows[warp], (max(since, begin) - begin) * tick, (min(until, end) - begin) * tick, cause)

    def _busy(self, seen: Ticks, begin: int, end: int, tick: float) -> tuple[tuple[str, ...], tuple[Span, ...]]:
        """Return the pipelines that the issues *seen* use, and their busy spans; each partition has its own row."""
        instructions, latencies = self.instructions, [each for found in self.scenario.latencies for each in found]
        places: list[int] = seen[:, PLACE].tolist()
        times: list[int] = seen[:, TIME].tolist()
        taken = {instructions[place].subsystem for place in places}
        shown = [name for name in self.scenario.subsystems if name in taken and _partition(name) == 0]
        rows = {name: row for row, name in enumerate(shown)}
        spans = [
            Span(
                rows[instructions[place].subsystem],
                (time - begin) * tick,
                min((time - begin) * tick + float(latencies[place].issue), (end - begin) * tick),
                instructions[place].label,
            )
            for place, time in zip(places, times, strict=True)
            if instructions[place].subsystem in rows
        ]
        return tuple(name.removesuffix(" 0") for name in rows), tuple(spans)


def _partition(pipeline: str) -> int:
    """Return the partition of the core that *pipeline* belongs to; 0 if there is only one."""
    number = pipeline.rpartition(" ")[2]
    return int(number) if number.isdigit() else 0


def _loads(launch: TimedLaunch) -> frozenset[tuple[str, str, int | None]]:
    """Return the identities of loads from beyond the core; parts of a load on several pipelines share one identity."""
    return frozenset(
        _identity(each)
        for _, program in launch.shared()
        for each in program.graph.instructions
        if each.kind == Opcode.LOAD and each.subsystem in OF_MEMORY
    )


def _identity(instruction: Instruction) -> tuple[str, str, int | None]:
    return instruction.source, instruction.text, instruction.origin
