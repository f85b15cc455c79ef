"""A checker for traces: the rules of Chrome's "Trace Event Format" for our events, and Perfetto's rule for nesting.

Traces use the JSON Object Format with complete events (``X``) and metadata events (``M``); the keys are those of the
document "Trace Event Format" of the Chromium project. Perfetto draws only spans of a track that are nested or disjoint.
"""

from collections import defaultdict
from typing import Any

import jsonschema

TRACK = {"pid": {"type": "integer", "minimum": 0}, "tid": {"type": "integer", "minimum": 0}}
COMPLETE = {
    "type": "object",
    "properties": {
        **TRACK,
        "ph": {"const": "X"},
        "name": {"type": "string", "minLength": 1},
        "cat": {"type": "string", "minLength": 1},
        "ts": {"type": "number", "minimum": 0},
        "dur": {"type": "number", "minimum": 0},
        "args": {"type": "object", "required": ["cycle", "cycles"]},
    },
    "required": ["ph", "name", "cat", "ts", "dur", "pid", "tid", "args"],
    "additionalProperties": False,
}
NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"]}
OF_PROCESS = {
    "type": "object",
    "properties": {"pid": TRACK["pid"], "ph": {"const": "M"}, "name": {"const": "process_name"}, "args": NAME},
    "required": ["ph", "name", "pid", "args"],
    "additionalProperties": False,
}
OF_THREAD = {
    "type": "object",
    "properties": {**TRACK, "ph": {"const": "M"}, "name": {"const": "thread_name"}, "args": NAME},
    "required": ["ph", "name", "pid", "tid", "args"],
    "additionalProperties": False,
}
DOCUMENT = {
    "type": "object",
    "properties": {
        "traceEvents": {"type": "array", "items": {"oneOf": [COMPLETE, OF_PROCESS, OF_THREAD]}},
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
    },
    "required": ["traceEvents"],
    "additionalProperties": False,
}
Event = dict[str, Any]


def check(document: dict[str, Any]) -> None:
    """Assert that *document* follows the rules."""
    jsonschema.validate(document, DOCUMENT)
    events = document["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    named = {(event["name"], event["pid"], event.get("tid")) for event in events if event["ph"] == "M"}
    assert {("process_name", each["pid"], None) for each in spans} <= named
    assert {("thread_name", each["pid"], each["tid"]) for each in spans} <= named
    for track in tracks(document).values():
        check_nested(track)


def tracks(document: dict[str, Any]) -> dict[tuple[str, str], list[Event]]:
    """Return the spans of each track in file order, by the names of the process and the track."""
    names = {
        (each["pid"], each.get("tid")): each["args"]["name"] for each in document["traceEvents"] if each["ph"] == "M"
    }
    found: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            found[names[event["pid"], None], names[event["pid"], event["tid"]]].append(event)
    return found


def check_nested(track: list[Event]) -> None:
    """Assert that spans of a track do not partly overlap, and that outer spans precede inner ones."""
    open_until: list[int] = []
    before = 0
    for start, end in map(nanoseconds, track):
        assert start >= before
        before = start
        while open_until and open_until[-1] <= start and not (start == end == open_until[-1]):
            open_until.pop()
        assert not open_until or end <= open_until[-1]
        open_until.append(end)


def nanoseconds(event: Event) -> tuple[int, int]:
    """Return start and end of *event*; assert that both are whole nanoseconds."""
    start, length = (round(1000 * event[key]) for key in ("ts", "dur"))
    assert (start / 1000, length / 1000) == (event["ts"], event["dur"])
    return start, start + length
