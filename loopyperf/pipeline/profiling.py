"""The execution profile: every issue with the reasons for its delay, and how busy or idle each subsystem was.

An issue waits for one thing after another (:func:`~loopyperf.pipeline.simulator.stalls`), so each moment of a warp
between its start and its last issue has one cause. The cause of an idle subsystem is that of the warp that issues there
next.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, starmap
from typing import Any, Literal, get_args

import numpy as np

from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.display import ReportText, Shown, Table
from loopyperf.errors import SimulationError
from loopyperf.idg.program import Instruction
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import (
    PLACE,
    SOURCE,
    TIME,
    WARP,
    CoreRun,
    Simulation,
    Stall,
    executed,
    simulated,
    stalls,
)
from loopyperf.pipeline.timed_graph import TimedGraph
from loopyperf.units import in_percent, number_of

Cause = Literal[Stall, "group waits", "no group left"]
"""a stall of a warp; waiting for another group to end so that the next can start; no work left"""
CAUSES: tuple[Cause, ...] = get_args(Cause)
IDLE = "columns after 'busy': share of time idle, by stall reason"


@dataclass(frozen=True, slots=True)
class Wait:
    """A part of the time of a warp, in ticks."""

    begin: int
    """start tick"""
    end: int
    """end tick"""
    cause: Cause
    """stall reason"""


@dataclass(frozen=True, slots=True)
class Issue:
    """An issued instruction; times are in cycles."""

    warp: int
    """number of the warp, from 0"""
    group: int
    """number of the warp's group, from 0"""
    place: int
    """index in the graph of the warp"""
    instruction: Instruction
    """the issued instruction"""
    time: Fraction
    """cycle of issue"""
    free_again: Fraction
    """cycle at which the subsystem is free again, λ after issue"""
    complete: Fraction
    """cycle at which the result is available, Λ after issue (λ for a store)"""
    waits: tuple[Wait, ...]
    """consecutive waits from when the warp could issue, or reached a barrier, until the issue; in ticks"""
    waited_for: Instruction | None
    """source of the last operand that it waited for; None if it waited for none"""

    @property
    def why_not_earlier(self) -> Cause | None:
        """Return the last stall reason; None if it issued without delay."""
        return self.waits[-1].cause if self.waits else None


