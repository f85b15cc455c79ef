"""Fit models to observations: candidates, errors on held-out kernel classes, and the fit that records the best."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from loopyperf.calibration.accuracy import (
    PIPELINES,
    PLAIN,
    ClassErrors,
    CrossValidation,
    Uncertainty,
    folds,
    geometric_mean,
)
from loopyperf.calibration.fits import Fit, Provenance, Residual, ResidualSummary
from loopyperf.calibration.overlap_fit import solve, solve_overlap
from loopyperf.calibration.problem import Observation, Problem, Solution, Vector, pose_problem
from loopyperf.errors import CalibrationError, LoopyperfWarning
from loopyperf.models.model_interface import Basis
from loopyperf.units import listed

# {{{ candidates, of which cross-validation selects one


@dataclass(frozen=True, slots=True)
class FitRecipe:
    """A method to fit a model."""

    name: str
    model: str
    """name of the model"""
    basis: Basis
    solve: Callable[[Problem], Solution]


CANDIDATES = (
    FitRecipe("linear, non-negative", "linear", "counts", solve),
    FitRecipe(PLAIN, "linear", "counts", partial(solve, non_negative=False)),
    FitRecipe("overlap of counts", "overlap", "counts", solve_overlap),
    FitRecipe(PIPELINES, "overlap", "pipelines", solve_overlap),
)

MAX_NAMED = 3
"""maximum number of measurements listed in a warning"""
REMEDIES: Mapping[Basis, str] = {
    "counts": "count them",
    "pipelines": "add the missing parameters to the device",
}
"""how to add the missing columns of a basis"""


def possible(observations: Iterable[Observation], model: str | None = None) -> tuple[FitRecipe, ...]:
    """Return the candidates, of *model* if given, for which *observations* have the columns.

    Warns if only some have them, because a few rows without pipelines exclude a candidate for all.
    """
    rows = tuple(observations)
    named = [each for each in CANDIDATES if model in (None, each.model)]
    bases: set[Basis] = {each.basis for each in named}
    for basis in sorted(bases):
        _warn_of_some(basis, rows)
    return tuple(each for each in named if all(row.amounts(each.basis) for row in rows))


def _warn_of_some(basis: Basis, rows: Sequence[Observation]) -> None:
    lacking = [row for row in rows if not row.amounts(basis)]
    if lacking and len(lacking) < len(rows):
        which = dict.fromkeys(f"{row.kernel_class!r} ({row.label})" for row in lacking)
        warnings.warn(
            f"no fit of {basis}: {len(lacking)} of {len(rows)} measurements have none: "
            f"{listed(which, MAX_NAMED, '; ')}; {REMEDIES[basis]}, or omit these measurements",
            LoopyperfWarning,
            stacklevel=3,
        )


# }}}


# {{{ cross-validation


MIN_COMPARED = 2
"""minimum number of compared classes: a single one, such as empty kernels, is not enough to select a candidate"""


@dataclass(frozen=True, slots=True, eq=False)
class OutOfFold:
    """Predictions of a candidate for each observation, fitted to other classes."""

    seconds: Vector
    """predicted seconds, in the order of the observations"""
    leverages: Vector
    """variance of ln T due to the fit (:meth:`loopyperf.calibration.problem.Solution.leverages`)"""
    unknown: tuple[tuple[str, ...], ...]
    """properties of each observation that need a weight but are not determined by the other classes"""


@dataclass(frozen=True, slots=True, eq=False)
class Validated:
    """A cross-validation with its predictions."""

    table: CrossValidation
    left_out: Mapping[str, OutOfFold]
    """predictions by candidate"""
    candidates: Mapping[str, FitRecipe]

    def better(self, model: str | None = None) -> FitRecipe:
        """Return the candidate that generalizes best, of *model* if given."""
        named = [name for name, candidate in self.candidates.items() if model in (None, candidate.model)]
        return self.candidates[self.table.best(named)]


def cross_validate(
    observations: Sequence[Observation],
    candidates: Sequence[FitRecipe] | None = None,
    beyond: Sequence[Observation] = (),
) -> Validated:
    """Return the errors of *candidates*, by default all possible ones, on each kernel class when fitted to the others.

    Rows are never held out individually: sizes of one kernel are so similar that they predict each other. With more
    than :data:`loopyperf.calibration.accuracy.MOST_FOLDS` classes, several are held out at a time. Candidates of
    pipelines are also fitted to *beyond*, except the held-out classes, but never validated on it.

    :raises CalibrationError: there are fewer than two classes.
    """
    rows = tuple(observations)
    held_out = folds([row.kernel_class for row in rows])
    chosen = possible(rows) if candidates is None else tuple(candidates)
    bases: set[Basis] = {each.basis for each in chosen}
    training = {basis: training_observations(basis, rows, beyond) for basis in bases}
    posed = {
        basis: [
            (fold, pose_problem((row for row in training[basis] if row.kernel_class not in fold), basis))
            for fold in held_out
        ]
        for basis in bases
    }
    left_out = {each.name: _out_of_fold(each, rows, posed[each.basis]) for each in chosen}
    table = _table(rows, left_out)
    return Validated(table, left_out, {each.name: each for each in chosen})


def training_observations(
    basis: Basis, observations: Sequence[Observation], beyond: Sequence[Observation]
) -> tuple[Observation, ...]:
    """Return the observations for fits of *basis*: for pipelines, including kernels beyond the properties."""
    return (*observations, *beyond) if basis == "pipelines" else tuple(observations)


def _out_of_fold(
    candidate: FitRecipe, rows: Sequence[Observation], posed: Sequence[tuple[set[str], Problem]]
) -> OutOfFold:
    seconds, leverages = np.zeros(len(rows)), np.zeros(len(rows))
    unknown: list[tuple[str, ...]] = [()] * len(rows)
    for fold, problem in posed:
        solution = candidate.solve(problem)
        indices = [index for index, row in enumerate(rows) if row.kernel_class in fold]
        amounts = [rows[index].amounts(candidate.basis) for index in indices]
        seconds[indices] = solution.seconds(amounts)
        leverages[indices] = solution.leverages(amounts)
        for index, amount in zip(indices, amounts, strict=True):
            unknown[index] = solution.unknown(amount)
    return OutOfFold(seconds, leverages, tuple(unknown))


# {{{ the table


def _table(rows: Sequence[Observation], left_out: Mapping[str, OutOfFold]) -> CrossValidation:
    names = dict.fromkeys(row.kernel_class for row in rows)
    classes = tuple(_of_class(name, rows, left_out) for name in names)
    known = tuple(errors for errors in classes if errors.predictable)
    compared = known if len(known) >= MIN_COMPARED else classes
    return CrossValidation(
        classes=classes,
        compared=tuple(errors.kernel_class for errors in compared),
        errors={name: geometric_mean(each.errors[name] for each in compared) for name in left_out},
    )


def _of_class(name: str, rows: Sequence[Observation], left_out: Mapping[str, OutOfFold]) -> ClassErrors:
    indices = [index for index, row in enumerate(rows) if row.kernel_class == name]
    missing = {index: {each for found in left_out.values() for each in found.unknown[index]} for index in indices}
    predictable = [index for index in indices if not missing[index]]
    return ClassErrors(
        kernel_class=name,
        observations=len(indices),
        predictable=len(predictable),
        errors={
            candidate: geometric_mean(
                abs(found.seconds[index] - rows[index].seconds) / rows[index].seconds
                for index in predictable or indices
            )
            for candidate, found in left_out.items()
        },
        unknown=tuple(sorted({each for found in missing.values() for each in found})),
    )


# }}}


# }}}


# {{{ scores for prediction intervals, from held-out kernel classes; :mod:`loopyperf.calibration.accuracy` uses them


DIGITS = 6
"""significant digits of scores and covariances"""


def uncertainty(solution: Solution, observations: Sequence[Observation], left_out: OutOfFold) -> Uncertainty:
    """Return the data for prediction intervals of *solution*, given predictions of held-out classes."""
    ratios = left_out.seconds / np.array([row.seconds for row in observations])
    known = np.array([not missing for missing in left_out.unknown])
    chosen = known if known.any() else np.ones_like(known)
    errors = np.log(np.maximum(ratios, np.finfo(float).tiny))[chosen]
    unlike = np.sqrt(1 + left_out.leverages[chosen])
    classes = np.array([row.kernel_class for row in observations])[chosen]
    scores = np.sort(np.abs(errors) / unlike)
    return Uncertainty(
        scores=tuple(map(rounded, scores.tolist())),
        columns=tuple(solution.weights),
        covariance=tuple(tuple(map(rounded, row)) for row in solution.covariance.tolist()),
        deviations=tuple(sorted(map(rounded, _deviations(errors, unlike, classes).tolist()))),
    )


def _deviations(errors: Vector, unlike: Vector, classes: NDArray[np.str_]) -> Vector:
    """Return the deviation of each of *errors* from the mean of its class, for classes with several."""
    found: list[Vector] = []
    for each in np.unique(classes):
        own = classes == each
        number = int(own.sum())
        if number > 1:
            found.append((errors[own] - errors[own].mean()) / unlike[own] * np.sqrt(number / (number - 1)))
    return np.concatenate(found) if found else np.zeros(0)


def rounded(number: float) -> float:
    """Return *number* with the number of digits in files."""
    return float(f"{number:.{DIGITS}g}")


# }}}


def fit_observations(
    provenance: Provenance,
    observations: Sequence[Observation],
    candidates: Sequence[FitRecipe] | None = None,
    beyond: Sequence[Observation] = (),
) -> tuple[Fit, ...]:
    """Fit each model by its candidate that generalizes best, and return the fits, the best of all first.

    *candidates* are by default all for which *observations* have the columns. With a single kernel class nothing can be
    held out: the first candidate of each model is used, that of pipelines if there is one, without intervals. *beyond*
    are kernels whose time depends on something without a property: they are used only in fits of pipelines, and never
    for validation. Raises :class:`CalibrationError` if there is nothing to fit, or no candidate.
    """
    rows = tuple(observations)
    pose_problem(rows)  # checks the observations
    # The matrices are small: more threads would wait for each other and for other processes.
    with threadpool_limits(1, "blas"):
        return _fits(provenance, rows, candidates, tuple(beyond))


def _fits(
    provenance: Provenance,
    rows: Sequence[Observation],
    candidates: Sequence[FitRecipe] | None,
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
        make_fit(provenance, problems[each.basis], each, each.solve(problems[each.basis]), validated, rows)
        for each in dict.fromkeys(best)
    )


def make_fit(
    provenance: Provenance,
    problem: Problem,
    candidate: FitRecipe,
    solution: Solution,
    validated: Validated | None = None,
    judged: Sequence[Observation] | None = None,
) -> Fit:
    """Return the fit that records the *solution* of *problem* found by *candidate*.

    *validated* is of the observations *judged*, by default the problem's.
    """
    left_out = None if validated is None else validated.left_out[candidate.name]
    origin: dict[str, Any] = msgspec.structs.asdict(provenance) | {"model": candidate.model}
    plain = int if problem.basis == "counts" else float  # JSON does not support NumPy's integers
    amounts = [row.amounts(problem.basis) for row in problem.observations]
    every = {name: [amount.get(name, 0) for amount in amounts] for name in problem.properties}
    ranges = {name: (plain(min(filter(None, values))), plain(max(values))) for name, values in every.items()}
    magnitudes = [abs(residual) for residual in solution.residuals]
    return Fit(
        **origin,
        candidate=candidate.name,
        weights=solution.weights,
        sharpness=solution.sharpness,
        basis=solution.basis,
        undetermined=solution.undetermined,
        ranges=ranges,
        rank=solution.rank,
        condition=solution.condition,
        at_bound=solution.at_bound,
        options={name: getattr(solution, name) for name in ("non_negative", "ridge", "tolerance")},
        residual_summary=ResidualSummary(
            geometric_mean=geometric_mean(magnitudes),
            root_mean_square=math.sqrt(sum(size * size for size in magnitudes) / len(magnitudes)),
            worst=max(magnitudes),
        ),
        cross_validation=None if validated is None else validated.table,
        uncertainty=None if left_out is None else uncertainty(solution, judged or problem.observations, left_out),
        residuals=tuple(
            Residual(
                row.kernel_class,
                row.label,
                {name: int(value) for name, value in row.sizes.items()},
                float(row.seconds),
                residual,
            )
            for row, residual in zip(problem.observations, solution.residuals, strict=True)
        ),
    )
