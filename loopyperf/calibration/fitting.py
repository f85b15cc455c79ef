"""Fit models to observations: select, solve, validate, and record everything in fits."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from loopyperf.calibration.accuracy import geometric_mean
from loopyperf.calibration.dependence import property_coverage
from loopyperf.calibration.fits import Fit, Provenance, Residual, ResidualSummary, widths
from loopyperf.calibration.problem import Coverage, Observation, Problem, Solution, Vector, pose_problem
from loopyperf.calibration.validation import (
    FitRecipe,
    Validated,
    cross_validate,
    possible,
    training_observations,
    uncertainty,
)
from loopyperf.errors import CalibrationError
from loopyperf.models.linear import sensitivity
from loopyperf.models.result import LEVEL


def fit_observations(
    provenance: Provenance,
    observations: Sequence[Observation],
    candidates: Sequence[FitRecipe] | None = None,
    expected: Iterable[str] = (),
    beyond: Sequence[Observation] = (),
) -> tuple[Fit, ...]:
    """Fit each model by its candidate that generalizes best, and return the fits, the best of all first.

    *candidates* are by default all for which *observations* have the columns. With a single kernel class nothing can be
    held out: the first candidate of each model is used, that of pipelines if there is one, without intervals. The
    coverage, always that of counts, includes *expected* properties. *beyond* are kernels whose time depends on
    something without a property: they are used only in fits of pipelines, and never for validation. Raises
    :class:`CalibrationError` if there is nothing to fit, or no candidate.
    """
    rows = tuple(observations)
    counts = pose_problem(rows)  # checks the observations
    # The matrices are small: more threads would wait for each other and for other processes.
    with threadpool_limits(1, "blas"):
        return _fits(provenance, rows, candidates, property_coverage(counts, expected), tuple(beyond))


def _fits(
    provenance: Provenance,
    rows: Sequence[Observation],
    candidates: Sequence[FitRecipe] | None,
    covered: tuple[Coverage, ...],
    beyond: Sequence[Observation],
) -> tuple[Fit, ...]:
    chosen = possible(rows) if candidates is None else tuple(candidates)
    models = tuple(dict.fromkeys(each.model for each in chosen))
    if not models:
        raise CalibrationError("no model can be fitted, because the observations lack the required columns")
    if len({row.kernel_class for row in rows}) < 2:
        validated = None
        # Device parameters generalize beyond one class, better than counts fitted to one class.
        first: dict[str, FitRecipe] = {}
        for each in sorted(chosen, key=lambda each: each.basis != "pipelines"):
            first.setdefault(each.model, each)
        best = list(first.values())
    else:
        validated = cross_validate(rows, chosen, beyond)
        best = [validated.better(), *map(validated.better, models)]
    problems = {each.basis: pose_problem(training_observations(each.basis, rows, beyond), each.basis) for each in best}
    return tuple(
        make_fit(provenance, problems[each.basis], each, each.solve(problems[each.basis]), validated, covered, rows)
        for each in dict.fromkeys(best)
    )


def make_fit(
    provenance: Provenance,
    problem: Problem,
    candidate: FitRecipe,
    solution: Solution,
    validated: Validated | None = None,
    covered: tuple[Coverage, ...] = (),
    judged: Sequence[Observation] | None = None,
) -> Fit:
    """Return the fit that records the *solution* of *problem* found by *candidate*.

    *validated* is of the observations *judged*, by default the problem's; *covered* is their coverage.
    """
    left_out = None if validated is None else validated.left_out[candidate.name]
    origin: dict[str, Any] = msgspec.structs.asdict(provenance) | {"model": candidate.model}
    return Fit(
        **origin,
        candidate=candidate.name,
        weights=solution.weights,
        sharpness=solution.sharpness,
        basis=solution.basis,
        undetermined=solution.undetermined,
        ranges=_ranges(problem),
        rank=solution.rank,
        condition=solution.condition,
        at_bound=solution.at_bound,
        options={
            "non_negative": solution.non_negative,
            "ridge": solution.ridge,
            "tolerance": solution.tolerance,
        },
        residual_summary=_summary(solution.residuals),
        cross_validation=None if validated is None else validated.table,
        uncertainty=None if left_out is None else uncertainty(solution, judged or problem.observations, left_out),
        coverage=covered,
        residuals=tuple(
            Residual(row.kernel_class, row.label, _plain(row.sizes), float(row.seconds), residual)
            for row, residual in zip(problem.observations, solution.residuals, strict=True)
        ),
    )


def _ranges(problem: Problem) -> dict[str, tuple[float, float]]:
    amounts = [row.amounts(problem.basis) for row in problem.observations]
    every = {name: [each.get(name, 0) for each in amounts] for name in problem.properties}
    plain = int if problem.basis == "counts" else float
    return {name: (plain(min(filter(None, values))), plain(max(values))) for name, values in every.items()}


def _plain(sizes: Mapping[str, int]) -> dict[str, int]:
    # Sizes and counts may be NumPy integers, which JSON does not support.
    return {name: int(value) for name, value in sizes.items()}


def _summary(residuals: Sequence[float]) -> ResidualSummary:
    magnitudes = [abs(residual) for residual in residuals]
    return ResidualSummary(
        geometric_mean=geometric_mean(magnitudes),
        root_mean_square=math.sqrt(math.fsum(size * size for size in magnitudes) / len(magnitudes)),
        worst=max(magnitudes),
    )


# {{{ how often intervals contain the times of kernels whose classes affected neither the fit nor its intervals
#
# The scores that determine intervals are of kernel classes held out from a fit, so they cannot also validate the
# intervals. Here classes are held out once more: a complete fit is made of the others, including the choice of a
# candidate and the intervals, and then predicts the held-out kernels.


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


# }}}