class Profile(Shown):
    """The execution profile of a core."""

    def __init__(self, scenario: Scenario, run: CoreRun) -> None:
        """Create the profile of a traced *run* of *scenario*."""
        self.scenario, self._run, self._clock = scenario, run, scenario.clock
        self._instructions = [instruction for graph in scenario.graphs for instruction in graph.instructions]
        self._places = [place for graph in scenario.graphs for place in range(len(graph.instructions))]
        latencies = [each for found in scenario.latencies for each in found]
        self._taken = [self._clock.ticks(latency.issue) for latency in latencies]
        self._completion = [self._clock.ticks(latency.completion) for latency in latencies]

    @property
    def cycles(self) -> Fraction:
        """Return the cycles until everything is complete."""
        return self._clock.cycles(self._run.finish)

    # {{{ issues

    @cached_property
    def issues(self) -> tuple[Issue, ...]:
        """Return all issues in order."""
        trace = self._run.trace
        waits: list[list[Wait]] = [[] for _ in trace]
        for cause, begin, end in stalls(trace):
            for row in np.flatnonzero(end > begin).tolist():
                waits[row].append(Wait(int(begin[row]), int(end[row]), cause))
        return tuple(map(self._issue, trace[:, [WARP, PLACE, TIME, SOURCE]].tolist(), waits))

    def _issue(self, row: list[int], waits: list[Wait]) -> Issue:
        warp, place, time, culprit = row
        return Issue(
            warp,
            warp // self.scenario.execution.warps_per_group,
            self._places[place],
            self._instructions[place],
            self._clock.cycles(time),
            self._clock.cycles(time + self._taken[place]),
            self._clock.cycles(time + self._completion[place]),
            tuple(waits),
            self._instructions[culprit] if culprit >= 0 else None,
        )

    # }}}

    # {{{ busy and idle times

    @cached_property
    def fill(self) -> Mapping[str, Fraction]:
        """Return subsystem -> share of the time in which it was busy."""
        return {name: 1 - sum(shares.values(), Fraction(0)) for name, shares in self.idle.items()}

    @cached_property
    def idle(self) -> Mapping[str, Mapping[Cause, Fraction]]:
        """Return subsystem -> cause -> share of time idle; with :attr:`fill`, the shares of a subsystem sum to 1."""
        gaps: dict[str, dict[Cause, int]] = {name: defaultdict(int) for name in self.scenario.subsystems}
        free = dict.fromkeys(self.scenario.subsystems, 0)
        for row, issue in zip(self._run.trace.tolist(), self.issues, strict=True):
            name, time = issue.instruction.subsystem, row[2]
            for begin, end, cause in self._causes(issue, free[name], time):
                gaps[name][cause] += end - begin
            free[name] = time + self._taken[row[1]]
        for name, moment in free.items():
            gaps[name]["no group left"] += max(0, self._run.finish - moment)
        total = max(1, self._run.finish)
        return {name: {cause: Fraction(found[cause], total) for cause in CAUSES} for name, found in gaps.items()}

    def _causes(self, issue: Issue, begin: int, end: int) -> Iterator[tuple[int, int, Cause]]:
        """Yield (start, end, cause) for the waits of *issue*, made at *end*, from *begin* on."""
        waits = self._of_warp[issue.warp]
        first = bisect_right(waits, begin, key=lambda wait: wait.end)
        for wait in (waits[at] for at in range(first, len(waits))):
            until = min(max(wait.begin, begin), end)
            if until > begin:
                yield begin, until, "group waits"
            begin = max(begin, until)
            if wait.begin >= end:
                return
            if min(wait.end, end) > begin:
                yield begin, min(wait.end, end), wait.cause
                begin = min(wait.end, end)
        if end > begin:
            yield begin, end, "group waits"

    @cached_property
    def _of_warp(self) -> Mapping[int, list[Wait]]:
        """Return warp -> its consecutive waits."""
        found: dict[int, list[Wait]] = defaultdict(list)
        for issue in self.issues:
            found[issue.warp] += issue.waits
        return found

    @cached_property
    def waiting(self) -> Mapping[Cause, Fraction]:
        """Return cause -> cycles that warps waited, summed over all warps."""
        found: dict[Cause, int] = defaultdict(int)
        for issue in self.issues:
            for wait in issue.waits:
                found[wait.cause] += wait.end - wait.begin
        return {cause: self._clock.cycles(found[cause]) for cause in CAUSES if found[cause]}

    def report_text(self) -> ReportText:
        """Return busy and idle shares of each subsystem, and the stall reasons of warps."""
        used = [name for name, share in self.fill.items() if share]
        causes: list[Cause] = [cause for cause in CAUSES if any(self.idle[name][cause] for name in used)]
        rows: list[tuple[str, ...]] = []
        for name in used:
            shares = (self.fill[name], *(self.idle[name][cause] for cause in causes))
            rows.append((name, *(in_percent(float(share)) for share in shares)))
        every = sum(self.waiting.values(), Fraction(0))
        waits: list[tuple[str, ...]] = [
            (cause, f"{float(cycles):,.0f}", in_percent(float(cycles / every)))
            for cause, cycles in sorted(self.waiting.items(), key=lambda each: -each[1])
        ]
        unused = [name for name in self.fill if name not in used]
        waited = [Table(("stall reason", "warp cycles", "share"), waits)] if waits else []
        execution = self.scenario.execution
        groups = f"{number_of(execution.total_groups, 'group')} of {number_of(execution.warps_per_group, 'warp')}"
        return ReportText(
            question=f"one core executing {groups}",
            answer=f"{number_of(round(self.cycles), 'cycle')}, {number_of(len(self.issues), 'instruction')}",
            tables=[Table(("pipeline", "busy", *causes), rows), *waited],
            remarks=[IDLE, *([f"never used: {', '.join(unused)}"] if unused else [])],
        )

    # }}}


