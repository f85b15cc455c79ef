"""How often intervals contain the times of kernels whose classes affected neither the fit nor its intervals.

The scores that determine intervals are of kernel classes held out from a fit, so they cannot also validate the
intervals. Here classes are held out once more: a complete fit is made of the others, including the choice of a
candidate and the intervals, and then predicts the held-out kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loopyperf.calibration.fits import Fit, Provenance, widths
from loopyperf.calibration.fitting import FitRecipe, fit_observations
from loopyperf.calibration.problem import Observation, Vector
from loopyperf.errors import CalibrationError
from loopyperf.models.linear import sensitivity
from loopyperf.models.result import LEVEL

FOLDS = 5
SEEDS = 4
"""number of random assignments of classes to folds; the assignment changes the share by a percent or two"""


@dataclass(frozen=True, slots=True)
class IntervalCoverage:
    """Coverage of prediction intervals, over kernels of held-out classes."""

    inside: float
    """share of the kernels with an interval that contains the measured time"""
    without: int
    """number of kernels without an interval, because the training data do not determine the cost of a part of them"""
    factor: float
    """median of the interval's upper end over the prediction"""
    chosen: tuple[str, ...]
    """candidates of the fits"""


def interval_coverage(
    observations: Sequence[Observation],
    candidates: Sequence[FitRecipe],
    beyond: Sequence[Observation] = (),
    *,
    level: float = LEVEL,
    folds: int = FOLDS,
    seeds: int = SEEDS,
) -> IntervalCoverage:
    """Return how often intervals at the probability *level* contain the times of held-out kernel classes.

    Classes are assigned to *folds* at random, *seeds* times; each kernel counts once for each assignment. Of several
    *candidates*, each fit uses the one that generalizes best on its training data. *beyond* is as in
    :func:`loopyperf.calibration.fitting.fit_observations`, and not predicted.

    Intervals are those of estimates (:func:`loopyperf.calibration.fits.widths`), wider where a kernel is outside the
    measured range; a kernel may have none.

    :raises CalibrationError: there are fewer classes than folds, or fewer than three, of which two are for fitting; or
        the remaining classes cannot be fitted.
    """
    classes = sorted({row.kernel_class for row in observations})
    if len(classes) < max(folds, 3):
        raise CalibrationError(
            f"interval coverage needs at least three kernel classes and one per fold, got {len(classes)} classes and "
            f"{folds} folds; measure more classes, or use fewer folds"
        )
    errors: list[float] = []
    half_widths: list[float] = []
    chosen: dict[str, None] = {}
    for seed in range(seeds):
        order: list[int] = np.random.default_rng(seed).permutation(len(classes)).tolist()
        fold = {classes[place]: number % folds for number, place in enumerate(order)}
        for number in range(folds):
            left_out = {name for name in classes if fold[name] == number}
            rest, further = _without(left_out, observations), _without(left_out, beyond)
            held_out = [row for row in observations if row.kernel_class in left_out]
            fit = fit_observations(_UNNAMED, rest, candidates, beyond=further)[0]
            error, width = _errors_and_half_widths(fit, held_out, level)
            errors += error.tolist()
            half_widths += width.tolist()
            chosen[fit.candidate] = None
    finite = np.isfinite(half_widths)
    inside = np.array(errors)[finite] <= np.array(half_widths)[finite]
    factor = float(np.exp(np.median(np.array(half_widths)[finite]))) if finite.any() else np.inf
    return IntervalCoverage(
        float(np.mean(inside)) if finite.any() else 0.0, int((~finite).sum()), factor, tuple(chosen)
    )


_UNNAMED = Provenance(model="", device="", slug="", counting="executed")


def _without(classes: set[str], rows: Sequence[Observation]) -> list[Observation]:
    return [row for row in rows if row.kernel_class not in classes]


def _errors_and_half_widths(fit: Fit, rows: Sequence[Observation], level: float) -> tuple[Vector, Vector]:
    """Return the error of ln T for each of *rows*, and the half width of its interval."""
    amounts = [row.amounts(fit.basis) for row in rows]
    names = tuple(sorted({column for each in amounts for column in each}))
    matrix = np.array([[each.get(column, 0.0) for column in names] for each in amounts])
    with np.errstate(invalid="ignore"):  # a plain linear fit may predict a time below 0, outside any interval
        errors = np.abs(np.log(sensitivity(fit, amounts).seconds / [row.seconds for row in rows]))
    return errors, widths(fit, names, matrix, level).half
