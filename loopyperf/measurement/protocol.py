"""Rules for timing a kernel and evaluating its samples (Stevens and Klöckner, section 4.2)."""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from statistics import median
from typing import Literal, NamedTuple

import msgspec

from loopyperf.errors import MeasurementError
from loopyperf.measurement.environment import Configuration, Sizes

# {{{ which sizes of a configuration's schedule are worth measuring (Stevens and Klöckner, section 4.2)


Probe = Callable[[Sizes], float | None]
"""Returns a kernel's run time in seconds at one size, or None if its arrays do not fit into memory."""


def sizes_to_measure(configuration: Configuration, probe: Probe, shortest: float, longest: float) -> Iterator[Sizes]:
    """Yield ``steps`` sizes, ``stride`` apart, starting with the smallest that runs at least *shortest* seconds.

    The sequence ends early at a size that runs more than *longest* seconds or does not fit. If no size that fits runs
    long enough, only the largest that fits is yielded. Sizes are probed as late as possible: the caller may measure one
    before the next is probed.
    """
    fitting: int | None = None
    for index, sizes in enumerate(configuration.sizes):
        seconds = probe(sizes)
        if seconds is None or seconds > longest:
            break
        if seconds >= shortest:
            yield sizes
            for larger in configuration.sizes[index :: configuration.stride][1 : configuration.steps]:
                seconds = probe(larger)
                if seconds is None or seconds > longest:
                    return
                yield larger
            return
        fitting = index
    if fitting is not None:
        yield configuration.sizes[fitting]


# }}}


# {{{ protocol


BATCH = 4
"""runs between two checks of whether there are enough"""
REPRODUCED = 3
"""samples required close to the minimum, so that the minimum is not an outlier"""
BUDGET_TOLERANCE = 5
"""factor on the accepted distance from the minimum once the time budget is spent"""
DEFINING_RULES = ("runs", "dropped", "longest_run", "probe_runs", "overhead_factor")
"""rules that define a sample and what is measured; measurements that differ in one cannot be combined. The other rules
define order and number of runs, and measurements may differ in them"""


