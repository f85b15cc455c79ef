"""Time per round of a microbenchmark: the difference between two numbers of rounds, which excludes the launch."""

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

# {{{ an estimate with its standard error


@dataclass(frozen=True, slots=True)
class Estimated:
    """A number and its standard error, in the same unit."""

    value: float
    error: float

    @property
    def relative_error(self) -> float:
        """Return the error relative to the value."""
        return self.error / abs(self.value) if self.value else float("inf")

    @property
    def credible(self) -> "Estimated | None":
        """Return the estimate if its value exceeds twice its error, None otherwise."""
        return self if self.value > 2 * self.error else None

    def times(self, factor: float) -> "Estimated":
        """Return the estimate multiplied by *factor*."""
        return Estimated(self.value * factor, self.error * abs(factor))

    def __str__(self) -> str:
        """Return the relative error in the form ``"± 0.4 %"``."""
        return f"± {in_percent(self.relative_error, 1)}"


# }}}


# {{{ robust least squares, in which a momentary disturbance of the machine does not spoil the fit


Values = NDArray[np.float64]

OUTLIER = 0.02
"""relative deviation from which the loss grows more slowly than the square"""


class _Fit(typing.Protocol):
    """Result of scipy's solver."""

    x: Values


def robust_fit(deviations: Callable[[Values], Values], starts: Iterable[Values]) -> Values:
    """Return parameters that minimize the relative *deviations*, starting from the best of *starts*."""
    start = min(starts, key=lambda start: _cost(deviations(start)))
    solver = cast("Callable[..., _Fit]", optimize.least_squares)
    return solver(deviations, start, loss="soft_l1", f_scale=OUTLIER).x


def _cost(deviations: Values) -> float:
    """Return the solver's cost."""
    return float(np.sum(np.sqrt(1 + (deviations / OUTLIER) ** 2)))


# }}}


# {{{ protocols of microbenchmarks: full, and quick with fewer runs, shorter runs and smaller arrays


FULL = Protocol(runs=20, dropped=4, fewest=16, probe_runs=3, overhead_factor=20, longest_run=0.2)
"""a run takes at least twenty launches, so that the difference of two runs is far above the launch's scatter; all runs
are made, because they determine the error of that difference"""
SHORT = Protocol(runs=12, dropped=4, fewest=8, probe_runs=3, overhead_factor=20, longest_run=0.03, seed=None)
"""in the order of the kernel files, the most important first, because the time is limited"""
MOST_MEMORY = 2**24
"""maximum bytes of an array"""


def with_smaller_arrays(files: Sequence[KernelFile]) -> tuple[KernelFile, ...]:
    """Return *files* with arrays of at most :data:`MOST_MEMORY`."""
    return tuple(replace(file, configurations=partial(_in_little_memory, file)) for file in files)


def _in_little_memory(file: KernelFile, limits: DeviceLimits) -> list[Configuration]:
    return file.configurations(replace(limits, global_memory=min(limits.global_memory, MOST_MEMORY)))


# }}}


# {{{ pace


ROUNDS = "rounds"
"""name of the size that is doubled"""
UNSTEADY = 0.2
"""relative error of a time difference from which the device was disturbed"""


@dataclass(frozen=True, slots=True)
class Pace:
    """Time of additional rounds of a microbenchmark at one combination of sizes."""

    label: str
    """label of the configuration"""
    sizes: Mapping[str, int]
    """sizes without the rounds"""
    rounds: int
    """additional rounds of the longer run"""
    seconds: float
    """additional time of the longer run"""
    error: float
    """standard error of the additional time, in seconds"""

    @property
    def kind(self) -> str:
        """Return the kind of microbenchmark: the label up to the first comma."""
        return self.label.partition(",")[0]

    @property
    def steps(self) -> int:
        """Return the additional steps of the longer run."""
        return self.rounds * self.sizes["steps"]

    @property
    def seconds_each(self) -> float:
        """Return the seconds per step."""
        return self.seconds / self.steps


def paces(recording: Recording, kernel_class: str) -> tuple[Pace, ...]:
    """Return the times of one class of microbenchmarks, at each combination of sizes with two numbers of rounds.

    Combinations where the longer run took no longer, or the difference is within the scatter, are omitted: the device
    was disturbed.
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
    """Return the width of the fastest quarter of the samples: a minimum that is reproduced is reliable."""
    kept = sorted(measurement.samples[protocol.dropped :])
    return kept[len(kept) // 4] - kept[0]


def _without_rounds(measurement: Measurement) -> dict[str, int]:
    return {name: value for name, value in measurement.sizes.items() if name != ROUNDS}


# }}}


# {{{ conversion of times to core cycles


@dataclass(frozen=True, slots=True)
class Core:
    """Properties of the measured device that convert times to core cycles."""

    cores: int
    """number of cores of the device"""
    warp_size: int
    clock: float
    """Hz"""

    def warps(self, pace: Pace) -> int:
        """Return the number of warps on a core."""
        return pace.sizes["groups"] // self.cores * self.warps_of_group(pace)

    def warps_of_group(self, pace: Pace) -> int:
        """Return the number of warps in a group."""
        return -(-pace.sizes["lanes"] // self.warp_size)

    def cycles(self, pace: Pace) -> float:
        """Return the additional core cycles of the longer run."""
        return pace.seconds * self.clock

    def cycles_each(self, pace: Pace) -> float:
        """Return the core cycles per step."""
        return pace.seconds_each * self.clock


def core_of(recording: Recording, clock: float | None = None) -> Core:
    """Return the core properties of *recording*'s device, at *clock* Hz or at the driver's clock.

    Raises :class:`MeasurementError` if the recording has no run or no clock is known.
    """
    if not recording.runs:
        raise MeasurementError("the archive has no run; measure first with `loopyperf microbenchmark`")
    limits = recording.runs[-1].limits
    hertz = clock or limits.clock
    if not hertz:
        raise MeasurementError(
            f"the driver of {recording.runs[-1].environment.device} reports no clock, which is needed to convert times "
            "to cycles; pass it in MHz: loopyperf microbenchmark --clock 1410"
        )
    return Core(limits.cores, limits.warp_size, hertz)


# }}}
