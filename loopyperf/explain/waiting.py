"""What warps wait for: counted, and as a timeline, in the trace of a short part of the simulation.

An issue waits for one thing after the other: for its group at a barrier, for an operand, for its pipeline, for an issue
slot. What it waits for an operand is memory latency where a load from beyond the core computes that. What it waits for
a pipeline is memory bandwidth where that is a level of memory that all cores share: a GPU's warps issue such loads and
wait for their results, so that of Nsight Compute's stalls both are "long scoreboard".
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
from loopyperf.pipeline.core import ABLE, OPENED, PLACE, REASON, RESULT, SOURCE, TIME, VACATED, WARP
from loopyperf.pipeline.python_core import AT_BARRIER
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import executed
from loopyperf.pipeline.timed_program import TimedLaunch

ISSUES = 12_000
"""instructions that are traced to find what warps wait for"""
WINDOW = 400
"""cycles of a timeline"""
WARPS = 16
"""of a timeline, at most"""

Wait = Literal["pipeline busy", "memory bandwidth", "memory latency", "dependency", "barrier", "issue"]
"""for a pipeline of the core that others use; for a level of memory beyond the core that others use; for a load; for
another result; for other warps of the group; for an issue slot"""
WAITS: tuple[Wait, ...] = get_args(Wait)
BUSY: tuple[Wait, ...] = ("pipeline busy", "memory bandwidth")
"""what the utilization of pipelines and levels of memory shows already"""
OF_MEMORY = (MemorySpace.GLOBAL, MemorySpace.PRIVATE)


class Span(NamedTuple):
    """A part of a timeline, in cycles from its beginning."""

    row: int
    """which warp, or which pipeline"""
    begin: float
    """when it begins"""
    end: float
    """when it ends"""
    what: str
    """for what a warp waits; of a pipeline, the line of the source that keeps it busy"""


@dataclass(frozen=True, slots=True)
class Timeline:
    """What some warps of a core do in a few hundred cycles, from the middle of the part that is simulated."""

    cycles: float
    """how many are shown"""
    warps: tuple[int, ...]
    """their numbers on the core"""
    waits: tuple[Span, ...]
    """of these warps, in the order of :attr:`warps`"""
    issues: tuple[tuple[int, float], ...]
    """of these warps: which, and when"""
    pipelines: tuple[str, ...]
    """that are busy; of those that each partition of the core has, the first one"""
    busy: tuple[Span, ...]
    """of these pipelines, by all warps of the core"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """For what the warps of a core wait, in shares of all of their waiting, by the instruction that waits."""

    by_source: Mapping[str, Mapping[Wait, float]]
    """line of the source -> for what its instructions wait -> share"""
    timeline: Timeline
    """what some of these warps do in a few hundred cycles"""

    @property
    def total(self) -> dict[Wait, float]:
        """Return for what warps wait -> its share, the greatest first."""
        found = {cause: sum((each.get(cause, 0.0) for each in self.by_source.values()), 0.0) for cause in WAITS}
        order: list[Wait] = sorted(WAITS, key=lambda cause: -found[cause])
        return {cause: found[cause] for cause in order if found[cause]}


def waiting_of(launch: TimedLaunch) -> Waiting:
    """Return for what warps wait in the part of *launch* that is simulated instruction by instruction.

    Raises :class:`MissingNumberError` for a latency that the device's description lacks.
    """
    scenario = explicit_scenario(launch, ISSUES)
    traced = _Traced(launch, scenario, executed(scenario, is_traced=True).trace)
    return Waiting(traced.by_source(), traced.timeline())


@dataclass(frozen=True)
class _Traced:
    """The trace of a core: a row for each issue."""

    launch: TimedLaunch
    scenario: Scenario
    trace: NDArray[np.int64]

    @cached_property
    def instructions(self) -> list[Instruction]:
        """Return those of all programs, numbered as in the trace."""
        return [each for graph in self.scenario.graphs for each in graph.instructions]

    def by_source(self) -> dict[str, dict[Wait, float]]:
        """Return line of the source -> for what its instructions wait -> share of all waiting."""
        instructions = self.instructions
        found: dict[str, dict[Wait, float]] = {}
        for cause, rows, begin, end in self.waits():
            places, ticks = self.trace[rows, PLACE], (end - begin)[rows]
            by_place = np.bincount(places, weights=ticks, minlength=len(instructions))
            for place in np.flatnonzero(by_place):
                own = found.setdefault(instructions[place].label, {})
                own[cause] = own.get(cause, 0.0) + float(by_place[place])
        every = sum(sum(each.values()) for each in found.values()) or 1.0
        return {source: {cause: each / every for cause, each in own.items()} for source, own in found.items()}

    def waits(self) -> Iterator[tuple[Wait, NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]]:
        """Yield causes, each with the issues that waited for it, and from when to when, one after the other."""
        trace, instructions = self.trace, self.instructions
        loads = _loads(self.launch)
        is_load = np.array([_identity(each) in loads for each in instructions], dtype=bool)
        is_shared = np.array([is_of_device(each.subsystem, self.launch) for each in instructions], dtype=bool)
        of_shared = is_shared[trace[:, PLACE]]
        order = np.argsort(trace[:, WARP], kind="stable")
        before, is_first = np.zeros(len(trace), dtype=np.int64), np.ones(len(trace), dtype=bool)
        before[order[1:]] = trace[order[:-1], TIME]
        is_first[order[1:]] = trace[order[1:], WARP] != trace[order[:-1], WARP]
        moment = np.where((trace[:, REASON] == AT_BARRIER) & ~is_first, before, trace[:, ABLE])
        of_memory = (trace[:, SOURCE] >= 0) & is_load[np.maximum(trace[:, SOURCE], 0)]
        steps: tuple[tuple[int, Wait], ...] = (
            (ABLE, "barrier"), (RESULT, "dependency"), (VACATED, "pipeline busy"), (OPENED, "issue")
        )  # fmt: skip
        for column, cause in steps:
            until = np.maximum(moment, trace[:, column])
            waited = until > moment
            if cause == "dependency":
                yield "memory latency", waited & of_memory, moment, until
                waited &= ~of_memory
            if cause == "pipeline busy":
                yield "memory bandwidth", waited & of_shared, moment, until
                waited &= ~of_shared
            yield cause, waited, moment, until
            moment = until

    def timeline(self) -> Timeline:
        """Return what some warps do in the middle of the trace."""
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
        """Yield for what the warps of *rows* wait between *begin* and *end*, in ticks."""
        for cause, waited, moments, ends in self.waits():
            seen = waited & (moments < end) & (ends > begin)
            numbers = self.trace[seen, WARP].tolist()
            for warp, since, until in zip(numbers, moments[seen].tolist(), ends[seen].tolist(), strict=True):
                if warp in rows:
                    yield Span(rows[warp], (max(since, begin) - begin) * tick, (min(until, end) - begin) * tick, cause)

    def _busy(
        self, seen: NDArray[np.int64], begin: int, end: int, tick: float
    ) -> tuple[tuple[str, ...], tuple[Span, ...]]:
        """Return the pipelines that issues which are *seen* take, and when; parts of a pipeline are one row each."""
        instructions, latencies = self.instructions, [each for found in self.scenario.latencies for each in found]
        names = [name for name in self.scenario.subsystems if any(i.subsystem == name for i in instructions)]
        places: list[int] = seen[:, PLACE].tolist()
        times: list[int] = seen[:, TIME].tolist()
        taken = {instructions[place].subsystem for place in places}
        shown = [name for name in names if name in taken and _partition(name) == 0]
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
    """Return of which partition of the core *pipeline* is; 0 where there is one for all."""
    number = pipeline.rpartition(" ")[2]
    return int(number) if number.isdigit() else 0


def _loads(launch: TimedLaunch) -> frozenset[tuple[str, str, int | None]]:
    """Return the loads from beyond the core, each by what parts of it on several pipelines have in common."""
    return frozenset(
        _identity(each)
        for _, program in launch.shared()
        for each in program.graph.instructions
        if each.kind == Opcode.LOAD and each.subsystem in OF_MEMORY
    )


def _identity(instruction: Instruction) -> tuple[str, str, int | None]:
    return instruction.source, instruction.text, instruction.origin
