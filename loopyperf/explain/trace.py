"""What the warps of a core do, cycle by cycle, as a timeline that Perfetto draws: :func:`trace`."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Shown, Table, called, plain
from loopyperf.errors import ParameterError
from loopyperf.files import write_file
from loopyperf.kernel import Program
from loopyperf.models.pipeline import Explicit, explicit_part
from loopyperf.models.timing import notes_of
from loopyperf.pipeline import Profile, execution_profile
from loopyperf.pipeline.chrome_trace import OF_A_CYCLE, Track, trace_document
from loopyperf.pipeline.timed_program import TimedLaunch
from loopyperf.predict.estimate import given_or_named
from loopyperf.predict.on_device import SIMULATED
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case, merged_sizes
from loopyperf.stages.stages import timed_kernel

EVENTS = 30_000
"""of a trace, unless another number is asked for: some ten megabytes"""
FEWEST = 100
"""events that a launch is to have: with fewer there is nothing to see"""
GENERATOR = "loopyperf.trace"
"""is said in every trace of ours"""
EACH = 4
"""events that an issue has, about: on its pipeline, of its warp, and what that waits for"""


@dataclass(frozen=True, repr=False)
class LaunchTrace(Shown):
    """What the core with most groups does of a launch, as far as it is simulated instruction by instruction."""

    name: str
    """of the device program"""
    explicit: Explicit
    """the part of its run that is simulated, in cycles"""
    total_groups: int
    """of the core"""
    times: int
    """that the launch is executed, each as the other"""
    clock: float
    """cycles that are drawn as a second, in Hz: those of the core, or so many that one is drawn as a microsecond"""
    most: int
    """events"""

    def __repr__(self) -> str:
        return f"<LaunchTrace of {self.name}: {self.explicit.groups:,} of {self.total_groups:,} groups>"

    def report_text(self) -> ReportText:
        """Return how long each pipeline was taken, why it was idle, and for what warps waited."""
        found = self.profile.report_text()
        return replace(found, question=f"{self.name}, {found.question}", notes=self.summary)

    @cached_property
    def profile(self) -> Profile:
        """Return who issued what, when, where, and why not earlier."""
        return execution_profile(self.explicit.simulation)

    @cached_property
    def track(self) -> Track:
        """Return what is drawn of it."""
        return Track(self.profile, f"core of {self.name}", self.clock, self.most)

    @property
    def summary(self) -> tuple[str, ...]:
        """Return which part of the run is drawn, in sentences; nothing where all of it is."""
        return tuple(self._summary())

    def _summary(self) -> Iterator[str]:
        explicit = self.explicit
        if explicit.groups < self.total_groups:
            yield (
                f"{self.name}: {explicit.groups:,} of the {self.total_groups:,} groups of the core are simulated "
                "instruction by instruction; what the others take is extrapolated, and not drawn"
            )
        if explicit.is_shortened:
            yield (
                f"{self.name}: loops have fewer passes than the kernel's, so that groups come to their end; the others "
                "are extrapolated, and not drawn"
            )
        drawn, issues = len(self.track.shown), len(self.profile.issues)
        if drawn < issues:
            yield (
                f"{self.name}: of {issues:,} instructions the {drawn:,} that issue first are drawn, until cycle "
                f"{float(self.track.cycles):,.0f} of {float(self.profile.cycles):,.0f}; ask for more events to see more"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return what is drawn, as plain values that JSON can hold; times are in cycles of the core."""
        return {
            "launch": self.name,
            "times": self.times,
            "groups": self.explicit.groups,
            "groups of the core": self.total_groups,
            "cycles": float(self.profile.cycles),
            "cycles drawn": float(self.track.cycles),
            "instructions": len(self.profile.issues),
            "instructions drawn": len(self.track.shown),
        }


