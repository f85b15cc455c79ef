"""What times are turned into cycles of a core by."""

from dataclasses import dataclass

from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.microbenchmarks.pace import Pace


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
