"""Profiles in the trace format of Chrome, for Perfetto (ui.perfetto.dev) and ``chrome://tracing``.

A core is shown as two processes. The first has a track for each warp. It shows each instruction from its issue until
the next issue, with the waits in between; the last instruction lasts until everything that the warp issued is complete,
so a warp's track has no gaps between its start and its end. The second process has a track for each pipeline, with the
instructions that occupy it.

Format: "Trace Event Format", JSON Object Format, complete events (``ph`` is ``X``) and metadata events (``M``). Times
are in microseconds, rounded to whole nanoseconds because Perfetto truncates them anyway; exact cycles are in the
arguments.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

from loopyperf.pipeline.profiling import Issue, Profile

Event = dict[str, Any]
NANOSECONDS = 10**9
OF_A_CYCLE = 10**6
"""clock in Hz at which a cycle lasts one microsecond"""


@dataclass(frozen=True, slots=True)
class Track:
    """A core, or the first part of its run, to be shown."""

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
