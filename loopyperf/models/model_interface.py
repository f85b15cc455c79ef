"""Interface of the models: a name, the inputs that a model needs, and its result, a time with a breakdown."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from loopyperf.device.parts import Substitute
from loopyperf.device.substitutes import completed
from loopyperf.device.vocabulary import ISSUE
from loopyperf.display import Note, NoteKind
from loopyperf.idg.program import Opcode
from loopyperf.models.demand import cached_for_launch
from loopyperf.models.result import BreakdownRow, ModelTime
from loopyperf.models.timing import notes_of
from loopyperf.models.workload import LATENCY, LAUNCHES, START, Aspect
from loopyperf.pipeline.timed_program import TimedLaunch, TimedProgram
from loopyperf.units import duration, in_percent

# {{{ from the cycles of each launch to the time and breakdown of the kernel


Rows = Callable[[TimedLaunch], Iterable[BreakdownRow]]
"""Breakdown rows of a launch, in seconds, over all its executions."""
Notes = Callable[[TimedLaunch], Iterable[str]]
"""Notes on what a model assumes about a launch."""
NOTED_SHARE = 0.5
"""Share of the time above which assumed parameters trigger a note with the lower bound from known parameters."""


def kernel_time(kernel: TimedProgram, rows_of: Rows, rows_notes: Notes, sees: Collection[Aspect]) -> ModelTime:
    """Return the run time of *kernel* in seconds: the device time of its launches, one after the other.

    A launch takes its execution and the launch overhead, a sum and not a maximum: on an H200, launches of an empty
    kernel (execution 0.22 µs) follow each other in 1.37 µs, and those of a kernel with an execution of 0.58 µs in 1.68
    to 1.78 µs (``fits/nvidia-h200/raw/calibration.jsonl.xz``, ``empty kernel`` and ``several launches``).

    *rows_of* returns the breakdown rows of a launch, *rows_notes* the model's own notes on it. Assumed latencies are
    noted only if the model *sees* them.

    :raises MissingNumberError: if the model needs a latency that the device parameters lack.
    """
    device = completed(kernel.device)
    rows: list[BreakdownRow] = []
    notes = list(notes_of(kernel, sees))
    assumed = stated = 0.0
    for launch in kernel.launches:
        own = list(rows_of(launch))
        rows += own
        notes += rows_notes(launch)
        if launch.substitutions:
            shares = cached_for_launch(launch, AssumedShares.of)
            assumed, stated = assumed + shares.seconds(own), stated + shares.stated
    overhead, source = device.launch_overhead, device.source("launch_overhead")
    is_assumed = source is None or isinstance(source, Substitute)
    if is_assumed:
        value = "0" if source is None else f"{duration(source.value)}, {source.source}"
        sentence = f"launch overhead of {device.slug} is unknown; assumed {value}"
        notes.append(Note(NoteKind.LAUNCH_OVERHEAD, sentence))
    if overhead is not None:
        for name, times in kernel.launched:
            rows.append(BreakdownRow(LAUNCHES, f"launch of {name}", times, overhead, times * overhead))
        cost = overhead * sum(times for _, times in kernel.launched)
        assumed, stated = (assumed + cost, stated) if is_assumed else (assumed, stated + cost)
    left_out = dict.fromkeys(each for launch in kernel.launches for each in launch.unknown_collisions)
    found = ModelTime.of(rows, left_out=tuple(left_out), columns="core")
    notes = [*_lower_bound(float(found.seconds), assumed, stated), *notes]
    return replace(found, notes=tuple(dict.fromkeys(notes)))


def busiest_and_rest(launch: TimedLaunch, cycles: float) -> Iterator[BreakdownRow]:
    """Yield the cost of a launch of *cycles* cycles: each instruction on the busiest pipeline, then the latency.

    The latency row is the remaining time, in which warps wait for results.
    """
    clock, times, name = launch.device.needed("clock"), launch.times, launch.name
    seconds = times * cycles / clock
    busy = busy_cycles(launch)
    totals = {pipeline: sum(each * number for (_, each), number in costs.items()) for pipeline, costs in busy.items()}
    busiest = max(totals, key=lambda pipeline: totals[pipeline])
    # Scale down where the busiest pipeline exceeds the time: extrapolation from some groups to all may fall slightly
    # short, and some models ignore part of the throughput limits.
    scale = min(1.0, seconds * clock / totals[busiest])
    for (source, each), number in busy[busiest].items():
        yield BreakdownRow(busiest, source, number, each / clock, scale * each * number / clock)
    rest = seconds - totals[busiest] / clock
    if rest > 0:
        yield BreakdownRow(LATENCY, f"launch of {name}", times, rest / times, rest)


def busy_cycles(launch: TimedLaunch) -> dict[str, dict[tuple[str, float], float]]:
    """Return pipeline -> (source, λ in cycles) -> executions on the core with most groups."""
    busy: dict[str, dict[tuple[str, float], float]] = {}
    warps = launch.warps_of_core
    for executions, instruction, times in launch.executed():
        for time in times:
            costs = busy.setdefault(time.pipeline, {})
            key = (instruction.source or instruction.kind, float(time.issue))
            costs[key] = costs.get(key, 0.0) + executions * warps
    if launch.start is not None:
        busy[START] = {("start of a group", float(launch.start.issue)): warps}
    return busy


# {{{ share of the time that rests on assumed parameters


@dataclass(frozen=True, slots=True)
class AssumedShares:
    """Shares of a launch's time that rest on assumed device parameters."""

    busy: Mapping[str, float]
    """Pipeline -> assumed share of its busy cycles."""
    waiting: float
    """Assumed share of the latencies, summed over all instructions."""
    stated: float
    """Busy time of the pipeline that is busiest by known parameters, over all executions, in seconds."""

    @classmethod
    def of(cls, launch: TimedLaunch) -> "AssumedShares":
        """Return the shares of *launch*."""
        every: dict[str, float] = {}
        assumed: dict[str, float] = {}
        waited = guessed = 0.0
        for executions, instruction, times in launch.executed():
            for time in times:
                cycles = executions * float(time.issue)
                every[time.pipeline] = every.get(time.pipeline, 0.0) + cycles
                if time.is_issue_assumed:
                    assumed[time.pipeline] = assumed.get(time.pipeline, 0.0) + cycles
            latency = times[0].latency if times else 0.0
            if instruction.kind != Opcode.STORE and latency is not None:
                waited += executions * float(latency)
                guessed += executions * float(latency) * times[0].assumed_latency if times else 0.0
        longest = max((cycles - assumed.get(name, 0.0) for name, cycles in every.items()), default=0.0)
        return cls(
            {name: assumed.get(name, 0.0) / cycles if cycles else 0.0 for name, cycles in every.items()},
            guessed / waited if waited else 0.0,
            longest * launch.warps_of_core / launch.device.needed("clock"),
        )

    def seconds(self, rows: Iterable[BreakdownRow]) -> float:
        """Return the part of *rows*, in seconds, that rests on assumed parameters; unlisted rows count as latency."""
        parts = {START: 0.0, ISSUE: 0.0, **self.busy}
        return sum(float(row.seconds) * parts.get(row.property, self.waiting) for row in rows)


