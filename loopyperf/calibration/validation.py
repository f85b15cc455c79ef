"""How well fitted weights predict kernel classes that they were not fitted to, by candidate models and folds."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import (
    PIPELINES,
    PLAIN,
    ClassErrors,
    CrossValidation,
    Uncertainty,
    folds,
    geometric_mean,
)
from loopyperf.calibration.overlap_fit import solve, solve_overlap
from loopyperf.calibration.problem import Observation, Problem, Solution, Vector, pose_problem
from loopyperf.errors import LoopyperfWarning
from loopyperf.models.model_interface import Basis
from loopyperf.units import listed

# {{{ the models that measurements are fitted with, of which cross-validation chooses one


@dataclass(frozen=True, slots=True)
class FitRecipe:
    """A way to fit a model."""

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

NAMED = 3
"""measurements that a warning names at most"""
LACK: Mapping[Basis, str] = {
    "counts": "count them",
    "pipelines": "complete the device's description, which lacks a number that they need",
}
"""what to do about measurements without the columns of a basis"""


def possible(observations: Iterable[Observation], model: str | None = None) -> tuple[FitRecipe, ...]:
    """Return the candidates, of *model* if one is named, that *observations* have the columns for.

    Warns where only some have them: a few rows that lack pipelines take a whole way to fit from all.
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
            f"nothing is fitted to {basis}, because {len(lacking)} of {len(rows)} measurements have none: "
            f"{listed(which, NAMED, '; ')}; {LACK[basis]}, or leave them out",
            LoopyperfWarning,
            stacklevel=3,
        )


# }}}


# {{{ validation


FEWEST = 2
"""classes that are compared: what one alone tells, as that of empty kernels, is no choice"""


@dataclass(frozen=True, slots=True, eq=False)
class OutOfFold:
    """What a candidate says of each observation, fitted to other classes."""

    seconds: Vector
    """predicted, in the order of the observations"""
    leverages: Vector
    """variance of ln T from what was fitted (:meth:`loopyperf.calibration.problem.Solution.leverages`)"""
    unknown: tuple[tuple[str, ...], ...]
    """the properties that each needs a weight for, which the other classes do not determine"""


@dataclass(frozen=True, slots=True, eq=False)
class Validated:
    """A cross-validation with the predictions that it rests on."""

    table: CrossValidation
    left_out: Mapping[str, OutOfFold]
    """by candidate"""
    candidates: Mapping[str, FitRecipe]

    def better(self, model: str | None = None) -> FitRecipe:
        """Return the candidate that generalises best, of *model* if one is named."""
        named = [name for name, each in self.candidates.items() if model in (None, each.model)]
        return self.candidates[self.table.best(named)]


def cross_validate(
    observations: Sequence[Observation],
    candidates: Sequence[FitRecipe] | None = None,
    beyond: Sequence[Observation] = (),
) -> Validated:
    """Return the errors of *candidates* on each kernel class, fitted to the others; by default of all possible ones.

    Never by row: sizes of one kernel are so alike that a row left out is predicted by its neighbours. Beyond
    :data:`loopyperf.calibration.accuracy.MOST_FOLDS` classes, several are left out at a time. Candidates of pipelines
    are fitted to those of *beyond* too that are of the other classes, and nobody is judged on them.

    :raises CalibrationError: there are fewer than two classes.
    """
    rows = tuple(observations)
    asked = folds([row.kernel_class for row in rows])
    chosen = possible(rows) if candidates is None else tuple(candidates)
    bases: set[Basis] = {each.basis for each in chosen}
    told = {basis: training_observations(basis, rows, beyond) for basis in bases}
    posed = {basis: [(fold, _without(fold, told[basis], basis)) for fold in asked] for basis in bases}
    left_out = {each.name: _out_of_fold(each, rows, posed[each.basis]) for each in chosen}
    table = _table(rows, left_out)
    return Validated(table, left_out, {each.name: each for each in chosen})


def training_observations(
    basis: Basis, observations: Sequence[Observation], beyond: Sequence[Observation]
) -> tuple[Observation, ...]:
    """Return what fits of *basis* are made from: of pipelines, also the kernels that no property stands for."""
    return (*observations, *beyond) if basis == "pipelines" else tuple(observations)


def _without(fold: set[str], rows: Sequence[Observation], basis: Basis) -> Problem:
    return pose_problem((row for row in rows if row.kernel_class not in fold), basis)


def _out_of_fold(
    candidate: FitRecipe, rows: Sequence[Observation], posed: Sequence[tuple[set[str], Problem]]
) -> OutOfFold:
    seconds, leverages = np.zeros(len(rows)), np.zeros(len(rows))
    unknown: list[tuple[str, ...]] = [()] * len(rows)
    for fold, problem in posed:
        solution = candidate.solve(problem)
        places = [place for place, row in enumerate(rows) if row.kernel_class in fold]
        amounts = [rows[place].amounts(candidate.basis) for place in places]
        seconds[places] = solution.seconds(amounts)
        leverages[places] = solution.leverages(amounts)
        for place, each in zip(places, amounts, strict=True):
            unknown[place] = solution.unknown(each)
    return OutOfFold(seconds, leverages, tuple(unknown))


# {{{ the table


def _table(rows: Sequence[Observation], left_out: Mapping[str, OutOfFold]) -> CrossValidation:
    names = dict.fromkeys(row.kernel_class for row in rows)
    classes = tuple(_of_class(name, rows, left_out) for name in names)
    known = tuple(errors for errors in classes if errors.predictable)
    compared = known if len(known) >= FEWEST else classes
    return CrossValidation(
        classes=classes,
        compared=tuple(errors.kernel_class for errors in compared),
        errors={name: geometric_mean(each.errors[name] for each in compared) for name in left_out},
    )


def _of_class(name: str, rows: Sequence[Observation], left_out: Mapping[str, OutOfFold]) -> ClassErrors:
    places = [place for place, row in enumerate(rows) if row.kernel_class == name]
    missing = {place: {each for found in left_out.values() for each in found.unknown[place]} for place in places}
    predictable = [place for place in places if not missing[place]]
    return ClassErrors(
        kernel_class=name,
        observations=len(places),
        predictable=len(predictable),
        errors={
            candidate: geometric_mean(
                abs(found.seconds[place] - rows[place].seconds) / rows[place].seconds for place in predictable or places
            )
            for candidate, found in left_out.items()
        },
        unknown=tuple(sorted({each for found in missing.values() for each in found})),
    )


# }}}


# }}}


# {{{ the scores that intervals are made from, of kernel classes left out
#
# What is made of them is in :mod:`loopyperf.calibration.accuracy`.


DIGITS = 6
"""significant ones that are kept of a score and of the covariance"""


def uncertainty(solution: Solution, observations: Sequence[Observation], left_out: OutOfFold) -> Uncertainty:
    """Return what the intervals of *solution* are made from, given what it says of classes that were left out."""
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
    """Return how far each of *errors* is from the mean of its class, of classes that have several."""
    found: list[Vector] = []
    for each in np.unique(classes):
        own = classes == each
        number = int(own.sum())
        if number > 1:
            found.append((errors[own] - errors[own].mean()) / unlike[own] * np.sqrt(number / (number - 1)))
    return np.concatenate(found) if found else np.zeros(0)


def rounded(number: float) -> float:
    """Return *number* with as many digits as files keep."""
    return float(f"{number:.{DIGITS}g}")


# }}}
