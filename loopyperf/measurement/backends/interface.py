"""What every backend offers: the environment, its limits, and the seconds that a kernel takes."""

from dataclasses import dataclass
from typing import Protocol

from loopyperf.measurement.configuration import Configuration, Limits, Sizes
from loopyperf.measurement.environment import Environment
from loopyperf.measurement.records import Key, Kind


@dataclass(frozen=True, slots=True)
class Case:
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


class Backend(Protocol):
    """Something that runs kernels and tells how long they took."""

    @property
    def environment(self) -> Environment:
        """Return where the kernels run."""
        ...

    @property
    def limits(self) -> Limits:
        """Return what the device allows a kernel to use."""
        ...

    def time(self, case: Case, runs: int) -> tuple[float, ...]:
        """Return the wall-clock seconds of each of *runs* runs of *case*, in order.

        Raises :class:`MeasurementError` if it cannot be run, or computes something wrong.
        """
        ...
