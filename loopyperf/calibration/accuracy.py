"""Errors of predictions, as the paper tabulates them, and intervals that hold what they state.

The error of one prediction is e = ``|predicted − measured| / measured``. Errors are summarised by their geometric mean,
per kernel over its sizes and across kernels over the means of kernels (Stevens and Klöckner, section 5 and Table 1; the
table prints measured before predicted times, contrary to its caption).

How near predictions are to measurements: the figures by which models are compared, each defined in one place.

With predictions pᵢ and measurements mᵢ of the same things, both of times or both of performances:

    MAPE           mean |pᵢ − mᵢ| / mᵢ, over the occupancies of one kernel                    (Lemeire, section 6.3)
    MAPE_shape     the same of pᵢ − lf(ωᵢ), with lf the best line through the differences pᵢ − mᵢ over the occupancy ω
    geometric mean of the errors |pᵢ − mᵢ| / mᵢ                               (Stevens and Klöckner, section 5, Table 1)
    log error      median |ln(pᵢ / mᵢ)|
    Spearman       the correlation of the ranks of p and m
    regret         how many times longer the one takes that is predicted to be fastest than the fastest one

All are without a unit: fractions, not per cent.
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
"""Smaller errors count as this one in geometric means. A single exact hit would make one 0, whatever the other errors,
and to leave it out would punish the hit; run times repeat to about 1 %, so an error below 0.1 % is luck and means no
more."""

Floats = NDArray[np.floating[Any]]


def mape(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return the mean absolute percentage error, as a fraction: of performances over occupancies, in the papers.

    Raises :class:`ModelInputError` unless there are as many predictions as measurements, at least 1, all positive.
    """
    asked, found = _pairs(predicted, measured)
    return float(np.mean(np.abs(asked - found) / found))


def mape_shape(predicted: ArrayLike, measured: ArrayLike, occupancy: ArrayLike) -> float:
    """Return the MAPE after the best linear fit, over the *occupancy*, of the differences is taken away.

    Models whose errors are an offset and a drift are so told from those that see another shape. Raises
    :class:`ModelInputError` as :func:`mape`, and for another number of occupancies. Source: Lemeire, section 6.3.
    """
    asked, found = _pairs(predicted, measured)
    warps = np.asarray(occupancy, dtype=np.float64).ravel()
    if warps.shape != found.shape:
        raise ModelInputError(f"give an occupancy for each of the {found.size} measurements; received {warps.size}")
    if len(np.unique(warps)) < 3 or not np.isfinite(warps).all():
        raise ModelInputError("a line goes through any two points: the shape needs three finite occupancies or more")
    line = np.stack([np.ones_like(warps), warps], axis=1)
    apart = asked - found
    fit = line @ np.linalg.lstsq(line, apart, rcond=None)[0]
    return float(np.mean(np.abs(apart - fit) / found))


def geometric_mean(errors: Iterable[float]) -> float:
    """Return the geometric mean of relative errors, those below :data:`LEAST_ERROR` counted as that.

    Raises :class:`ModelInputError` if there are none.
    """
    logarithms = [math.log(max(error, LEAST_ERROR)) for error in errors]
    if not logarithms:
        raise ModelInputError("the mean of no errors was asked for; predict at least one measured kernel")
    return math.exp(math.fsum(logarithms) / len(logarithms))


