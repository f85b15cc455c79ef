"""Profiles in the trace format of Chrome, which Perfetto (ui.perfetto.dev) and ``chrome://tracing`` draw.

A cycle is drawn as a microsecond. One process has a track for each subsystem, with what it was taken by; the other one
a track for each warp, with what it waited for. The format: "Trace Event Format", complete events (``ph`` is ``X``).
"""

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from loopyperf.pipeline.profile import Issue, Profile

SUBSYSTEMS, WARPS = 1, 2
"""processes"""


def chrome_trace(profile: Profile) -> str:
    """Return *profile* as a JSON document; equal profiles give equal documents.

    In the order of dataflow instructions of a warp wait beside each other, so that warps have no tracks.
    """
    events = [*_names(profile), *_taken(profile)]
    if profile.scenario.issue_order == "in_order":
        events += _waits(profile)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, ensure_ascii=False)


def _names(profile: Profile) -> Iterator[dict[str, Any]]:
    for process, name in ((SUBSYSTEMS, "subsystems"), (WARPS, "warps")):
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    for number, name in enumerate(profile.scenario.subsystems):
        yield {"ph": "M", "name": "thread_name", "pid": SUBSYSTEMS, "tid": number, "args": {"name": name}}


def _taken(profile: Profile) -> Iterator[dict[str, Any]]:
    numbers = {name: number for number, name in enumerate(profile.scenario.subsystems)}
    for issue in profile.issues:
        span = _span(issue.time, issue.free_again)
        where = {"pid": SUBSYSTEMS, "tid": numbers[issue.instruction.subsystem]}
        yield {"ph": "X", "name": _words(issue), "cat": "issue", **where, **span, "args": _details(issue)}


def _waits(profile: Profile) -> Iterator[dict[str, Any]]:
    clock = profile.scenario.clock
    for issue in profile.issues:
        for wait in issue.waits:
            span = _span(clock.cycles(wait.begin), clock.cycles(wait.end))
            where = {"pid": WARPS, "tid": issue.warp}
            yield {"ph": "X", "name": wait.cause, "cat": "wait", **where, **span, "args": _details(issue)}


def _span(begin: Fraction, end: Fraction) -> dict[str, float]:
    return {"ts": float(begin), "dur": float(end - begin)}


def _words(issue: Issue) -> str:
    return issue.instruction.text or f"{issue.instruction.kind} {issue.instruction.dtype}".strip()


def _details(issue: Issue) -> dict[str, Any]:
    found: dict[str, Any] = {"warp": issue.warp, "group": issue.group, "instruction": issue.place}
    found["why not earlier"] = issue.why_not_earlier or "at once"
    if issue.waited_for is not None:
        found["waited for"] = issue.waited_for.text or issue.waited_for.kind
    return found