def _lower_bound(seconds: float, assumed: float, stated: float) -> Iterator[str]:
    """Yield the lower bound from known parameters if *assumed* exceeds :data:`NOTED_SHARE` of *seconds*."""
    if assumed > NOTED_SHARE * seconds:
        share = f"{in_percent(assumed / seconds)} of the time is computed from assumed device parameters"
        yield f"{share}; by the published ones alone, it is at least {duration(stated)}"


# }}}


# }}}


# {{{ interface


Need = Literal["fit", "device", "samples"]

Weights = Mapping[str, float]
"""Property -> seconds per unit."""

Basis = Literal["counts", "pipelines"]
"""Input of a fitted model: property counts, or busy times of the device's pipelines."""

Count = int | float | NDArray[np.int64] | NDArray[np.float64]
"""Exact integer, or an array over sizes (of floats if a count exceeds 63 bits); seconds for pipelines."""

Shares = Mapping[str, Mapping[str, Count]]
"""Property -> source -> count."""


class Fitted(Protocol):
    """What a fitted model needs from a :class:`loopyperf.calibration.fits.Fit`."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    @property
    def weights(self) -> Weights:
        """Seconds per unit of each column; for pipelines, seconds per second of modeled busy time."""
        ...

    @property
    def sharpness(self) -> float:
        """Exponent p of the overlap model; other models ignore it."""
        ...

    @property
    def basis(self) -> Basis:
        """Meaning of the columns."""
        ...


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A model that converts counts into time with weights fitted to measurements on the device."""

    name: str
    summary: str
    """What it assumes, in one line."""
    time: Callable[[Fitted, Shares], ModelTime]
    is_weighted_sum: bool = False
    """Whether the time is exactly the sum of weights times counts."""
    needs: frozenset[Need] = frozenset({"fit"})
    """Inputs that the model needs besides the kernel."""


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A model that converts the machine graphs of a kernel into time with device parameters."""

    name: str
    summary: str
    """What it assumes, in one line."""
    rows: Rows
    """Costs of a launch."""
    sees: frozenset[Aspect]
    """Effects that it models (Lemeire, Table 7)."""
    notes: Notes = lambda _: ()
    """Notes on what it assumes about a launch."""
    needs: frozenset[Need] = frozenset({"device"})
    """Inputs that the model needs besides the kernel."""

    def time(self, kernel: TimedProgram) -> ModelTime:
        """Return the run time of *kernel*, in seconds, with its breakdown.

        :raises MissingNumberError: if the model needs a latency that the device parameters lack.
        """
        return kernel_time(kernel, self.rows, self.notes, self.sees)


@dataclass(frozen=True, slots=True)
class SampledModel:
    """A model that extrapolates the measured time of a kernel's first groups to all groups."""

    name: str
    summary: str
    """What it assumes, in one line."""
    needs: frozenset[Need] = frozenset({"samples"})
    """Inputs that the model needs besides the kernel."""


@dataclass(frozen=True, slots=True)
class RegressionModel:
    """A model that corrects another model's prediction with a regression on measurements of the device."""

    name: str
    summary: str
    """What it assumes, in one line."""
    needs: frozenset[Need] = frozenset({"fit"})
    """Inputs that the model needs besides the kernel and the inputs of its base model."""


Model = FittedModel | DeviceModel | SampledModel | RegressionModel


# }}}