def median_log_error(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return the median of |ln(predicted / measured)|, which is the same for twice and for half; see :func:`mape`."""
    asked, found = _pairs(predicted, measured)
    return float(np.median(np.abs(np.log(asked / found))))


def spearman(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return Spearman's rank correlation, from −1 to 1; 0 where one side is all alike, so that it ranks nothing.

    Raises :class:`ModelInputError` as :func:`mape`.
    """
    asked, found = _pairs(predicted, measured)
    if np.ptp(asked) == 0 or np.ptp(found) == 0:
        return 0.0
    stats: Any = import_module("scipy.stats")  # only here: its import takes half a second
    return float(stats.spearmanr(asked, found).statistic)


def regret(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return the measured time of the one that is predicted to be fastest, over the least measured: 1 or more.

    Where several are predicted to be fastest, any of them may be taken: it is the mean of their times that counts.
    Raises :class:`ModelInputError` as :func:`mape`.
    """
    asked, found = _pairs(predicted, measured)
    return float(np.mean(found[asked == asked.min()]) / found.min())


def _pairs(predicted: ArrayLike, measured: ArrayLike) -> tuple[Floats, Floats]:
    """Return both as arrays of floats in one dimension."""
    asked, found = (np.asarray(each, dtype=np.float64).ravel() for each in (predicted, measured))
    if asked.shape != found.shape or not found.size:
        raise ModelInputError(
            f"give a prediction for each measurement; received {asked.size} predictions and {found.size} measurements"
        )
    for name, values in (("predictions", asked), ("measurements", found)):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ModelInputError(f"{name} must be positive and finite; received {_first_bad(values)}")
    return asked, found


def _first_bad(values: Floats) -> float:
    return next(float(value) for value in values if not (math.isfinite(value) and value > 0))


PLAIN = "linear, plain"
"""the candidate whose weights may be negative"""
MARGIN = 0.2
"""How much smaller, relatively, the plain fit's cross-validated error must be for it to be preferred. Means over so few
classes differ by as much between two calibrations of one device, and weights that cannot be negative are the safer
ones for kernels unlike the measured ones."""
PIPELINES = "overlap of pipelines"
"""the candidate whose weights are known from the device's description too"""
TOLD = 0.75
"""share of the measurements for which other classes must determine all weights before counts may replace pipelines: a
fit of counts cannot predict the others"""
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
    """Errors on kernel classes that were left out, of all ways to fit (:mod:`loopyperf.calibration.validation`)."""

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
        """Return the candidate that generalises best (:meth:`best`)."""
        return self.best(self.errors)

    def best(self, candidates: Collection[str]) -> str:
        """Return which of *candidates* generalises best.

        That is the one with the :func:`least` error; :data:`PIPELINES` where measurements tell few weights of counts.
        """
        told = sum(each.predictable for each in self.classes)
        if PIPELINES in candidates and told < TOLD * sum(each.observations for each in self.classes):
            return PIPELINES
        return least({name: self.errors[name] for name in candidates})

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


# {{{ which kernel classes are left out together: no class is ever on both sides of a split
#
# Never by row: sizes and transformations of one kernel are so alike that a row left out is predicted by its neighbours.


MOST_FOLDS = 10
"""Where there are more kernel classes, several of them are left out together."""

Places = list[int]
"""of rows, ascending"""


def folds(classes: Sequence[str], most: int = MOST_FOLDS) -> list[set[str]]:
    """Return which of the *classes* of rows are left out together: as many rows in each fold as can be.

    There is a fold for each class where there are at most *most*. Raises :class:`CalibrationError` for fewer than two.
    """
    sizes: dict[str, int] = {}
    for name in classes:
        sizes[name] = sizes.get(name, 0) + 1
    if len(sizes) < 2:
        raise CalibrationError(
            f"cross-validation leaves out one kernel class at a time and needs at least two, but got {list(sizes)}; "
            "measure kernels of another class"
        )
    if len(sizes) <= most:
        return [{name} for name in sizes]
    found: list[set[str]] = [set() for _ in range(most)]
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        min(found, key=lambda fold: sum(sizes[each] for each in fold)).add(name)
    return found


def splits(classes: Sequence[str], most: int = MOST_FOLDS) -> list[tuple[Places, Places]]:
    """Return for each fold of :func:`folds` the places of the rows to learn from, and of those that are asked."""
    every = range(len(classes))
    return [
        ([place for place in every if classes[place] not in fold], [place for place in every if classes[place] in fold])
        for fold in folds(classes, most)
    ]


# }}}


# {{{ intervals that hold what they state
#
# By split conformal prediction on kernel classes that were left out of the fit.
#
# An observation j that was predicted by weights fitted to other classes has the score::
#
#     sⱼ = |ln(Tⱼ/tⱼ)| / √(1 + hⱼ)
#
# with h its leverage, the variance of ln T from the weights alone, for measurements of variance 1: kernels unlike the
# measured ones are predicted worse, and h says how unlike one is. Of n scores the ⌈(n + 1)·level⌉-th is q, and the
# interval of a kernel is T·exp(±q·√(1 + h)). As long as a new kernel differs from the fitted ones as a class does from
# the others, the interval holds its time with the stated probability, whatever the distribution of errors (V. Vovk,
# A. Gammerman, G. Shafer, Algorithmic Learning in a Random World, 2005, section 2.2; normalized scores, section 2.3).


class Uncertainty(msgspec.Struct, frozen=True):
    """What the intervals of a fit are made from."""

    scores: tuple[Amount, ...]
    """of all observations that other classes can predict, ascending"""
    columns: tuple[str, ...]
    """names of the weights, in the order of the covariance"""
    covariance: tuple[tuple[Number, ...], ...]
    """of the weights, then of the sharpness, for measurements whose relative errors have variance 1"""
    deviations: tuple[Number, ...] = ()
    """(ln(Tⱼ/tⱼ) − its mean over the class)/√(1 + hⱼ) of the same observations, ascending, so scaled that they vary as
    if the mean were known: what a class has in common is no error of the order of its kernels"""

    def __post_init__(self) -> None:
        """Refuse scores that do not ascend, and what is no covariance of the columns and the sharpness."""
        for name, values in (("scores", self.scores), ("deviations", self.deviations)):
            if list(values) != sorted(values):
                raise ValueError(f"{name} must ascend")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("a column stands twice")
        size = len(self.columns) + 1
        if len(self.covariance) != size or any(len(row) != size for row in self.covariance):
            raise ValueError(f"the covariance of {size - 1} columns and the sharpness must have {size} rows of {size}")
        if any(row[place] < 0 for place, row in enumerate(self.covariance)):
            raise ValueError("a variance is below 0")

    def half_width(self, leverage: Vector, level: float = LEVEL) -> Vector:
        """Return by how much ln T may be off, up or down; infinity where there are too few scores for *level*."""
        return quantile(self.scores, level) * np.sqrt(1 + leverage)

    def of_weights(self, level: float = LEVEL) -> dict[str, float]:
        """Return by how much each weight may be off, up or down, in its unit, where all else of the model is right.

        It is q·√v with v its variance for relative errors of variance 1; infinity where there are too few scores for
        *level*.
        """
        deviations = np.sqrt(np.diagonal(self.covariance))
        factor = quantile(self.scores, level)
        return {name: factor * float(each) for name, each in zip(self.columns, deviations, strict=False)}

    def leverage(self, fit: Fitted, times: Sensitivity) -> Vector:
        """Return h of kernels whose *times* are those of *fit*."""
        order = tuple(fit.weights)
        places = [*map(order.index, self.columns), len(order)]
        return leverages(times.gradient[:, places], np.array(self.covariance))


def quantile(scores: Sequence[float], level: float = LEVEL) -> float:
    """Return the ⌈(n + 1)·level⌉-th of n *scores*, which ascend; infinity where there are too few of them."""
    place = math.ceil((len(scores) + 1) * level) - 1
    return scores[place] if place < len(scores) else math.inf


# }}}
