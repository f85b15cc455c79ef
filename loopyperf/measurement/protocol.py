"""How a kernel is timed, and what is made of the samples (Stevens and Klöckner, section 4.2)."""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from statistics import median
from typing import Literal, NamedTuple

import msgspec

from loopyperf.errors import MeasurementError
from loopyperf.measurement.environment import Configuration, Sizes

# {{{ which sizes of a configuration's ladder are worth measuring (Stevens and Klöckner, section 4.2)


Probe = Callable[[Sizes], float | None]
"""Returns how many seconds a kernel runs at one size, or None where its arrays do not fit into the memory."""


def sizes_to_measure(configuration: Configuration, probe: Probe, shortest: float, longest: float) -> Iterator[Sizes]:
    """Yield ``steps`` sizes, ``stride`` apart, from the smallest that runs at least *shortest* seconds.

    They end early where a size runs more than *longest* seconds or does not fit. If no size that fits runs long
    enough, the largest that fits is the only one. Sizes are probed as late as possible: the caller may measure one
    before the next is probed.
    """
    fitting: int | None = None
    for index, sizes in enumerate(configuration.sizes):
        seconds = probe(sizes)
        if seconds is None or seconds > longest:
            break
        if seconds >= shortest:
            yield from _upwards(configuration, index, probe, longest)
            return
        fitting = index
    if fitting is not None:
        yield configuration.sizes[fitting]


def _upwards(configuration: Configuration, first: int, probe: Probe, longest: float) -> Iterator[Sizes]:
    yield configuration.sizes[first]
    for sizes in configuration.sizes[first :: configuration.stride][1 : configuration.steps]:
        seconds = probe(sizes)
        if seconds is None or seconds > longest:
            return
        yield sizes


# }}}


# {{{ protocol


Caches = Literal["warm", "cold"]
"""whether a run finds in the caches what the run before left there, or finds them emptied"""

BATCH = 4
"""runs between two looks at whether there are enough"""
MET_AGAIN = 3
"""samples that must be about as fast as the fastest one: it was no accident then"""
LOOSER = 5
"""times as far from the fastest one as in other measurements, where these runs have taken long"""
MUST_AGREE = ("runs", "dropped", "longest_run", "probe_runs", "overhead_factor", "caches")
"""rules that say what a sample is and what is measured: measurements by different ones are not put together. The others
say in which order, for how long and how often, and measurements may differ in that"""