class Summary(NamedTuple):
    """Summary statistics of the samples of one kernel at one size."""

    minimum: float
    """seconds"""
    median: float
    """seconds"""
    spread: float
    """relative distance of the median above the minimum"""
    runs: int
    """number of samples that count"""


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """Rules of a measurement; raises :class:`MeasurementError` if they are inconsistent.

    A kernel's arrays are allocated on first touch, which slows its first run, and the second still varies more than the
    rest: the paper runs a kernel 30 times, drops the first 4 runs and takes the minimum of the others. Here 30 is the
    maximum: measuring stops when the minimum is reproduced or the time budget is spent.
    """

    runs: int = 30
    """maximum number of timed runs of one kernel at one size"""
    dropped: int = 4
    """number of first runs that do not count"""
    fewest: int = 8
    """minimum number of runs that count, as far as :attr:`runs` permits; :attr:`stable` and :attr:`budget` apply from
    then on. ``runs - dropped`` makes all runs regardless of the samples"""
    stable: float = 0.01
    """relative distance of the third fastest run that counts from the fastest, below which measuring stops"""
    budget: float = 0.2
    """seconds of runs of one kernel at one size after which a distance of five times :attr:`stable` suffices; after
    twice this time measuring stops in any case"""
    longest_run: float = 0.03
    """seconds; a size that takes longer for a single run is not measured"""
    probe_runs: int = 3
    """runs that probe how long a size takes before it is measured; only one where that takes as long as this many of
    the longest permitted runs"""
    overhead_factor: float = 2.0
    """a size is measured if it runs at least this many times as long as an empty kernel; as a run includes its launch,
    2 means that a kernel's own work takes at least as long as its launch"""
    caches: Literal["warm"] = "warm"
    """runs follow each other directly, without flushing the caches"""
    seed: int | None = 0
    """seed of the random order of configurations, which keeps a drift of the device from being mistaken for a property
    of a kernel class; None: order of the kernel files"""
    yardstick_runs: int = 4
    """runs of the reference kernel, which is timed again after each measurement; 0 disables it"""
    slow: float = 0.1
    """relative excess over its usual time from which the reference kernel indicates a slow device"""
    repeats: int = 2
    """maximum number of repeats of a measurement taken while the device was slow; the last one comes at the end of the
    campaign"""
    patience: float = 10.0
    """total seconds that a campaign waits for a slow device"""

    def __post_init__(self) -> None:
        """Reject inconsistent rules."""
        if not 0 <= self.dropped < self.runs:
            raise MeasurementError(
                f"no sample is left with runs={self.runs} and dropped={self.dropped}; dropped must be smaller than runs"
            )
        if not 0 < self.probe_runs < self.runs:
            raise MeasurementError(f"probe_runs must be in 1..{self.runs - 1}, got {self.probe_runs}")
        if not (self.longest_run > 0 and self.overhead_factor >= 0):
            raise MeasurementError(
                f"longest_run must be > 0 and overhead_factor >= 0; got {self.longest_run} and {self.overhead_factor}"
            )
        if self.fewest < 1:
            raise MeasurementError(f"fewest must be >= 1, got {self.fewest}")
        for name in ("stable", "budget", "yardstick_runs", "slow", "repeats", "patience"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise MeasurementError(f"{name} must be a finite number >= 0, got {value}")

    def differences(self, other: "Protocol") -> tuple[str, ...]:
        """Return the rules in which *other* differs and that prevent combining measurements."""
        return tuple(name for name in DEFINING_RULES if getattr(self, name) != getattr(other, name))

    # {{{ number of runs

    def further_runs(self, samples: Sequence[float]) -> int:
        """Return how many runs to make after those that took *samples* seconds, 0 if these suffice."""
        left = self.runs - len(samples)
        if not samples:
            return min(left, self.dropped + self.fewest)
        counted, spent = sorted(samples[self.dropped :]), sum(samples)
        within = self.stable * (BUDGET_TOLERANCE if spent >= self.budget else 1)
        if len(counted) >= self.fewest:
            again = counted[min(REPRODUCED, len(counted)) - 1]
            is_reproduced = len(counted) > 1 and again <= counted[0] * (1 + within)
            if is_reproduced or spent >= 2 * self.budget:
                return 0
        return min(left, BATCH)

    def further_probe_runs(self, samples: Sequence[float]) -> int:
        """Return how many probe runs to make after those that took *samples* seconds, 0 if these suffice."""
        if not samples:
            return 1
        return 0 if max(samples) > self.probe_runs * self.longest_run else self.probe_runs - len(samples)

    # }}}

    # {{{ evaluation of samples

    def kept(self, samples: Sequence[float]) -> Sequence[float]:
        """Return the samples that count; raises :class:`MeasurementError` if all of them are dropped."""
        if len(samples) <= self.dropped:
            raise MeasurementError(
                f"{len(samples)} samples are too few, since the protocol drops the first {self.dropped}; "
                "use probed_time() for probes"
            )
        return samples[self.dropped :]

    def measured_time(self, samples: Sequence[float]) -> float:
        """Return the measured time in seconds: the minimum after the first runs are dropped.

        *samples* are the seconds of each run, in order. Raises :class:`MeasurementError` if all of them are dropped.
        """
        return min(self.kept(samples))

    def summary(self, samples: Sequence[float]) -> Summary:
        """Return minimum, median and spread of the samples that count.

        Raises :class:`MeasurementError` if all of them are dropped.
        """
        kept = self.kept(samples)
        least, middle = min(kept), median(kept)
        return Summary(least, middle, middle / least - 1 if least else 0.0, len(kept))

    def probed_time(self, samples: Sequence[float]) -> float:
        """Return the seconds of a probe of one size: the minimum of its few runs."""
        return min(samples)

    # }}}

    def __str__(self) -> str:
        """Return a description, such as ``"at most 30 runs, the first 4 dropped, warm caches, order of seed 0"``."""
        order = "order of the files" if self.seed is None else f"order of seed {self.seed}"
        return f"at most {self.runs} runs, the first {self.dropped} dropped, warm caches, {order}"


# }}}
