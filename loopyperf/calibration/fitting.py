"""Fit models to observations: select, solve, validate, and record everything in fits."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
from threadpoolctl import threadpool_limits

from loopyperf.calibration.accuracy import geometric_mean
from loopyperf.calibration.fits import Fit, Provenance, Residual, ResidualSummary
from loopyperf.calibration.problem import Observation, Problem, Solution, pose_problem
from loopyperf.calibration.validation import (
    FitRecipe,
    Validated,
    cross_validate,
    possible,
    training_observations,
    uncertainty,
)
from loopyperf.errors import CalibrationError


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
    every = {name: [each.get(name, 0) for each in amounts] for name in problem.properties}
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
