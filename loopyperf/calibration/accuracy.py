"""Accuracy measures of predictions, cross-validation results, and prediction intervals.

The error of a prediction is e = ``|predicted − measured| / measured``. Errors are summarized by their geometric mean,
per kernel over its sizes and across kernels over the kernels' means (Stevens and Klöckner, section 5 and Table 1; the
table prints measured before predicted times, contrary to its caption).

With predictions pᵢ and measurements mᵢ of the same quantities, all times or all performances:

    geometric mean of the errors |pᵢ − mᵢ| / mᵢ                               (Stevens and Klöckner, section 5, Table 1)
    log error      median |ln(pᵢ / mᵢ)|
    Spearman       the correlation of the ranks of p and m
    regret         run time of the variant predicted to be fastest over that of the fastest variant

All are dimensionless fractions, not percentages.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopyperf.calibration.problem import Vector, leverages
from loopyperf.display import Table, abridged
from loopyperf.errors import CalibrationError, ModelInputError
from loopyperf.files import Amount, Number, Whole
from loopyperf.models.linear import Sensitivity
from loopyperf.models.model_interface import Fitted
from loopyperf.models.result import LEVEL
from loopyperf.units import in_percent, listed, number_of

LEAST_ERROR = 1e-3
"""Lower bound of errors in geometric means. Otherwise a single exact prediction would make a mean 0 whatever the other
errors are, and excluding it would penalize it. Run times repeat to about 1 %, so errors below 0.1 % are not
meaningful."""

Floats = NDArray[np.floating[Any]]


def geometric_mean(errors: Iterable[float]) -> float:
    """Return the geometric mean of relative errors, each at least :data:`LEAST_ERROR`.

    Raises :class:`ModelInputError` if *errors* is empty.
    """
    logarithms = [math.log(max(error, LEAST_ERROR)) for error in errors]
    if not logarithms:
        raise ModelInputError("there are no errors to average; predict at least one measured kernel")
    return math.exp(sum(logarithms) / len(logarithms))


def median_log_error(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return the median of |ln(predicted / measured)|, the same for a factor of 2 and of 1/2.

    Raises :class:`ModelInputError` unless the arrays have the same size, at least 1, and are positive.
    """
    p, m = positive_pairs(predicted, measured)
    return float(np.median(np.abs(np.log(p / m))))


