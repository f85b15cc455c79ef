"""What every backend offers: the environment, its limits, and the seconds that a kernel takes."""

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from loopyperf.errors import MeasurementError
from loopyperf.measurement.configuration import Configuration, Limits, Sizes
from loopyperf.measurement.environment import Environment
from loopyperf.measurement.records import Key, Kind


@dataclass(frozen=True, slots=True)
class BenchmarkCase:
    """One kernel at one size."""

    kernel_class: str
    """the ``NAME`` of its kernel file"""
    configuration: Configuration
    sizes: Sizes

    def key(self, kind: Kind) -> Key:
        """Return under which key a measurement or probe of this case is recorded."""
        return Key.of(self.kernel_class, self.configuration.label, self.sizes, kind)

    def __str__(self) -> str:
        """Return the case for a message, e.g. ``transpose, "prefetched, 16x16", n=1024``."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f'{self.kernel_class}, "{self.configuration.label}", {sizes or "no sizes"}'


@dataclass(frozen=True, slots=True)
class Timing:
    """What some runs of a case took, in seconds, in order, and what as many took by the clock of the device.

    Whether these are the same runs is the backend's: they are on OpenCL. On CUDA a run that the device's clock is to
    time begins only when all of it is queued, which whoever waits would see, so there are as many runs for each clock.
    The two lists are two samples of one kernel, and no difference between two of their entries means anything.

    Raises :class:`MeasurementError` unless there are as many times by either clock.
    """

    wall: tuple[float, ...]
    """by the clock of whoever waits: from the first launch until the device is done"""
    device: tuple[float, ...] | None = None
    """by the clock of the device: from the start of the first launch to the end of the last, without what launching
    takes; None where the backend cannot tell"""

    def __post_init__(self) -> None:
        """Refuse other than as many times by either clock."""
        if self.device is not None and len(self.device) != len(self.wall):
            raise MeasurementError(
                f"{len(self.wall)} runs have {len(self.device)} times of the device; give one for each run"
            )

    def followed_by(self, other: Self) -> "Timing":
        """Return the times of these runs and then of the *other* ones."""
        device = None if self.device is None or other.device is None else self.device + other.device
        return Timing(self.wall + other.wall, device)


class Backend(Protocol):
    """Something that runs kernels and tells how long they took.

    A campaign asks for two configurations in turns, what it measures and the yardstick: a backend keeps the latest two
    compiled, each with the arrays of its latest size (:class:`loopyperf.measurement.backends.recent.Recent`).
    """

    @property
    def environment(self) -> Environment:
        """Return where the kernels run."""
        ...

    @property
    def limits(self) -> Limits:
        """Return what the device allows a kernel to use."""
        ...

    def time(self, case: BenchmarkCase, runs: int) -> Timing:
        """Return the seconds of each of *runs* runs of *case*, in order.

        Raises :class:`MeasurementError` if it cannot be run, or computes something wrong, and :class:`BackendError` if
        the device does not answer any more.
        """
        ...


@runtime_checkable
class EmptiesCaches(Protocol):
    """A backend that can also measure with cold caches."""

    def empty_caches(self) -> None:
        """Read and write more than the device's last cache holds, and return when that is done."""
        ...
