"""Errors of predictions, as the paper tabulates them.

The error of one prediction is e = |predicted − measured| / measured. Errors are summarised by their geometric mean, per
kernel over its sizes and across kernels over the kernels' means (Stevens and Klöckner, section 5 and Table 1; the table
prints measured before predicted times, contrary to its caption).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from loopyperf.errors import CalibrationError
from loopyperf.models.metrics import geometric_mean

MARGIN = 0.2
"""How much smaller, relatively, the plain fit's cross-validated error must be for it to be preferred. Means over so few
classes differ by as much between two calibrations of one device, and weights that cannot be negative are the safer
ones for kernels unlike the measured ones."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted run time beside the measured one, both in seconds."""

    kernel: str
    sizes: Mapping[str, int]
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Return |predicted − measured| / measured, dimensionless."""
        return abs(self.predicted - self.measured) / self.measured


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Geometric means of relative absolute errors (dimensionless) of many predictions."""

    per_kernel: Mapping[str, float]
    """over each kernel's sizes"""
    cross_kernel: float
    """over the kernels' means, so that a kernel with more sizes has no more weight"""


class ClassErrors(msgspec.Struct, frozen=True):
    """Errors on one class of kernels, predicted by weights fitted to all other classes."""

    kernel_class: str
    observations: int
    predictable: int
    """how many of them need only weights that the other classes determine"""
    plain: float
    """geometric mean of the plain fit's relative absolute errors over those; over all observations if there are none"""
    non_negative: float
    """the same of the non-negative fit"""
    unknown: tuple[str, ...] = ()
    """the properties whose weights the others need, but the other classes do not determine"""


class CrossValidation(msgspec.Struct, frozen=True):
    """Leave-one-class-out errors of the plain and the non-negative fit."""

    classes: tuple[ClassErrors, ...]
    compared: tuple[str, ...]
    """the classes that the next two figures rest on: those with predictable observations; all if there are none"""
    plain: float
    """geometric mean of the compared classes' errors"""
    non_negative: float

    @property
    def better(self) -> str:
        """Return which fit generalises better, ``"plain"`` or ``"non-negative"``.

        The latter, unless the plain one's error is smaller by :data:`MARGIN`.
        """
        return "plain" if self.plain < (1 - MARGIN) * self.non_negative else "non-negative"


def assess(predictions: Iterable[Prediction]) -> Accuracy:
    """Return the geometric mean errors per kernel and across kernels (Stevens and Klöckner, Table 1).

    :raises CalibrationError: there are no predictions.
    """
    errors: dict[str, list[float]] = {}
    for prediction in predictions:
        errors.setdefault(prediction.kernel, []).append(prediction.error)
    if not errors:
        raise CalibrationError("there are no predictions to assess; predict at least one measured kernel")
    per_kernel = {kernel: geometric_mean(values) for kernel, values in errors.items()}
    return Accuracy(per_kernel, geometric_mean(per_kernel.values()))
