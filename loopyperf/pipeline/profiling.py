"""The execution profile: who issued what, when, where, and why not earlier; how full each subsystem was, and why idle.

An issue waits for one thing after the other: until its warp was able to issue at all (the warp issues in order, is held
by a barrier, or begins), until its operands are complete, until its subsystem is free, until the issue limit allows it.
Each moment of a warp between its begin and its last issue so has one cause. A subsystem that is idle is so for the
cause of the warp that will issue there next.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import starmap
from typing import Literal, get_args

from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.display import ReportText, Shown, Table
from loopyperf.errors import SimulationError
from loopyperf.idg.program import Instruction
from loopyperf.pipeline.core import CoreRun
from loopyperf.pipeline.python_core import AT_BARRIER
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import Simulation, executed, simulated
from loopyperf.pipeline.timed_graph import TimedGraph
from loopyperf.units import in_percent, number_of

Cause = Literal["dependency", "subsystem busy", "issue limit", "barrier", "group waits", "no group left"]
"""waiting for an operand; for a subsystem that others use; for the issue limit; for a barrier; for another group to
end, so that this one may begin; nothing is left to do"""
CAUSES: tuple[Cause, ...] = get_args(Cause)
IDLE = "beside the share of the time in which a pipeline is busy: that in which it is idle, by what is waited for"


@dataclass(frozen=True, slots=True)
class Wait:
    """A part of the time of a warp, in ticks."""

    begin: int
    """tick"""
    end: int
    """tick"""
    cause: Cause
    """what it waited for"""


@dataclass(frozen=True, slots=True)
class Issue:
    """An instruction that was issued; times are cycles."""

    warp: int
    """its number, from 0"""
    group: int
    """that the warp is of, from 0"""
    place: int
    """in the graph of the warp"""
    instruction: Instruction
    """what was issued"""
    time: Fraction
    """when"""
    free_again: Fraction
    """λ later: when its subsystem is"""
    complete: Fraction
    """Λ later, of a store λ: when what it computes is there"""
    waits: tuple[Wait, ...]
    """for what it waited since its warp was able to issue, or held, one after the other, in ticks"""
    waited_for: Instruction | None
    """the source of the last operand that it waited for; None if it waited for none"""

    @property
    def why_not_earlier(self) -> Cause | None:
        """Return what it waited for last; None where it issued at once."""
        return self.waits[-1].cause if self.waits else None


class Profile(Shown):
    """What a core did."""

    def __init__(self, scenario: Scenario, run: CoreRun) -> None:
        """Take what was executed, and the trace."""
        self.scenario, self._run, self._clock = scenario, run, scenario.clock
        self._instructions = [each for graph in scenario.graphs for each in graph.instructions]
        self._places = [place for graph in scenario.graphs for place in range(len(graph.instructions))]
        latencies = [each for found in scenario.latencies for each in found]
        self._taken = [self._clock.ticks(each.issue) for each in latencies]
        self._completion = [self._clock.ticks(each.completion) for each in latencies]

    @property
    def cycles(self) -> Fraction:
        """Return the cycles until all is complete."""
        return self._clock.cycles(self._run.finish)

    # {{{ issues

    @cached_property
    def issues(self) -> tuple[Issue, ...]:
        """Return all issues in their order."""
        last: dict[int, int] = {}
        return tuple(self._issue(row, last) for row in self._run.trace.tolist())

    def _issue(self, row: list[int], last: dict[int, int]) -> Issue:
        warp, place, time, able, reason, result, culprit, free, opened = row
        waits: list[Wait] = []
        moment = last.get(warp, able) if reason == AT_BARRIER else able
        held: list[tuple[int, Cause]] = [(able, "barrier"), (result, "dependency")]
        delayed: list[tuple[int, Cause]] = [(free, "subsystem busy"), (opened, "issue limit")]
        for until, cause in (*held, *delayed):
            if until > moment:
                waits.append(Wait(moment, until, cause))
                moment = until
        last[warp] = time
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

    # {{{ how full, and why idle

    @cached_property
    def fill(self) -> Mapping[str, Fraction]:
        """Return for each subsystem the share of the time in which it was taken."""
        return {name: 1 - sum(shares.values(), Fraction(0)) for name, shares in self.idle.items()}

    @cached_property
    def idle(self) -> Mapping[str, Mapping[Cause, Fraction]]:
        """Return for each subsystem which share of the time it was idle for which cause; with its fill they are 1."""
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
        """Yield the parts of the time from *begin* to *end* with what *issue*, made at the end, waited for in each."""
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
        """Return for each warp what it waited for, one after the other."""
        found: dict[int, list[Wait]] = defaultdict(list)
        for issue in self.issues:
            found[issue.warp] += issue.waits
        return found

    @cached_property
    def waiting(self) -> Mapping[Cause, Fraction]:
        """Return for how many cycles warps waited for each cause, all of them together, until they issued."""
        found: dict[Cause, int] = defaultdict(int)
        for issue in self.issues:
            for wait in issue.waits:
                found[wait.cause] += wait.end - wait.begin
        return {cause: self._clock.cycles(found[cause]) for cause in CAUSES if found[cause]}

    def report_text(self) -> ReportText:
        """Return for each subsystem how long it was busy, and idle for which cause; and for what warps waited."""
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
        waited = [Table(("warps waited for", "warp cycles", "share"), waits)] if waits else []
        execution = self.scenario.execution
        groups = f"{number_of(execution.total_groups, 'group')} of {number_of(execution.warps_per_group, 'warp')}"
        return ReportText(
            question=f"a core that executes {groups}",
            answer=f"{number_of(round(self.cycles), 'cycle')}, {number_of(len(self.issues), 'instruction')}",
            tables=[Table(("pipeline", "busy", *causes), rows), *waited],
            remarks=[IDLE, *([f"never used: {', '.join(unused)}"] if unused else [])],
        )

    # }}}


def execution_profile(simulation: Simulation) -> Profile:
    """Return what the core of *simulation* did: it is run once more, and each issue noted."""
    return Profile(simulation.scenario, executed(simulation.scenario, is_traced=True))


# {{{ what would be if
#
# A simulation once more with other latencies, bank conflicts or occupancy, all else as it was.


def what_if(
    simulation: Simulation,
    *,
    lambdas: Mapping[str, Lambdas] | None = None,
    rates: Mapping[str, float] | None = None,
    conflicts: Mapping[str, Cycles] | None = None,
    concurrent_groups: int | None = None,
) -> Simulation:
    """Return *simulation* with what is given changed.

    *lambdas* are latencies by subsystem, *rates* how many times as many instructions a subsystem takes in a cycle,
    *conflicts* by how many further accesses those of a subsystem are each delayed (their conflict degree),
    *concurrent_groups* the groups that reside on the core at once. Raises :class:`SimulationError` for a subsystem on
    which nothing runs, and for a rate that is not above 0.
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
        raise SimulationError(f"nothing runs on {strangers[0]!r}, so that changing it changes nothing: name {known}")
    for name, rate in rates.items():
        if not rate > 0:
            raise SimulationError(f"the rate of {name!r} is {rate}: it is to be above 0, 2 for twice as many a cycle")

    def changed(instruction: Instruction, known: Lambdas) -> Lambdas:
        name = instruction.subsystem
        found = lambdas.get(name, known)
        found = Lambdas(found.issue / rates[name], found.completion) if name in rates else found
        return found.with_conflicts(conflicts[name]) if name in conflicts else found

    return tuple(replace(each, lambdas=tuple(starmap(changed, each.issued))) for each in scenario.programs)


# }}}
