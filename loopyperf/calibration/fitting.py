"""From observations to a fit: the model is chosen, fitted, judged, and everything is kept."""

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
    """Return a fit of each model, by the candidate of it that best predicts classes that it was not fitted to.

    The one that does so best of all comes first. *candidates* are by default all that *observations* have the columns
    for. With a single class nothing can be left out: the first candidate of each model is taken, of pipelines if there
    is one, and has no intervals.
    The coverage, which is that of counts whatever is fitted, tells of *expected* properties too. *beyond* are kernels
    whose time hangs on what no property stands for: only fits of pipelines are told of them, and no fit is judged on
    them.
    Raises :class:`CalibrationError` where there is nothing to fit, or no candidate.
    """
    rows = tuple(observations)
    counts = pose_problem(rows)  # refuses what is no observation
    # The matrices are small: more threads wait for each other, and for whatever else the machine does.
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
        raise CalibrationError("no model can be fitted: the observations lack the columns that it needs")
    if len({row.kernel_class for row in rows}) < 2:
        validated = None
        # What is described holds beyond one class, better than counts that one class has.
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
    """Return the fit that records this solution of this problem, which *candidate* found.

    *validated* is of the observations *judged*, by default of the problem's; *covered* is their coverage.
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
    # Sizes and counts may be NumPy integers, which no file can hold.
    return {name: int(value) for name, value in sizes.items()}


def _summary(residuals: Sequence[float]) -> ResidualSummary:
    magnitudes = [abs(residual) for residual in residuals]
    return ResidualSummary(
        geometric_mean=geometric_mean(magnitudes),
        root_mean_square=math.sqrt(math.fsum(size * size for size in magnitudes) / len(magnitudes)),
        worst=max(magnitudes),
    )


# {{{ how often intervals hold the times of kernels whose classes neither the fit nor its intervals
#
# Have seen.
#
# The scores that intervals are made from are of kernel classes that were left out of a fit, so that they cannot judge
# the intervals too. Here classes are left out once more: a fit is made of the others, with all that belongs to it, its
# choice among the candidates and its intervals, and is asked for the kernels that it knows nothing of.


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
    candidates: Sequence[FitRecipe],
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

    Intervals are those of estimates (:func:`loopyperf.calibration.fitting.widths`), wider where a kernel is
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
            error, width = _requested(fit, asked, level)
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


def _requested(fit: Fit, rows: Sequence[Observation], level: float) -> tuple[Vector, Vector]:
    """Return by how much ln T of each of *rows* is off, and by how much the interval says it may be."""
    amounts = [row.amounts(fit.basis) for row in rows]
    names = tuple(sorted({column for each in amounts for column in each}))
    matrix = np.array([[each.get(column, 0.0) for column in names] for each in amounts])
    with np.errstate(invalid="ignore"):  # a plain linear fit may predict a time below 0, which no interval holds
        errors = np.abs(np.log(sensitivity(fit, amounts).seconds / [row.seconds for row in rows]))
    return errors, widths(fit, names, matrix, level).half


# }}}