@dataclass(frozen=True, repr=False)
class Trace(Shown):
    """What a core does of each launch of a kernel."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    launches: tuple[LaunchTrace, ...]
    """one for each device program, in the order of the program"""
    notes: tuple[str, ...]
    """what is not drawn, and what the device's description leaves open, in sentences"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""

    @cached_property
    def document(self) -> dict[str, Any]:
        """Return the trace in Chrome's format, as plain values."""
        return trace_document([launch.track for launch in self.launches], self._summary())

    @property
    def events(self) -> int:
        """Return how many spans there are, names of tracks apart."""
        return sum(event["ph"] == "X" for event in self.document["traceEvents"])

    def _summary(self) -> dict[str, Any]:
        return {
            "generator": GENERATOR,
            "kernel": self.kernel,
            "sizes": plain(self.sizes),
            "typical": plain(self.typical),
            "device": self.device,
            "model": SIMULATED,
            "launches": [launch.to_dict() for launch in self.launches],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """Return the document, for a file that ui.perfetto.dev opens."""
        return json.dumps(self.document, ensure_ascii=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the document to *path*; raises :class:`ParameterError` where that cannot be written."""
        write_file("the trace", path, self.to_json())

    def report_text(self) -> ReportText:
        """Return what is drawn of each launch, and what is not."""
        rows = [
            (
                launch.name,
                f"{float(launch.track.cycles):,.0f}",
                f"{len(launch.track.shown):,}",
                f"{launch.explicit.groups:,}",
            )
            for launch in self.launches
        ]
        return ReportText(
            question=f"{called(self.kernel, self.sizes, self.typical)} on a core of {self.device}, model {SIMULATED}",
            answer=f"{self.events:,} events",
            tables=[Table(("launch", "cycles", "instructions", "groups"), rows)],
            notes=self.notes,
        )


def trace(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    predictor: Predictor | None = None,
    events: int = EVENTS,
    in_cycles: bool = False,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Trace:
    """Return what the warps of a core of *device* do when it executes *program*, in microseconds, for Perfetto to draw.

    It is what the model ``"pipeline"`` simulates of the core with most groups: which warp issues which instruction,
    when, and what it waits for. *predictor*, one of that model, takes the place of *device* (see
    :func:`loopyperf.predictor`). Only the groups that are simulated instruction by instruction are drawn, not what the
    model extrapolates from them to all groups and to further passes of long loops. What is left out is in the
    ``notes``, and in the file.

    *events* is the number of spans that are drawn at most, some four for each issued instruction: on its pipeline, of
    its warp, and what that waits for. All launches share them, and each has at least 100. Times are those of the core's
    clock; with *in_cycles* a cycle is drawn as a microsecond, so that none is too short to be seen. Sizes are single
    integers; other options are those of :func:`loopyperf.estimate` with a model of a device.

    Raises :class:`ParameterError` for fewer than 100 events and for a predictor of another model; and it,
    :class:`KernelError`, :class:`UncountableError`, :class:`UnknownDeviceError`, :class:`MissingNumberError` and
    :class:`OccupancyError` as :func:`loopyperf.estimate` does.
    """
    if isinstance(events, bool) or not isinstance(events, int) or events < FEWEST:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ParameterError(f"events must be {FEWEST} or more; received {events!r}")
    described, merged = _simulated(predictor, device), merged_sizes(parameters, sizes)
    kernel = timed_kernel(Case(program, merged, typical), described)
    launches = kernel.launches
    clock = float(OF_A_CYCLE) if in_cycles else described.needed("clock")
    most = max(FEWEST, events // max(1, len(launches)))
    traces = tuple(_traced(launch, most, clock) for launch in launches)
    said = [sentence for each in traces for sentence in each.summary]
    notes = dict.fromkeys([*said, *notes_of(kernel)])
    return Trace(kernel.kernel, dict(merged), described.slug, traces, tuple(notes), dict(typical or {}))


def _simulated(given: Predictor | None, device: DeviceChoice | None) -> Device:
    """Return the device that the predictor simulates which is *given*, or else the one for *device*."""
    bound = given_or_named(given, device=device, model=None if given else SIMULATED)
    parameters = bound.device_parameters
    if bound.model != SIMULATED or parameters is None:
        raise ParameterError(f"only {SIMULATED!r} simulates what a trace has; received a predictor of {bound.model!r}")
    return parameters


def _traced(launch: TimedLaunch, most: int, clock: float) -> LaunchTrace:
    explicit = explicit_part(launch, most // EACH)
    return LaunchTrace(launch.name, explicit, launch.execution.total_groups, launch.times, clock, most)
