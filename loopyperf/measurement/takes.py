"""Which of several takes of a measurement stands: those of a slow device were repeated."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType

from loopyperf.measurement.records import Key, Measurement


class Takes:
    """Probes and measurements by what was measured, each as often as it was taken; without those of yardsticks."""

    def __init__(self, measurements: Iterable[Measurement] = ()) -> None:
        """Begin with *measurements*, in the order in which they were taken."""
        self._taken: dict[Key, list[Measurement]] = {}
        self._standing: dict[Key, Measurement] = {}
        for measurement in measurements:
            self.add(measurement)

    def add(self, measurement: Measurement) -> None:
        """Take note of *measurement*."""
        if measurement.kind == "yardstick":
            return
        taken = self._taken.setdefault(measurement.key, [])
        taken.append(measurement)
        self._standing[measurement.key] = standing(taken)

    def of(self, key: Key) -> Sequence[Measurement]:
        """Return all takes of *key*, in the order in which they were taken; empty if there is none."""
        return tuple(self._taken.get(key, ()))

    @property
    def completed(self) -> Mapping[Key, Measurement]:
        """Return the take that stands of each measurement and probe, by what was measured."""
        return MappingProxyType(self._standing)


def standing(taken: Sequence[Measurement]) -> Measurement:
    """Return the one of *taken* during which the device was fastest, by the yardstick; the latest of equal ones."""
    return min(reversed(taken), key=lambda each: inf if each.yardstick is None else each.yardstick)