def spearman(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return Spearman's rank correlation, from −1 to 1; 0 if one side is constant.

    Raises :class:`ModelInputError` as :func:`median_log_error`.
    """
    p, m = positive_pairs(predicted, measured)
    if np.ptp(p) == 0 or np.ptp(m) == 0:
        return 0.0
    stats: Any = import_module("scipy.stats")  # imported here because it takes half a second
    return float(stats.spearmanr(p, m).statistic)


def regret(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return the measured time of the item predicted to be fastest over the minimum measured time: 1 or more.

    If several are predicted to be fastest, the mean of their times counts. Raises :class:`ModelInputError` as
    :func:`median_log_error`.
    """
    p, m = positive_pairs(predicted, measured)
    return float(np.mean(m[p == p.min()]) / m.min())


def positive_pairs(predicted: ArrayLike, measured: ArrayLike) -> tuple[Floats, Floats]:
    """Return both as one-dimensional arrays of positive floats; raises :class:`ModelInputError` if they are not."""
    p, m = (np.asarray(each, dtype=np.float64).ravel() for each in (predicted, measured))
    if p.shape != m.shape or not m.size:
        raise ModelInputError(
            f"pass one prediction for each measurement; got {p.size} predictions and {m.size} measurements"
        )
    for name, values in (("predictions", p), ("measurements", m)):
        if not (np.isfinite(values).all() and (values > 0).all()):
            bad = next(float(value) for value in values if not (math.isfinite(value) and value > 0))
            raise ModelInputError(f"{name} must be positive and finite; got {bad}")
    return p, m


PLAIN = "linear, plain"
"""candidate whose weights may be negative"""
MARGIN = 0.2
"""Relative advantage in cross-validated error required for the plain fit. Means over so few classes differ by as much
between two calibrations of one device, and non-negative weights are safer for kernels unlike the measured ones."""
PIPELINES = "overlap of pipelines"
"""candidate whose weights are also known from published device parameters"""
MIN_DETERMINED = 0.75
"""minimum share of measurements whose weights other classes must determine for counts to replace pipelines: a fit of
counts cannot predict the others"""
MAX_NAMED = 6
"""maximum number of weights listed in a sentence"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted and a measured run time, both in seconds."""

    _DERIVED = ("error", "is_inside")

    kernel: str
    """kernel class, such as ``"transpose"``"""
    sizes: Mapping[str, int]
    """parameter values by name"""
    predicted: float
    """seconds"""
    measured: float
    """seconds"""
    interval: tuple[float, float] | None = None
    """prediction interval of the run time, in seconds; None if the fit has none"""

    @property
    def error(self) -> float:
        """Return |predicted − measured| / measured, dimensionless."""
        return abs(self.predicted - self.measured) / self.measured

    @property
    def is_inside(self) -> bool:
        """Return whether the measured time is in the interval."""
        return self.interval is not None and self.interval[0] <= self.measured <= self.interval[1]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Geometric mean relative errors (dimensionless) of predictions."""

    per_kernel: Mapping[str, float]
    """mean over each kernel's sizes"""
    cross_kernel: float
    """mean over the kernels' means, so that each kernel has the same weight"""
    coverage: float | None = None
    """share of the measured times in their interval; None without intervals"""


class ClassErrors(msgspec.Struct, frozen=True):
    """Errors on one kernel class, predicted with weights fitted to all other classes."""

    kernel_class: str
    """the held-out class"""
    observations: Whole
    """number of its measurements"""
    predictable: Whole
    """number of measurements that need only weights determined by the other classes"""
    errors: Mapping[str, Amount]
    """geometric mean relative error over those, by candidate; over all measurements if there are none"""
    unknown: tuple[str, ...] = ()
    """properties that the other measurements need but the other classes do not determine"""

    def number(self, is_compared: bool) -> str:
        """Return the number of measurements as text, with a remark if the class is not compared."""
        known = f"{self.predictable:,} of {self.observations:,}" if self.predictable else f"{self.observations:,}"
        return known if is_compared else f"{known}, not compared"


class CrossValidation(msgspec.Struct, frozen=True):
    """Errors of all candidates on held-out kernel classes (:mod:`loopyperf.calibration.fitting`)."""

    classes: tuple[ClassErrors, ...]
    """errors on each class"""
    compared: tuple[str, ...]
    """classes that determine the errors: those with predictable observations, or all if fewer than two have any"""
    errors: Annotated[Mapping[str, Amount], msgspec.Meta(min_length=1)]
    """geometric mean of the compared classes' errors, by candidate"""

    def __post_init__(self) -> None:
        """Require consistent candidates and compared classes."""
        for each in self.classes:
            if each.errors.keys() != self.errors.keys():
                raise ValueError(
                    f"the errors on {each.kernel_class!r} are of candidates {', '.join(each.errors)}, those of all "
                    f"classes of {', '.join(self.errors)}"
                )
        if strange := set(self.compared) - {each.kernel_class for each in self.classes}:
            raise ValueError(f"compared classes must be among the classes, got {', '.join(sorted(strange))}")

    @property
    def not_compared(self) -> str:
        """Return a sentence about the measurements that are not compared and the reason; empty if there are none."""
        number = sum(each.observations for each in self.classes)
        compared = (each for each in self.classes if each.kernel_class in self.compared)
        known = sum(each.predictable or each.observations for each in compared)
        if known == number:
            return ""
        lacking = dict.fromkeys(name for each in self.classes for name in each.unknown)
        return (
            f"not compared: {number - known:,} of {number_of(number, 'measurement')}, because no other class "
            f"determines the weights of {listed(lacking, MAX_NAMED)}"
        )

    @property
    def better(self) -> str:
        """Return the candidate that generalizes best (:meth:`best`)."""
        return self.best(self.errors)

    def best(self, candidates: Collection[str]) -> str:
        """Return which of *candidates* generalizes best.

        This is the one with the :func:`least` error, or :data:`PIPELINES` if measurements determine few weights of
        counts.
        """
        predictable = sum(each.predictable for each in self.classes)
        if PIPELINES in candidates and predictable < MIN_DETERMINED * sum(each.observations for each in self.classes):
            return PIPELINES
        return least({name: self.errors[name] for name in candidates})

    def table(self, candidate: str = "") -> Table:
        """Return the error of each candidate on held-out classes, in descending order of *candidate*'s.

        *candidate* is the selected one, by default the best. The errors are over the measurements whose weights the
        other classes determine; if there are none they are over all, and the class is not compared. Of many classes,
        the worst and the best are shown.
        """
        kept, names = candidate or self.better, tuple(self.errors)
        every = sorted(self.classes, key=lambda each: -each.errors.get(kept, 0.0))

        def row(name: str, measurements: str, errors: Mapping[str, float]) -> tuple[str, ...]:
            return name, measurements, *(in_percent(errors[each]) for each in names)

        def row_of(each: ClassErrors) -> tuple[str, ...]:
            return row(each.kernel_class, each.number(each.kernel_class in self.compared), each.errors)

        rows = abridged(every, row_of)
        mean = row(f"geometric mean of {len(self.compared)}", "", self.errors)
        return Table(("held-out kernel class", "measurements", *names), [*rows, mean])


def least(errors: Mapping[str, float]) -> str:
    """Return the candidate with the smallest error; the plain linear fit must be better by :data:`MARGIN`."""
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
    inside = [row.is_inside for row in rows if row.interval is not None]
    return Accuracy(per_kernel, geometric_mean(per_kernel.values()), sum(inside) / len(inside) if inside else None)


# {{{ division of kernel classes into folds, so that no class is on both sides of a split
#
# Rows are never held out individually: sizes and variants of one kernel are so similar that they predict each other.


MAX_FOLDS = 10
"""maximum number of folds; with more kernel classes, several are held out together"""

Indices = list[int]
"""row indices, ascending"""


def folds(classes: Sequence[str], most: int = MAX_FOLDS) -> list[set[str]]:
    """Return the sets of *classes* that are held out together, balanced by their numbers of rows.

    There is a fold for each class if there are at most *most*. Raises :class:`CalibrationError` for fewer than two.
    """
    sizes: dict[str, int] = {}
    for name in classes:
        sizes[name] = sizes.get(name, 0) + 1
    if len(sizes) < 2:
        raise CalibrationError(
            f"cross-validation holds out one kernel class at a time and needs at least two, got {list(sizes)}; measure "
            "kernels of another class"
        )
    if len(sizes) <= most:
        return [{name} for name in sizes]
    found: list[set[str]] = [set() for _ in range(most)]
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        min(found, key=lambda fold: sum(sizes[each] for each in fold)).add(name)
    return found


def splits(classes: Sequence[str], most: int = MAX_FOLDS) -> list[tuple[Indices, Indices]]:
    """Return the indices of training and test rows for each fold of :func:`folds`."""
    every = range(len(classes))
    return [
        ([index for index in every if classes[index] not in fold], [index for index in every if classes[index] in fold])
        for fold in folds(classes, most)
    ]


# }}}


# {{{ prediction intervals by split conformal prediction on held-out kernel classes
#
# An observation j that was predicted with weights fitted to other classes has the score::
#
#     sⱼ = |ln(Tⱼ/tⱼ)| / √(1 + hⱼ)
#
# with h its leverage, the variance of ln T due to the weights alone for measurements of variance 1: kernels unlike the
# measured ones are predicted worse, and h measures how unlike one is. Of n scores the ⌈(n + 1)·level⌉-th is q, and the
# interval of a kernel is T·exp(±q·√(1 + h)). If a new kernel differs from the fitted ones as a class differs from the
# others, the interval contains its time with the given probability, whatever the distribution of errors (V. Vovk,
# A. Gammerman, G. Shafer, Algorithmic Learning in a Random World, 2005, section 2.2; normalized scores, section 2.3).


class Uncertainty(msgspec.Struct, frozen=True):
    """Scores and covariance from which a fit computes prediction intervals."""

    scores: tuple[Amount, ...]
    """scores of all observations that other classes can predict, ascending"""
    columns: tuple[str, ...]
    """names of the weights, in the order of the covariance"""
    covariance: tuple[tuple[Number, ...], ...]
    """covariance of the weights, then of the sharpness, for measurements whose relative errors have variance 1"""
    deviations: tuple[Number, ...] = ()
    """(ln(Tⱼ/tⱼ) − its mean over the class)/√(1 + hⱼ) of the same observations, ascending, scaled to the variance they
    would have if the mean were known: an error common to a class does not affect the order of its kernels"""

    def __post_init__(self) -> None:
        """Require ascending scores and a covariance that matches the columns and the sharpness."""
        for name, values in (("scores", self.scores), ("deviations", self.deviations)):
            if list(values) != sorted(values):
                raise ValueError(f"{name} must be in ascending order")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("columns must be distinct")
        size = len(self.columns) + 1
        if len(self.covariance) != size or any(len(row) != size for row in self.covariance):
            raise ValueError(f"the covariance of {size - 1} columns and the sharpness must have {size} rows of {size}")
        if any(row[index] < 0 for index, row in enumerate(self.covariance)):
            raise ValueError("variances must be >= 0")

    def half_width(self, leverage: Vector, level: float = LEVEL) -> Vector:
        """Return the half width of ln T's interval; infinite with too few scores for *level*."""
        return quantile(self.scores, level) * np.sqrt(1 + leverage)

    def of_weights(self, level: float = LEVEL) -> dict[str, float]:
        """Return the half width of each weight's interval, in its unit, if the model is otherwise correct.

        It is q·√v, where v is the weight's variance for relative errors of variance 1; infinite with too few scores for
        *level*.
        """
        deviations = np.sqrt(np.diagonal(self.covariance))
        factor = quantile(self.scores, level)
        return {name: factor * float(deviation) for name, deviation in zip(self.columns, deviations, strict=False)}

    def leverage(self, fit: Fitted, times: Sensitivity) -> Vector:
        """Return the leverages h of kernels whose *times* *fit* predicts."""
        order = tuple(fit.weights)
        indices = [*map(order.index, self.columns), len(order)]
        return leverages(times.gradient[:, indices], np.array(self.covariance))


def quantile(scores: Sequence[float], level: float = LEVEL) -> float:
    """Return the ⌈(n + 1)·level⌉-th of n ascending *scores*; infinity if there are too few."""
    index = math.ceil((len(scores) + 1) * level) - 1
    return scores[index] if index < len(scores) else math.inf


# }}}
