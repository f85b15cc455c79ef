"""Trace the warps of a core, cycle by cycle, as a timeline for Perfetto: :func:`trace`."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Shown, Table, Tabular, plain
from loopyperf.errors import ParameterError
from loopyperf.files import write_file
from loopyperf.kernel import Program
from loopyperf.models.pipeline import Explicit, explicit_part
from loopyperf.models.result import Estimate
from loopyperf.models.timing import notes_of
from loopyperf.pipeline import Profile, execution_profile
from loopyperf.pipeline.profiling import Track, trace_document
from loopyperf.predict.estimate import shown_estimate
from loopyperf.predict.on_device import simulator_of
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case, one_size
from loopyperf.stages.compile import Compiler

EVENTS = 30_000
"""default maximum number of events, about ten megabytes"""
FEWEST = 100
"""minimum number of events per launch"""
GENERATOR = "loopyperf.trace"
"""name of the generator in the metadata of the trace"""
EVENTS_PER_ISSUE = 4
"""approximate number of events per issue: on its pipeline, of its warp, and for its stalls"""


@dataclass(frozen=True, repr=False)
class LaunchTrace(Shown):
    """The trace of a launch on the core with most groups, for the part that is simulated instruction by instruction."""

    name: str
    """name of the device program"""
    explicit: Explicit
    """simulated part of the run, in cycles"""
    total_groups: int
    """groups that the core executes in total"""
    times: int
    """number of identical executions of the launch"""
    clock: float
    """core clock, in Hz"""
    most: int
    """maximum number of events"""

    def __repr__(self) -> str:
        return f"<LaunchTrace of {self.name}: {self.explicit.groups:,} of {self.total_groups:,} groups>"

    def report_text(self) -> ReportText:
        """Return the busy and idle shares of each pipeline, and the stall reasons of warps."""
        found = self.profile.report_text()
        return replace(found, question=f"{self.name}, {found.question}", notes=self.summary)

    @cached_property
    def profile(self) -> Profile:
        """Return the execution profile: each issue with its warp, time, pipeline and stalls."""
        return execution_profile(self.explicit.simulation)

    @cached_property
    def track(self) -> Track:
        """Return the drawn part as a track."""
        return Track(self.profile, f"core of {self.name}", self.clock, self.most)

    @property
    def summary(self) -> tuple[str, ...]:
        """Return notes on the parts of the run that are not drawn; empty if all of it is drawn."""
        return tuple(self._summary())

    def _summary(self) -> Iterator[str]:
        explicit = self.explicit
        if explicit.groups < self.total_groups:
            yield (
                f"{self.name}: {explicit.groups:,} of the core's {self.total_groups:,} groups are simulated "
                "instruction by instruction; the others are extrapolated and not drawn"
            )
        if explicit.is_shortened:
            yield (
                f"{self.name}: loops have fewer iterations than in the kernel, so that the groups finish; the "
                "remaining iterations are extrapolated and not drawn"
            )
        drawn, issues = len(self.track.shown), len(self.profile.issues)
        if drawn < issues:
            yield (
                f"{self.name}: the first {drawn:,} of {issues:,} issued instructions are drawn, until cycle "
                f"{float(self.track.cycles):,.0f} of {float(self.profile.cycles):,.0f}; raise 'events' for more"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the drawn and simulated numbers as JSON-serializable values; times are in core cycles."""
        return {
            "launch": self.name,
            "times": self.times,
            "groups": self.explicit.groups,
            "groups_of_core": self.total_groups,
            "cycles": float(self.profile.cycles),
            "cycles_drawn": float(self.track.cycles),
            "instructions": len(self.profile.issues),
            "instructions_drawn": len(self.track.shown),
        }


