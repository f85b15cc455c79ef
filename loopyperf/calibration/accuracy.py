"""Errors of predictions, as the paper tabulates them.

The error of one prediction is e = |predicted − measured| / measured. Errors are summarised by their geometric mean, per
kernel over its sizes and across kernels over the kernels' means (Stevens and Klöckner, section 5 and Table 1; the table
prints measured before predicted times, contrary to its caption).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from loopyperf.calibration.documents import Amount, Whole
from loopyperf.errors import CalibrationError
from loopyperf.models.metrics import geometric_mean
from loopyperf.sheet import Table, abridged
from loopyperf.units import in_percent, listed, number_of

PLAIN = "linear, plain"
"""the candidate whose weights may be negative"""
MARGIN = 0.2
"""How much smaller, relatively, the plain fit's cross-validated error must be for it to be preferred. Means over so few
classes differ by as much between two calibrations of one device, and weights that cannot be negative are the safer
ones for kernels unlike the measured ones."""
NAMED = 6
"""weights that a sentence names, at most"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted run time beside the measured one, both in seconds."""

    kernel: str
    """the class of kernels, e.g. ``"transpose"``"""
    sizes: Mapping[str, int]
    """values of its parameters, by name"""
    predicted: float
    """seconds"""
    measured: float
    """seconds"""
    interval: tuple[float, float] | None = None
    """in which the run time is stated to lie, in seconds; None where the fit states none"""

    @property
    def error(self) -> float:
        """Return |predicted − measured| / measured, dimensionless."""
        return abs(self.predicted - self.measured) / self.measured

    @property
    def is_inside(self) -> bool:
        """Return whether the measured time lies in the interval."""
        return self.interval is not None and self.interval[0] <= self.measured <= self.interval[1]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Geometric means of relative absolute errors (dimensionless) of many predictions."""

    per_kernel: Mapping[str, float]
    """over each kernel's sizes"""
    cross_kernel: float
    """over the kernels' means, so that a kernel with more sizes has no more weight"""
    coverage: float | None = None
    """share of the predictions whose measured time lies in the interval; None where none states one"""


class ClassErrors(msgspec.Struct, frozen=True):
    """Errors on one class of kernels, predicted by weights fitted to all other classes."""

    kernel_class: str
    """the class that was left out"""
    observations: Whole
    """how many measurements it has"""
    predictable: Whole
    """how many of them need only weights that the other classes determine"""
    errors: Mapping[str, Amount]
    """candidate -> geometric mean of relative absolute errors over those; over all observations if there are none"""
    unknown: tuple[str, ...] = ()
    """the properties whose weights the others need, but the other classes do not determine"""

    def number(self, is_compared: bool) -> str:
        """Return in words of how many measurements the errors are, and if the class is not compared."""
        known = f"{self.predictable:,} of {self.observations:,}" if self.predictable else f"{self.observations:,}"
        return known if is_compared else f"{known}, not compared"


class CrossValidation(msgspec.Struct, frozen=True):
    """Errors on kernel classes that were left out, of all ways to fit (:mod:`loopyperf.calibration.candidates`)."""

    classes: tuple[ClassErrors, ...]
    """the errors on each class"""
    compared: tuple[str, ...]
    """the classes that the errors rest on: those with predictable observations; all if there are next to none"""
    errors: Annotated[Mapping[str, Amount], msgspec.Meta(min_length=1)]
    """candidate -> geometric mean of the compared classes' errors"""

    def __post_init__(self) -> None:
        """Refuse classes with errors of other candidates, and compared ones that are not among them."""
        for each in self.classes:
            if each.errors.keys() != self.errors.keys():
                raise ValueError(
                    f"the errors on {each.kernel_class!r} are of {', '.join(each.errors)}, those of all classes of "
                    f"{', '.join(self.errors)}"
                )
        if strange := set(self.compared) - {each.kernel_class for each in self.classes}:
            raise ValueError(f"{', '.join(sorted(strange))} is compared, and not among the classes")

    @property
    def not_compared(self) -> str:
        """Return in a sentence which measurements the errors do not rest on, and why; empty where they rest on all."""
        number = sum(each.observations for each in self.classes)
        compared = (each for each in self.classes if each.kernel_class in self.compared)
        known = sum(each.predictable or each.observations for each in compared)
        if known == number:
            return ""
        lacking = dict.fromkeys(name for each in self.classes for name in each.unknown)
        return (
            f"not compared: {number - known:,} of {number_of(number, 'measurement')}, which need weights that no other "
            f"class tells: {listed(lacking, NAMED)}"
        )

    @property
    def better(self) -> str:
        """Return the candidate that generalises best (:func:`least`)."""
        return least(self.errors)

    def table(self, candidate: str = "") -> Table:
        """Return how far each way to fit is off on classes that it was not fitted to, the worst of *candidate* first.

        *candidate* is the one that is kept, by default the better one. Where other classes do not determine all weights
        that one needs, the errors are of those of its measurements for which they do, or of all where there is none;
        then the class is not compared. Of many, the worst and the best are shown.
        """
        kept, names = candidate or self.better, tuple(self.errors)
        every = sorted(self.classes, key=lambda each: -each.errors.get(kept, 0.0))

        def row(name: str, measurements: str, errors: Mapping[str, float]) -> tuple[str, ...]:
            return name, measurements, *(in_percent(errors[each]) for each in names)

        def row_of(each: ClassErrors) -> tuple[str, ...]:
            return row(each.kernel_class, each.number(each.kernel_class in self.compared), each.errors)

        rows = abridged(every, row_of)
        mean = row(f"geometric mean of {len(self.compared)}", "", self.errors)
        return Table(("kernel class left out", "measurements", *names), [*rows, mean])


def least(errors: Mapping[str, float]) -> str:
    """Return the candidate with the least error, the plain linear fit only if it is smaller by :data:`MARGIN`."""
    return min(errors, key=lambda name: errors[name] / (1 - MARGIN if name == PLAIN else 1))


def assess(predictions: Iterable[Prediction]) -> Accuracy:
    """Return the geometric mean errors per kernel and across kernels (Stevens and Klöckner, Table 1).

    :raises CalibrationError: there are no predictions.
    """
    rows = tuple(predictions)
    errors: dict[str, list[float]] = {}
    for prediction in rows:
        errors.setdefault(prediction.kernel, []).append(prediction.error)
    if not errors:
        raise CalibrationError("there are no predictions to assess; predict at least one measured kernel")
    per_kernel = {kernel: geometric_mean(values) for kernel, values in errors.items()}
    stated = [row.is_inside for row in rows if row.interval is not None]
    return Accuracy(per_kernel, geometric_mean(per_kernel.values()), sum(stated) / len(stated) if stated else None)
