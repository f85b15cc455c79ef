"""Profiles of applications in the formats of other tools: speedscope, and Chrome's trace format for Perfetto."""

from collections import defaultdict
from typing import Any

from loopyperf.applications.application import ApplicationProfile

Stack = tuple[tuple[str, str, int], ...]
"""(function, file, line) of each call, the outermost first; the last one is the kernel"""


def stacks(profile: ApplicationProfile, place: int) -> dict[Stack, float]:
    """Return call chain with its kernel -> predicted seconds on the device number *place*."""
    found: dict[Stack, float] = defaultdict(float)
    for item, site, *_ in profile.record.events:
        seconds = profile.seconds_of(item, place)
        if seconds is not None:
            frames = profile.record.sites[site].frames if site >= 0 else []
            found[(*frames, (profile.record.items[item].name, "", 0))] += seconds
    return dict(found)


def speedscope(profile: ApplicationProfile) -> dict[str, Any]:
    """Return the predicted times by call chain, one profile per device, as https://www.speedscope.app reads them."""
    numbers: dict[tuple[str, str, int], int] = {}
    profiles: list[dict[str, Any]] = []
    for place, device in enumerate(profile.devices):
        weighted = stacks(profile, place)
        samples = [[numbers.setdefault(frame, len(numbers)) for frame in stack] for stack in weighted]
        weights = list(weighted.values())
        profiles.append(
            {
                "type": "sampled", "name": device, "unit": "seconds", "startValue": 0, "endValue": sum(weights),
                "samples": samples, "weights": weights,
            }
        )  # fmt: skip
    frames = [{"name": name, "file": path, "line": line} if path else {"name": name} for name, path, line in numbers]
    schema = "https://www.speedscope.app/file-format-schema.json"
    return {"$schema": schema, "name": profile.name, "shared": {"frames": frames}, "profiles": profiles}


def chrome_trace(profile: ApplicationProfile) -> dict[str, Any]:
    """Return the launches and transfers one after another, one row for each device, in Chrome's trace format."""
    events: list[dict[str, Any]] = []
    for place, device in enumerate(profile.devices):
        events.append({"ph": "M", "name": "process_name", "pid": place, "args": {"name": device}})
        clock = 0.0
        for item, *_ in sorted(profile.record.events, key=lambda event: event[2]):
            seconds = profile.seconds_of(item, place)
            if seconds is None:
                continue
            described = profile.record.items[item]
            events.append(
                {
                    "ph": "X", "name": described.name, "cat": described.work, "pid": place, "tid": 0,
                    "ts": clock * 1e6, "dur": seconds * 1e6, "args": dict(described.sizes),
                }
            )  # fmt: skip
            clock += seconds
    return {"traceEvents": events, "displayTimeUnit": "ns"}
