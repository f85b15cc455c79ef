"""What a model is to those who ask it: a name, what it needs, and its answer, a time with its rows."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from loopyperf.device.vocabulary import ISSUE
from loopyperf.idg.program import Opcode
from loopyperf.models.demand import cached_for_launch
from loopyperf.models.result import Breakdown, BreakdownRow, ModelTime, adding_up
from loopyperf.models.timing import notes_of
from loopyperf.models.workload import LATENCY, LAUNCHES, START, Aspect
from loopyperf.pipeline.timed_program import TimedLaunch, TimedProgram
from loopyperf.units import duration

# {{{ from the cycles of each launch to the time of the kernel, with the rows that it is the sum of


Rows = Callable[[TimedLaunch], Iterable[BreakdownRow]]
"""what all executions of a launch cost, in seconds"""
Notes = Callable[[TimedLaunch], Iterable[str]]
"""what a model assumes of a launch, in sentences"""
LAUNCH_COST = "launch overhead of "
"""how a note begins that says that nothing is known of that"""
MOST = 0.5
"""of the time: where more rests on assumed numbers, an answer has the time that stated ones alone tell"""


def kernel_time(kernel: TimedProgram, rows_of: Rows, rows_notes: Notes, sees: Collection[Aspect]) -> ModelTime:
    """Return how long *kernel* takes, in seconds, given the rows of each launch: launches add up, and cost something.

    *rows_notes* tells what the rows of a launch assume, beyond its own notes; *sees* tells what these may be.

    Raises :class:`MissingNumberError` for a latency that the model needs and the description of the device lacks.
    """
    device = kernel.device
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
    if (overhead := device.launch_overhead) is None:
        notes.append(f"{LAUNCH_COST}{device.slug} is unknown; assumed 0")
    else:
        for name, times in kernel.launched:
            cost = times * overhead
            stated += cost
            rows.append(BreakdownRow(LAUNCHES, f"launch of {name}", times, overhead, cost))
    seconds, costs = adding_up([row.seconds for row in rows])
    notes = [*_lower_bound(float(seconds), assumed, stated), *notes]
    exact = (
        BreakdownRow(row.property, row.source, row.count, row.weight, cost)
        for row, cost in zip(rows, costs, strict=True)
    )
    return ModelTime(seconds, Breakdown(tuple(exact)), notes=tuple(dict.fromkeys(notes)), columns="core")


def no_notes(_: TimedLaunch) -> Iterable[str]:
    """Return no notes: for a model that assumes nothing of its own."""
    return ()


def busiest_and_rest(launch: TimedLaunch, cycles: float) -> Iterator[BreakdownRow]:
    """Yield what a launch of so many *cycles* costs: each instruction on the busiest pipeline, and the rest.

    The rest is the time in which results are waited for.
    """
    clock, times, name = launch.device.needed("clock"), launch.times, launch.name
    seconds = times * cycles / clock
    busy = busy_cycles(launch)
    totals = {pipeline: sum(each * number for (_, each), number in costs.items()) for pipeline, costs in busy.items()}
    busiest = max(totals, key=lambda pipeline: totals[pipeline])
    # What is extrapolated from some groups to all may be less, by a little; and some models see less than throughput.
    scale = min(1.0, seconds * clock / totals[busiest])
    for (source, each), number in busy[busiest].items():
        yield BreakdownRow(busiest, source, number, each / clock, scale * each * number / clock)
    rest = seconds - totals[busiest] / clock
    if rest > 0:
        yield BreakdownRow(LATENCY, f"launch of {name}", times, rest / times, rest)


def busy_cycles(launch: TimedLaunch) -> dict[str, dict[tuple[str, float], float]]:
    """Return pipeline -> source and its λ, in cycles -> how often the core with most groups executes it."""
    busy: dict[str, dict[tuple[str, float], float]] = {}
    warps = launch.warps_of_core
    for executions, instruction, times in launch.executed():
        for time in times:
            costs = busy.setdefault(time.pipeline, {})
            key = (instruction.source or instruction.kind, float(time.issue))
            costs[key] = costs.get(key, 0.0) + executions * warps
    if launch.start is not None:
        busy[START] = {("the begin of a group", float(launch.start.issue)): warps}
    return busy


# {{{ what rests on assumed numbers


@dataclass(frozen=True, slots=True)
class AssumedShares:
    """Which part of the time of a launch rests on assumed numbers."""

    busy: Mapping[str, float]
    """pipeline -> share of the cycles that it is busy"""
    waiting: float
    """share of the cycles that results are waited for, one after the other"""
    stated: float
    """seconds, of all executions, that the pipeline which is busy longest by stated numbers is busy"""

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
        """Return the seconds of *rows* that rest on assumed numbers; what no pipeline is busy with is waited for."""
        parts = {START: 0.0, ISSUE: 0.0, **self.busy}
        return sum(float(row.seconds) * parts.get(row.property, self.waiting) for row in rows)


def _lower_bound(seconds: float, assumed: float, stated: float) -> Iterator[str]:
    """Yield how many *seconds* it takes at least, where more than :data:`MOST` of them rest on *assumed* numbers."""
    if assumed > MOST * seconds:
        share = f"{assumed / seconds:.0%} of the time rests on assumed ones"
        yield f"at least {duration(stated)} by stated numbers alone: {share}"


# }}}


# }}}


# {{{ interface


Need = Literal["fit", "device", "samples"]

Weights = Mapping[str, float]
"""property -> seconds per unit"""

Basis = Literal["counts", "pipelines"]
"""what a fitted model is told of a kernel: its property counts, or how long it keeps a device's pipelines busy"""