@dataclass(frozen=True, repr=False)
class Trace(Tabular):
    """The traces of a kernel's launches on one core."""

    _ROWS = "launches"

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """parameter values by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    launches: tuple[LaunchTrace, ...]
    """launches in program order"""
    notes: tuple[str, ...]
    """parts that are not drawn, and assumed device parameters"""
    estimate: Estimate
    """run time of the kernel"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """the given typical iteration counts and condition shares, by name"""

    @cached_property
    def document(self) -> dict[str, Any]:
        """Return the trace in Chrome's trace event format, as JSON-serializable values."""
        return trace_document([launch.track for launch in self.launches], self._summary())

    @property
    def events(self) -> int:
        """Return the number of spans, without the names of tracks."""
        return sum(event["ph"] == "X" for event in self.document["traceEvents"])

    def _summary(self) -> dict[str, Any]:
        return {
            "generator": GENERATOR,
            "kernel": self.kernel,
            "sizes": plain(self.sizes),
            "typical": plain(self.typical),
            "device": self.device,
            "model": self.estimate.model,
            "seconds": float(self.estimate),
            "launches": [launch.to_dict() for launch in self.launches],
            "notes": list(self.notes),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the document to *path*, for ui.perfetto.dev; raises :class:`ParameterError` if writing fails."""
        write_file("the trace", path, json.dumps(self.document, ensure_ascii=False))

    def report_text(self) -> ReportText:
        """Return the drawn cycles, instructions and groups of each launch."""
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
            question=self.estimate.inputs,
            answer=f"{self.estimate.time_and_interval}; {self.events:,} events of the simulated core",
            tables=[Table(("launch", "simulated cycles", "instructions", "groups"), rows)],
            notes=self.notes,
            alone=f"{self.events:,}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of events, launches and notes, without the events."""
        return {"events": self.events, **self.document["otherData"]}


def trace(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    predictor: Predictor | None = None,
    events: int = EVENTS,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Trace:
    """Trace the warps of one core of *device* while it executes *program*, for display in Perfetto.

    The trace shows the core with most groups, as the simulator executes it: which warp issues which instruction, when,
    and what it waits for. It includes only groups and loop iterations that are simulated instruction by instruction,
    not those that the model extrapolates from them. The model gives only the run time beside the trace.

    Parameters
    ----------
    program : loopy.TranslationUnit
        Kernel or program.
    device : str, path or Device, optional
        Name, parameter file or loaded device. The default is the one that ``LOOPYPERF_DEVICE`` names, or else this
        machine's OpenCL device.
    model, fit, compiler
        As in :func:`loopyperf.estimate`.
    predictor : Predictor, optional
        A predictor (see :func:`loopyperf.predictor`) to use instead.
    events : int, optional
        Maximum number of spans, about four per issued instruction: on its pipeline, of its warp, and for its stalls.
        All launches share them, with at least 100 each.
    typical : mapping, optional
        Typical iteration counts of loops and shares of conditions that depend on data, by name.
    parameters : mapping, optional
        Sizes by name, for sizes that have the name of an option.
    **sizes : int
        Values of the kernel's integer parameters.

    Returns
    -------
    Trace
        Spans in microseconds, in Chrome's trace event format; ``save`` writes the file. The ``notes``, also in the
        file, list the parts that are not drawn.

    Raises
    ------
    ParameterError
        *events* is less than 100, or a size or an option is invalid.
    KernelError
        Loopy cannot prepare the kernel.
    UncountableError
        The kernel contains a construct without an exact count.
    UnknownDeviceError
        The device is unknown, or has no parameters.
    MissingNumberError
        The device lacks a parameter that the model needs.
    OccupancyError
        The groups are too large for the device.

    Examples
    --------
    >>> import loopy as lp, numpy as np, loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     name="doubled",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    >>> found = lpp.trace(knl, device="nvidia-titan-v", n=2**14, events=1000)
    >>> [launch.name for launch in found.launches]
    ['doubled']
    >>> 0 < found.events <= 1000
    True
    """
    if isinstance(events, bool) or not isinstance(events, int) or events < FEWEST:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ParameterError(f"events must be an integer >= {FEWEST}, got {events!r}")
    case = Case(program, one_size(parameters, sizes), typical)
    by, estimate = shown_estimate(case, predictor, device=device, model=model, fit=fit, compiler=compiler)
    simulator = simulator_of(by)
    kernel = simulator.timing(case)
    launches = kernel.launches
    clock = simulator.parameters.needed("clock")
    most = max(FEWEST, events // max(1, len(launches)))
    explicit = [explicit_part(launch, most // EVENTS_PER_ISSUE) for launch in launches]
    traces = tuple(
        LaunchTrace(launch.name, part, launch.execution.total_groups, launch.times, clock, most)
        for launch, part in zip(launches, explicit, strict=True)
    )
    summaries = [sentence for trace in traces for sentence in trace.summary]
    notes = dict.fromkeys([*summaries, *notes_of(kernel)])
    return Trace(kernel.kernel, dict(case.sizes), by.device, traces, tuple(notes), estimate, dict(typical or {}))