def execution_profile(simulation: Simulation) -> Profile:
    """Return the execution profile of *simulation*, which is run again with a trace."""
    return Profile(simulation.scenario, executed(simulation.scenario, is_traced=True))


# {{{ what-if analysis
#
# A simulation is repeated with other latencies, bank conflicts or occupancy, and otherwise unchanged.


def what_if(
    simulation: Simulation,
    *,
    lambdas: Mapping[str, Lambdas] | None = None,
    rates: Mapping[str, float] | None = None,
    conflicts: Mapping[str, Cycles] | None = None,
    concurrent_groups: int | None = None,
) -> Simulation:
    """Return *simulation* repeated with the given changes.

    *lambdas* has new latencies by subsystem; *rates* has factors by which the throughput of a subsystem grows;
    *conflicts* has the number of further accesses (the conflict degree) that delays each instruction of a subsystem;
    *concurrent_groups* is the number of groups that reside on the core at once. Raises :class:`SimulationError` for a
    subsystem without instructions, and for a rate that is not above 0.
    """
    scenario = simulation.scenario
    programs = _changed(scenario, lambdas or {}, rates or {}, conflicts or {})
    execution = scenario.execution
    if concurrent_groups is not None:
        execution = replace(execution, concurrent_groups=concurrent_groups)
    return simulated(replace(scenario, programs=programs, execution=execution))


def _changed(
    scenario: Scenario, lambdas: Mapping[str, Lambdas], rates: Mapping[str, float], conflicts: Mapping[str, Cycles]
) -> tuple[TimedGraph, ...]:
    strangers = [name for name in (*lambdas, *rates, *conflicts) if name not in scenario.subsystems]
    if strangers:
        known = ", ".join(map(repr, scenario.subsystems))
        raise SimulationError(f"no instruction runs on {strangers[0]!r}; subsystems in use are {known}")
    for name, rate in rates.items():
        if not rate > 0:
            raise SimulationError(f"rates[{name!r}] must be above 0 (2 doubles the throughput), got {rate}")

    def changed(instruction: Instruction, known: Lambdas) -> Lambdas:
        name = instruction.subsystem
        found = lambdas.get(name, known)
        found = Lambdas(found.issue / rates[name], found.completion) if name in rates else found
        return found.with_conflicts(conflicts[name]) if name in conflicts else found

    return tuple(replace(program, lambdas=tuple(starmap(changed, program.issued))) for program in scenario.programs)


# }}}


# {{{ profiles in the trace format of Chrome, for Perfetto (ui.perfetto.dev) and ``chrome://tracing``


Event = dict[str, Any]
NANOSECONDS = 10**9
OF_A_CYCLE = 10**6
"""clock in Hz at which a cycle lasts one microsecond"""