Count = int | float | NDArray[np.int64] | NDArray[np.float64]
"""an exact integer, or an array over sizes, of floats where a count needs more than 63 bits; of pipelines, seconds"""

Shares = Mapping[str, Mapping[str, Count]]
"""property -> source -> count"""


class Fitted(Protocol):
    """What a fitted model knows from measurements: a :class:`loopyperf.calibration.fits.Fit`."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    @property
    def weights(self) -> Weights:
        """Seconds per unit of each column; of pipelines, seconds per second that they are described to be busy."""
        ...

    @property
    def sharpness(self) -> float:
        """p of the overlap model; others have no use for it."""
        ...

    @property
    def basis(self) -> Basis:
        """What the columns are."""
        ...


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A model that turns counts into time by weights fitted to measurements of the device."""

    name: str
    summary: str
    """what it assumes, in one line"""
    time: Callable[[Fitted, Shares], ModelTime]
    is_weighted_sum: bool = False
    """whether its time is the sum of weights times counts, and of nothing else"""

    @property
    def needs(self) -> frozenset[Need]:
        """Return what the model must be given besides the kernel."""
        return frozenset({"fit"})


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A model that turns the graphs of a kernel into time by what is known of the device."""

    name: str
    summary: str
    """what it assumes, in one line"""
    rows: Rows
    """what a launch costs"""
    sees: frozenset[Aspect]
    """what it takes into account (Lemeire, Table 7)"""
    notes: Notes = no_notes
    """what it assumes of a launch"""

    @property
    def needs(self) -> frozenset[Need]:
        """Return what the model must be given besides the kernel."""
        return frozenset({"device"})

    def time(self, kernel: TimedProgram) -> ModelTime:
        """Return how long *kernel* takes, in seconds.

        Raises :class:`MissingNumberError` for a latency that the model needs and the device's description lacks.
        """
        return kernel_time(kernel, self.rows, self.notes, self.sees)


@dataclass(frozen=True, slots=True)
class SampledModel:
    """A model that turns what a kernel's first groups took into the time of all of them."""

    name: str
    summary: str
    """what it assumes, in one line"""

    @property
    def needs(self) -> frozenset[Need]:
        """Return what the model must be given besides the kernel."""
        return frozenset({"samples"})


@dataclass(frozen=True, slots=True)
class RegressionModel:
    """A model that corrects the answer of another one by what was learned from measurements of the device."""

    name: str
    summary: str
    """what it assumes, in one line"""

    @property
    def needs(self) -> frozenset[Need]:
        """Return what the model must be given besides the kernel, and besides what its base needs."""
        return frozenset({"fit"})


Model = FittedModel | DeviceModel | SampledModel | RegressionModel


# }}}
