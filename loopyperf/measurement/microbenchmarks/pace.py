"""What a round of a microbenchmark takes: the difference between two numbers of rounds, without the launch."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot

from loopyperf.measurement.archive import Recording
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Measurement

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
