"""The execution profile: every issue with the reasons for its delay, and how busy or idle each subsystem was.

An issue waits for one thing after another (:func:`loopyperf.pipeline.core.stalls`), so each moment of a warp between
its start and its last issue has one cause. The cause of an idle subsystem is that of the warp that issues there next.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import starmap
from typing import Literal, get_args

import numpy as np

from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.display import ReportText, Shown, Table
from loopyperf.errors import SimulationError
from loopyperf.idg.program import Instruction
from loopyperf.pipeline.core import PLACE, SOURCE, TIME, WARP, CoreRun, Stall, stalls
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import Simulation, executed, simulated
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
        self._instructions = [each for graph in scenario.graphs for each in graph.instructions]
        self._places = [place for graph in scenario.graphs for place in range(len(graph.instructions))]
        latencies = [each for found in scenario.latencies for each in found]
        self._taken = [self._clock.ticks(each.issue) for each in latencies]
        self._completion = [self._clock.ticks(each.completion) for each in latencies]

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

    return tuple(replace(each, lambdas=tuple(starmap(changed, each.issued))) for each in scenario.programs)


# }}}
