"""From observations to a fit: the model is chosen, fitted, judged, and everything is kept."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from threadpoolctl import threadpool_limits

from loopyperf.calibration.candidates import Candidate, possible
from loopyperf.calibration.coverage import coverage
from loopyperf.calibration.exercised import Coverage
from loopyperf.calibration.fits import Fit, Provenance, Residual, ResidualSummary
from loopyperf.calibration.intervals.scores import uncertainty
from loopyperf.calibration.problem import Observation, Problem, pose_problem
from loopyperf.calibration.solution import Solution
from loopyperf.calibration.validation import Validated, cross_validate, told_of
from loopyperf.errors import CalibrationError
from loopyperf.models.metrics import geometric_mean


def fit_observations(
    provenance: Provenance,
    observations: Sequence[Observation],
    candidates: Sequence[Candidate] | None = None,
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
        return _fits(provenance, rows, candidates, coverage(counts, expected), tuple(beyond))


def _fits(
    provenance: Provenance,
    rows: Sequence[Observation],
    candidates: Sequence[Candidate] | None,
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
        first: dict[str, Candidate] = {}
        for each in sorted(chosen, key=lambda each: each.basis != "pipelines"):
            first.setdefault(each.model, each)
        best = list(first.values())
    else:
        validated = cross_validate(rows, chosen, beyond)
        best = [validated.better(), *map(validated.better, models)]
    problems = {each.basis: pose_problem(told_of(each.basis, rows, beyond), each.basis) for each in best}
    return tuple(
        make_fit(provenance, problems[each.basis], each, each.solve(problems[each.basis]), validated, covered, rows)
        for each in dict.fromkeys(best)
    )


def make_fit(
    provenance: Provenance,
    problem: Problem,
    candidate: Candidate,
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
