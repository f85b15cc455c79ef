"""How a kernel is timed, and what is made of the samples (Stevens and Klöckner, section 4.2)."""

from collections.abc import Sequence

import msgspec

from loopyperf.errors import MeasurementError


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a measurement; raises :class:`MeasurementError` where they contradict each other.

    The arrays of a kernel are allocated on first touch, which makes its first run slow, and the second still varies
    more than the rest: the paper runs a kernel 30 times, drops the first 4 and takes the minimum of the others.
    """

    runs: int = 30
    """timed runs of one kernel at one size"""
    dropped: int = 4
    """first runs that do not count"""
    longest_run: float = 0.03
    """seconds; a size whose single run takes longer is not measured"""
    probe_runs: int = 3
    """runs that find out how long a size takes before it is measured"""
    overhead_factor: float = 2.0
    """a size is measured if it runs at least this many times as long as an empty kernel; a run includes its launch, so
    that at 2 a kernel's own work takes at least as long as launching it"""

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

    def measured_time(self, samples: Sequence[float]) -> float:
        """Return the seconds that a measurement counts for: the minimum after the first runs are dropped.

        *samples* are the seconds of each run, in order. Raises :class:`MeasurementError` if all of them are dropped.
        """
        if len(samples) <= self.dropped:
            raise MeasurementError(
                f"{len(samples)} samples are too few for a protocol that drops the first {self.dropped}; "
                "a probe's samples are read by probed_time()"
            )
        return min(samples[self.dropped :])

    def probed_time(self, samples: Sequence[float]) -> float:
        """Return the seconds that a probe of one size took: the minimum of its few runs."""
        return min(samples)