@dataclass(frozen=True, slots=True)
class Track:
    """A core, or the first part of its run, in the trace format of Chrome.

    A core is shown as two processes. The first has a track for each warp. It shows each instruction from its issue
    until the next issue, with the waits in between; the last instruction lasts until everything that the warp issued is
    complete, so a warp's track has no gaps between its start and its end. The second process has a track for each
    pipeline, with the instructions that occupy it.

    Format: "Trace Event Format", JSON Object Format, complete events (``ph`` is ``X``) and metadata events (``M``).
    Times are in microseconds, rounded to whole nanoseconds because Perfetto truncates them anyway; exact cycles are in
    the arguments.
    """

    profile: Profile
    """profile of the core"""
    name: str = "core"
    """name of the core in the picture"""
    clock: float = OF_A_CYCLE
    """clock in Hz; by default a cycle is shown as a microsecond"""
    most: int | None = None
    """events, at most, in order of issue; None for all"""

    @property
    def shown(self) -> Sequence[Issue]:
        """Return the issues that are shown, in order."""
        issues = self.profile.issues
        if self.most is None:
            return issues
        left = self.most
        for place, issue in enumerate(issues):
            left -= 2 + len(issue.waits)
            if left < 0:
                return issues[:place]
        return issues

    @property
    def cycles(self) -> Fraction:
        """Return the cycle until which the run is shown; for a complete run, its length."""
        shown, issues = self.shown, self.profile.issues
        return self.profile.cycles if len(shown) == len(issues) else shown[-1].time if shown else Fraction(0)

    def events(self, number: int) -> Iterator[Event]:
        """Yield the events of core *number*, counted from 0."""
        warps, pipelines = 2 * number + 1, 2 * number + 2
        yield _process(pipelines, f"{self.name}: pipelines")
        tracks = {name: place for place, name in enumerate(self.profile.scenario.subsystems)}
        yield from (_thread(pipelines, place, name) for name, place in tracks.items())
        found: list[Event] = []
        for issue in self.shown:
            track = pipelines, tracks[issue.instruction.subsystem]
            found.append(self._event("issue", _words(issue), track, issue.time, issue.free_again, _details(issue)))
        yield _process(warps, f"{self.name}: warps")
        groups = {issue.warp: issue.group for issue in self.shown}
        yield from (_thread(warps, warp, f"warp {warp} of group {groups[warp]}") for warp in sorted(groups))
        found += self._of_warps(warps)
        # Outer events come before the events inside them.
        yield from sorted(found, key=lambda event: (event["pid"], event["tid"], event["ts"], -event["dur"]))

    def _of_warps(self, process: int) -> Iterator[Event]:
        of_warp: dict[int, list[Issue]] = {}
        for issue in self.profile.issues:
            of_warp.setdefault(issue.warp, []).append(issue)
        ends = {
            # everything that a warp issued is complete at its end
            number: iter([*(each.time for each in warp[1:]), max(each.complete for each in warp)])
            for number, warp in of_warp.items()
        }
        for issue in self.shown:
            track = (process, issue.warp)
            yield self._event("instruction", _words(issue), track, issue.time, next(ends[issue.warp]), _details(issue))
            details = {"before": _words(issue), "instruction": issue.place}
            for wait in issue.waits:
                begin, end = map(self.profile.scenario.clock.cycles, (wait.begin, wait.end))
                yield self._event("wait", wait.cause, track, begin, end, details)

    def _event(
        self, sort: str, name: str, track: tuple[int, int], begin: Fraction, end: Fraction, details: dict[str, Any]
    ) -> Event:
        first, last = (round(moment * NANOSECONDS / Fraction(self.clock)) for moment in (begin, end))
        cycles = {"cycle": float(begin), "cycles": float(end - begin)}
        where = {"pid": track[0], "tid": track[1], "ts": first / 1000, "dur": (last - first) / 1000}
        return {"ph": "X", "name": name, "cat": sort, **where, "args": {**cycles, **details}}


def trace_document(tracks: Sequence[Track], said: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the trace document of *tracks*, with the metadata *said*; equal inputs give equal documents."""
    events = list(chain.from_iterable(track.events(number) for number, track in enumerate(tracks)))
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": said or {}}


def chrome_trace(profile: Profile) -> str:
    """Return *profile* as a JSON document in which a cycle is a microsecond; equal profiles give equal documents."""
    return json.dumps(trace_document([Track(profile)]), ensure_ascii=False)


def _process(process: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}


def _thread(process: int, track: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": name}}


def _words(issue: Issue) -> str:
    return issue.instruction.text or f"{issue.instruction.kind} {issue.instruction.dtype}".strip()


def _details(issue: Issue) -> dict[str, Any]:
    instruction = issue.instruction
    found: dict[str, Any] = {"warp": issue.warp, "group": issue.group, "instruction": issue.place}
    found["kind"] = f"{instruction.kind} {instruction.dtype}".strip()
    found["pipeline"] = instruction.subsystem
    if instruction.source:
        found["source"] = instruction.source
    found["why not earlier"] = issue.why_not_earlier or "at once"
    if issue.waited_for is not None:
        found["waited for"] = issue.waited_for.text or issue.waited_for.kind
    return found


# }}}
