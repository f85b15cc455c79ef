"""What a round of a microbenchmark takes: the difference between two numbers of rounds, without the launch."""

import typing
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import hypot
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.environment import Configuration, DeviceLimits
from loopyperf.measurement.kernel_files import KernelFile
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Measurement
from loopyperf.units import in_percent

# {{{ a number that was estimated, with its standard error


@dataclass(frozen=True, slots=True)
class Estimated:
    """A number and its standard error, in the same unit."""

    value: float
    error: float

    @property
    def relative_error(self) -> float:
        """Return the error as a share of the value."""
        return self.error / abs(self.value) if self.value else float("inf")

    @property
    def credible(self) -> "Estimated | None":
        """Return the number if it is above 0 by twice its error, None otherwise."""
        return self if self.value > 2 * self.error else None

    def times(self, factor: float) -> "Estimated":
        """Return the number in another unit."""
        return Estimated(self.value * factor, self.error * abs(factor))

    def __str__(self) -> str:
        """Return the error for a source, e.g. ``"± 0.4 %"``."""
        return f"± {in_percent(self.relative_error, 1)}"


# }}}


# {{{ least squares in which outliers count less
#
# A machine that did something else for a moment spoils no fit.


Values = NDArray[np.float64]

OUTLIER = 0.02
"""relative deviations beyond it count less than by their square"""


class _Fit(typing.Protocol):
    """What scipy returns."""

    x: Values


def robust_fit(deviations: Callable[[Values], Values], starts: Iterable[Values]) -> Values:
    """Return the parameters with the least *deviations*, which are relative ones, near the best of the *starts*."""
    start = min(starts, key=lambda start: _cost(deviations(start)))
    solver = cast("Callable[..., _Fit]", optimize.least_squares)
    return solver(deviations, start, loss="soft_l1", f_scale=OUTLIER).x


def _cost(deviations: Values) -> float:
    """Return what the solver makes small."""
    return float(np.sum(np.sqrt(1 + (deviations / OUTLIER) ** 2)))


# }}}


# {{{ how microbenchmarks are timed, and a shorter way for a first look
#
# Fewer runs, shorter ones, and smaller arrays.


FULL = Protocol(runs=20, dropped=4, fewest=16, probe_runs=3, overhead_factor=20, longest_run=0.2)
"""a run takes twenty launches or more, so that the difference of two runs is far above the launch's scatter; all runs
are made, as the error of that difference is read off them"""
SHORT = Protocol(runs=12, dropped=4, fewest=8, probe_runs=3, overhead_factor=20, longest_run=0.03)
MOST_MEMORY = 2**24
"""bytes of the largest arrays"""


def with_smaller_arrays(files: Sequence[KernelFile]) -> tuple[KernelFile, ...]:
    """Return *files* with arrays of at most :data:`MOST_MEMORY`."""
    return tuple(replace(file, configurations=partial(_in_little_memory, file)) for file in files)


def _in_little_memory(file: KernelFile, limits: DeviceLimits) -> list[Configuration]:
    return file.configurations(replace(limits, global_memory=min(limits.global_memory, MOST_MEMORY)))


# }}}


# {{{ pace


ROUNDS = "rounds"
"""the size that is doubled"""
UNSTEADY = 0.2
"""error from which on, as a share of the difference, the device was busy with something else"""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a microbenchmark goes at one point."""

    label: str
    """the configuration's"""
    sizes: Mapping[str, int]
    """without the rounds"""
    rounds: int
    """by which the longer run is longer"""
    seconds: float
    """that it is longer"""
    error: float
    """standard error of these seconds"""

    @property
    def kind(self) -> str:
        """Return what was measured: the label up to the first comma."""
        return self.label.partition(",")[0]

    @property
    def steps(self) -> int:
        """Return by how many steps the longer run is longer."""
        return self.rounds * self.sizes["steps"]

    @property
    def seconds_each(self) -> float:
        """Return the seconds of a step."""
        return self.seconds / self.steps


def paces(recording: Recording, kernel_class: str) -> tuple[Pace, ...]:
    """Return how fast the microbenchmarks of one class go, at each point that has two numbers of rounds.

    Where the longer run took no longer, or the runs differ among themselves as much, there is none: the device was busy
    with something else.
    """
    points: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for measurement in recording.completed.values():
        if measurement.kind == "measurement" and measurement.kernel_class == kernel_class:
            points[measurement.label, *sorted(_without_rounds(measurement).items())].append(measurement)
    protocols = {run.id: run.protocol for run in recording.runs}
    found = (_pace(taken, protocols[taken[0].run]) for taken in points.values() if len(taken) > 1)
    return tuple(pace for pace in found if pace.error < UNSTEADY * pace.seconds)


def _pace(taken: Sequence[Measurement], protocol: Protocol) -> Pace:
    ordered = sorted(taken, key=lambda each: each.sizes[ROUNDS])
    short, long = ordered[0], ordered[-1]
    return Pace(
        label=short.label,
        sizes=_without_rounds(short),
        rounds=long.sizes[ROUNDS] - short.sizes[ROUNDS],
        seconds=protocol.measured_time(long.samples) - protocol.measured_time(short.samples),
        error=hypot(_error(long, protocol), _error(short, protocol)),
    )


def _error(measurement: Measurement, protocol: Protocol) -> float:
    """Return how far the fastest quarter of the samples is apart: a minimum that is met again is a good one."""
    kept = sorted(measurement.samples[protocol.dropped :])
    return kept[len(kept) // 4] - kept[0]


def _without_rounds(measurement: Measurement) -> dict[str, int]:
    return {name: value for name, value in measurement.sizes.items() if name != ROUNDS}


# }}}


# {{{ what times are turned into cycles of a core by


@dataclass(frozen=True, slots=True)
class Core:
    """A core of the device that was measured."""

    cores: int
    """that the device has"""
    warp_size: int
    clock: float
    """Hz"""

    def warps(self, pace: Pace) -> int:
        """Return the warps that were on a core."""
        return pace.sizes["groups"] // self.cores * self.warps_of_group(pace)

    def warps_of_group(self, pace: Pace) -> int:
        """Return the warps that a group had."""
        return -(-pace.sizes["lanes"] // self.warp_size)

    def cycles(self, pace: Pace) -> float:
        """Return the cycles by which the longer run was longer."""
        return pace.seconds * self.clock

    def cycles_each(self, pace: Pace) -> float:
        """Return the cycles of a step."""
        return pace.seconds_each * self.clock


def core_of(recording: Recording, clock: float | None = None) -> Core:
    """Return a core of the device of *recording*, at *clock* Hz or at the one that the driver reports.

    Raises :class:`MeasurementError` where the recording has no run, or neither of them is known.
    """
    if not recording.runs:
        raise MeasurementError("the archive holds no run; measure first, with `loopyperf microbenchmark`")
    limits = recording.runs[-1].limits
    hertz = clock or limits.clock
    if not hertz:
        raise MeasurementError(
            f"the driver of {recording.runs[-1].environment.device} reports no clock, so that no time can be turned "
            "into cycles; give it in MHz: loopyperf microbenchmark --clock 1410"
        )
    return Core(limits.cores, limits.warp_size, hertz)


# }}}