class Summary(NamedTuple):
    """The samples of one kernel at one size in a few numbers."""

    minimum: float
    """seconds"""
    median: float
    """seconds"""
    spread: float
    """by how much the median is larger than the minimum, relative to the minimum"""
    runs: int
    """that count"""


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a measurement; raises :class:`MeasurementError` where they contradict each other.

    The arrays of a kernel are allocated on first touch, which makes its first run slow, and the second still varies
    more than the rest: the paper runs a kernel 30 times, drops the first 4 and takes the minimum of the others. Here
    30 runs are the most: once the minimum was met again, or the budget is spent, there are no more.
    """

    runs: int = 30
    """timed runs of one kernel at one size, at most"""
    dropped: int = 4
    """first runs that do not count"""
    fewest: int = 8
    """runs that count, at least, as far as :attr:`runs` has so many; from then on :attr:`stable` and :attr:`budget`
    are looked at. ``runs - dropped`` makes all runs whatever the samples are"""
    stable: float = 0.01
    """relative distance of the third fastest run that counts from the fastest, below which there are enough"""
    budget: float = 0.2
    """seconds of runs of one kernel at one size, after which a distance of five times :attr:`stable` will do, and twice
    which are enough whatever the samples are"""
    longest_run: float = 0.03
    """seconds; a size whose single run takes longer is not measured"""
    probe_runs: int = 3
    """runs that find out how long a size takes before it is measured; a single one where that takes as long as so many
    of the longest that are allowed"""
    overhead_factor: float = 2.0
    """a size is measured if it runs at least this many times as long as an empty kernel; a run includes its launch, so
    that at 2 a kernel's own work takes at least as long as launching it"""
    caches: Caches = "warm"
    """``"warm"``: runs follow one another; ``"cold"``: before each, more is read and written than the caches hold"""
    seed: int | None = 0
    """of the order in which configurations are measured, so that a drift of the device is not taken for a property of a
    class of kernels; None: in the order of the kernel files"""
    yardstick_runs: int = 4
    """runs of the yardstick, a kernel that is timed again after each measurement; 0: there is none"""
    slow: float = 0.1
    """the device is slow while the yardstick takes longer than usual by more than this, relative to the usual"""
    repeats: int = 2
    """times that what was measured while the device was slow is measured again, at most; the last one comes after
    everything else"""
    patience: float = 10.0
    """seconds that a campaign waits for a slow device, all in all"""

    def __post_init__(self) -> None:
        """Refuse rules that leave no sample."""
        if not 0 <= self.dropped < self.runs:
            raise MeasurementError(
                f"runs={self.runs} and dropped={self.dropped} leave no sample: drop fewer runs than are made"
            )
        if not 0 < self.probe_runs < self.runs:
            raise MeasurementError(
                f"a probe is a short measurement: probe_runs={self.probe_runs} is not in 1..{self.runs - 1}"
            )
        if not (self.longest_run > 0 and self.overhead_factor >= 0):
            raise MeasurementError(
                f"longest_run must be positive and overhead_factor not negative; received {self.longest_run} "
                f"and {self.overhead_factor}"
            )
        self._check_repetition()

    def _check_repetition(self) -> None:
        if self.fewest < 1:
            raise MeasurementError(f"fewest must be 1 run or more; received {self.fewest}")
        for name in ("stable", "budget", "yardstick_runs", "slow", "repeats", "patience"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise MeasurementError(f"{name} must be a number, 0 or more; received {value}")

    def differences(self, other: "Protocol") -> tuple[str, ...]:
        """Return the names of the rules in which *other* differs so that measurements must not be put together."""
        return tuple(name for name in MUST_AGREE if getattr(self, name) != getattr(other, name))

    # {{{ how often

    def further_runs(self, samples: Sequence[float]) -> int:
        """Return how many runs come after those that took *samples* seconds, 0 if these are enough."""
        left = self.runs - len(samples)
        if not samples:
            return min(left, self.dropped + self.fewest)
        counted, spent = sorted(samples[self.dropped :]), sum(samples)
        within = self.stable * (LOOSER if spent >= self.budget else 1)
        if len(counted) >= self.fewest and (_is_met_again(counted, within) or spent >= 2 * self.budget):
            return 0
        return min(left, BATCH)

    def further_probe_runs(self, samples: Sequence[float]) -> int:
        """Return how many runs a probe makes after those that took *samples* seconds, 0 if these are enough."""
        if not samples:
            return 1
        return 0 if max(samples) > self.probe_runs * self.longest_run else self.probe_runs - len(samples)

    # }}}

    # {{{ what is made of the samples

    def kept(self, samples: Sequence[float]) -> Sequence[float]:
        """Return the samples that count; raises :class:`MeasurementError` if all of them are dropped."""
        if len(samples) <= self.dropped:
            raise MeasurementError(
                f"{len(samples)} samples are too few for a protocol that drops the first {self.dropped}; "
                "a probe's samples are read by probed_time()"
            )
        return samples[self.dropped :]

    def measured_time(self, samples: Sequence[float]) -> float:
        """Return the seconds that a measurement counts for: the minimum after the first runs are dropped.

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
        """Return the seconds that a probe of one size took: the minimum of its few runs.

        With cold caches it is that of all but the first, which comes right after its arrays were written.
        """
        return min(samples[1:] or samples) if self.caches == "cold" else min(samples)

    # }}}

    def __str__(self) -> str:
        """Return the rules in words, e.g. ``"at most 30 runs, the first 4 dropped, warm caches, order of seed 0"``."""
        order = "order of the files" if self.seed is None else f"order of seed {self.seed}"
        return f"at most {self.runs} runs, the first {self.dropped} dropped, {self.caches} caches, {order}"


def _is_met_again(ordered: Sequence[float], within: float) -> bool:
    again = ordered[min(MET_AGAIN, len(ordered)) - 1]
    return len(ordered) > 1 and again <= ordered[0] * (1 + within)


# }}}
