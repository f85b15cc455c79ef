"""How well fitted weights predict kernel classes that they were not fitted to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loopyperf.calibration.accuracy import ClassErrors, CrossValidation, least
from loopyperf.calibration.candidates import Candidate, possible
from loopyperf.calibration.folds import folds
from loopyperf.calibration.problem import Observation, Problem, Vector, pose_problem
from loopyperf.models.interface import Basis
from loopyperf.models.metrics import geometric_mean

FEWEST = 2
"""classes that are compared: what one alone tells, as that of empty kernels, is no choice"""


@dataclass(frozen=True, slots=True, eq=False)
class OutOfFold:
    """What a candidate says of each observation, fitted to other classes."""

    seconds: Vector
    """predicted, in the order of the observations"""
    leverages: Vector
    """variance of ln T from what was fitted (:meth:`loopyperf.calibration.solution.Solution.leverages`)"""
    unknown: tuple[tuple[str, ...], ...]
    """the properties that each needs a weight for, which the other classes do not determine"""


@dataclass(frozen=True, slots=True, eq=False)
class Validated:
    """A cross-validation with the predictions that it rests on."""

    table: CrossValidation
    left_out: Mapping[str, OutOfFold]
    """by candidate"""
    candidates: Mapping[str, Candidate]

    def better(self, model: str | None = None) -> Candidate:
        """Return the candidate that generalises best, of *model* if one is named."""
        named = {
            name: error for name, error in self.table.errors.items() if model in (None, self.candidates[name].model)
        }
        return self.candidates[least(named)]


def cross_validate(
    observations: Sequence[Observation],
    candidates: Sequence[Candidate] | None = None,
    beyond: Sequence[Observation] = (),
) -> Validated:
    """Return the errors of *candidates* on each kernel class, fitted to the others; by default of all possible ones.

    Never by row: sizes of one kernel are so alike that a row left out is predicted by its neighbours. Beyond
    :data:`loopyperf.calibration.folds.MOST_FOLDS` classes, several are left out at a time. Candidates of pipelines are
    fitted to those of *beyond* too that are of the other classes, and nobody is judged on them.

    :raises CalibrationError: there are fewer than two classes.
    """
    rows = tuple(observations)
    asked = folds([row.kernel_class for row in rows])
    chosen = possible(rows) if candidates is None else tuple(candidates)
    bases: set[Basis] = {each.basis for each in chosen}
    told = {basis: told_of(basis, rows, beyond) for basis in bases}
    posed = {basis: [(fold, _without(fold, told[basis], basis)) for fold in asked] for basis in bases}
    left_out = {each.name: _out_of_fold(each, rows, posed[each.basis]) for each in chosen}
    table = _table(rows, left_out)
    return Validated(table, left_out, {each.name: each for each in chosen})


def told_of(
    basis: Basis, observations: Sequence[Observation], beyond: Sequence[Observation]
) -> tuple[Observation, ...]:
    """Return what fits of *basis* are made from: of pipelines, also the kernels that no property stands for."""
    return (*observations, *beyond) if basis == "pipelines" else tuple(observations)


def _without(fold: set[str], rows: Sequence[Observation], basis: Basis) -> Problem:
    return pose_problem((row for row in rows if row.kernel_class not in fold), basis)


def _out_of_fold(
    candidate: Candidate, rows: Sequence[Observation], posed: Sequence[tuple[set[str], Problem]]
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
