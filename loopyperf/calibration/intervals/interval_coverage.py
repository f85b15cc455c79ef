"""How often intervals hold the times of kernels whose classes neither the fit nor its intervals have seen.

The scores that intervals are made from are of kernel classes that were left out of a fit, so that they cannot judge the
intervals too. Here classes are left out once more: a fit is made of the others, with all that belongs to it, its choice
among the candidates and its intervals, and is asked for the kernels that it knows nothing of.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loopyperf.calibration.candidates import Candidate
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import fit_observations
from loopyperf.calibration.intervals.widths import widths
from loopyperf.calibration.problem import Observation, Vector
from loopyperf.errors import CalibrationError
from loopyperf.models.result import LEVEL
from loopyperf.models.sensitivity import sensitivity

FOLDS = 5
SEEDS = 4
"""ways to deal the classes to folds: which classes meet in one changes the share by a percent or two"""


@dataclass(frozen=True, slots=True)
class IntervalCoverage:
    """What intervals are worth, over kernels whose classes were left out."""

    inside: float
    """share of the kernels with an interval whose measured time lies in it"""
    without: int
    """kernels without an interval, as nothing that was left in tells what a part of them costs"""
    factor: float
    """upper end of the interval over the prediction, in the median"""
    chosen: tuple[str, ...]
    """the candidates that the fits were made by"""


def interval_coverage(
    observations: Sequence[Observation],
    candidates: Sequence[Candidate],
    beyond: Sequence[Observation] = (),
    *,
    level: float = LEVEL,
    folds: int = FOLDS,
    seeds: int = SEEDS,
) -> IntervalCoverage:
    """Return how often intervals of the probability *level* hold, of fits to all classes but those of a fold.

    Classes are dealt to so many *folds*, in as many ways as there are *seeds*. Of several *candidates*, each fit takes
    the one that generalises best among what it is told. *beyond* is what
    :func:`loopyperf.calibration.fitting.fit_observations` takes by this name; nobody is asked about it.

    Intervals are those of estimates (:func:`loopyperf.calibration.intervals.widths.widths`), wider where a kernel is
    outside of what was measured; a kernel may be without one. Each kernel counts once for each way to deal.

    :raises CalibrationError: there are fewer classes than folds, or fewer than three, of which two are to be fitted to;
        or what is left of them cannot be fitted.
    """
    classes = sorted({row.kernel_class for row in observations})
    if len(classes) < max(folds, 3):
        raise CalibrationError(
            f"intervals cannot be judged on {len(classes)} kernel classes in {folds} folds: there must be at least "
            "three classes, and one for each fold; measure more, or take fewer folds"
        )
    errors: list[float] = []
    stated: list[float] = []
    chosen: dict[str, None] = {}
    for seed in range(seeds):
        order: list[int] = np.random.default_rng(seed).permutation(len(classes)).tolist()
        fold = {classes[place]: number % folds for number, place in enumerate(order)}
        for number in range(folds):
            left_out = {name for name in classes if fold[name] == number}
            rest, further = _without(left_out, observations), _without(left_out, beyond)
            asked = [row for row in observations if row.kernel_class in left_out]
            fit = fit_observations(_NOBODY, rest, candidates, beyond=further)[0]
            error, width = _asked(fit, asked, level)
            errors += error.tolist()
            stated += width.tolist()
            chosen[fit.candidate] = None
    finite = np.isfinite(stated)
    inside = np.array(errors)[finite] <= np.array(stated)[finite]
    factor = float(np.exp(np.median(np.array(stated)[finite]))) if finite.any() else np.inf
    return IntervalCoverage(
        float(np.mean(inside)) if finite.any() else 0.0, int((~finite).sum()), factor, tuple(chosen)
    )


_NOBODY = Provenance(model="", device="", slug="", counting="executed")


def _without(classes: set[str], rows: Sequence[Observation]) -> list[Observation]:
    return [row for row in rows if row.kernel_class not in classes]


def _asked(fit: Fit, rows: Sequence[Observation], level: float) -> tuple[Vector, Vector]:
    """Return by how much ln T of each of *rows* is off, and by how much the interval says it may be."""
    amounts = [row.amounts(fit.basis) for row in rows]
    names = tuple(sorted({column for each in amounts for column in each}))
    matrix = np.array([[each.get(column, 0.0) for column in names] for each in amounts])
    with np.errstate(invalid="ignore"):  # a plain linear fit may predict a time below 0, which no interval holds
        errors = np.abs(np.log(sensitivity(fit, amounts).seconds / [row.seconds for row in rows]))
    return errors, widths(fit, names, matrix, level).half
