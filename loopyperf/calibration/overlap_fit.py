"""Weights and sharpness of the overlap model from measurements, by non-linear least squares with analytic gradients.

    minimise Σⱼ ρ(ln(Tⱼ(w, p)/tⱼ)) + Σᵢ ρ(r (wᵢ/sᵢ − cᵢ)),        w ≥ 0, 1 ≤ p ≤ 20

with T of :mod:`loopyperf.models.overlap`, the measured times t, and ρ the soft L1 norm beyond 20 %: kernels that the
model does not explain have less to say. Scales s, centres c and the ridge r are the basis's. Of counts nobody knows a
weight beforehand: s makes the columns as long as in the linear fit, and weights are drawn to 0. Of pipelines the
device's description says what they take: weights are drawn to 1, and a pipeline of which nothing was measured takes
what it is described to take.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from loopyperf.calibration.dependence import separated
from loopyperf.calibration.problem import TOLERANCE, Indistinguishable, Matrix, Problem, Solution, Vector
from loopyperf.calibration.solver import MOST_STEPS, RIDGE, Evaluation, Minimum, minimise, solve
from loopyperf.errors import ConvergenceWarning
from loopyperf.models.interface import Basis
from loopyperf.models.overlap import DESCRIBED, Overlapped, curvatures, overlapped, side
from loopyperf.models.workload import LAUNCHES

EXPLAINED = 0.2
"""|ln| of predicted over measured time up to which an error counts by its square"""
SHARPEST = 20.0
"""at which the smooth maximum of two equal parts is 3.5 % above them"""
STARTS = (1.5, 4.0)
"""sharpness that the search begins from"""
FURTHER_STARTS = (1.0, 2.5, 8.0, 16.0)
"""the same, where the best of those searches stopped before it came to a minimum"""
DRAWN = 0.3
"""r of pipelines: that one takes twice what is described is as bad as a kernel predicted 30 % wrong"""
LAUNCH = 5e-6
"""s of launches beside pipelines, in seconds: what one costs where nobody has said"""
LEAST = 1e-3
"""of its scale, at which a weight begins that the linear fit holds at 0, where the smooth maximum does not grow"""


@dataclass(frozen=True, slots=True)
class _Fitted:
    """What is being fitted, in the problem's order of columns."""

    amounts: Matrix
    """(observations × columns), in scales: amounts times s"""
    measured: Vector
    sides: tuple[str | None, ...]
    centre: float
    ridge: float

    def evaluate(self, parameters: Vector) -> Evaluation:
        """Return the errors, of observations and then of weights, at the weights in scales and then the sharpness."""
        found = overlapped(self.amounts * parameters[:-1], self.sides, parameters[-1])
        drawn = self.ridge * (parameters[:-1] - self.centre)
        residuals = np.concatenate([np.log(found.seconds / self.measured), drawn])
        return Evaluation(residuals, partial(self._jacobian, found), partial(self._curvature, found, parameters))

    def _jacobian(self, found: Overlapped) -> Matrix:
        rows, width = self.amounts.shape
        slopes = np.zeros((rows + width, width + 1))
        slopes[:rows, :width] = self.amounts * (found.factors / found.seconds[:, None])
        slopes[:rows, width] = found.by_sharpness / found.seconds
        np.fill_diagonal(slopes[rows:], self.ridge)
        return slopes

    def _curvature(self, found: Overlapped, parameters: Vector, factors: Vector) -> Vector:
        """Return Σⱼ *factors*ⱼ ∂²fⱼ/∂xᵢ² of the weights, and 0 for the sharpness, of which it is left out."""
        seconds = found.seconds[:, None]
        by_cost = curvatures(self.amounts * parameters[:-1], self.sides, parameters[-1], found) / seconds
        of_logarithms = self.amounts**2 * (by_cost - (found.factors / seconds) ** 2)
        return np.append(factors[: len(seconds)] @ of_logarithms, 0.0)

    def minimum(self, begin: Vector) -> Minimum:
        least = np.append(np.zeros(len(begin) - 1), 1.0)
        return minimise(self.evaluate, begin, least=least, last_at_most=SHARPEST, scale=EXPLAINED)


def solve_overlap(problem: Problem) -> Solution:
    """Return the weights and the sharpness that predict the problem's run times with the least error of logarithms.

    Columns that cannot be told apart are one for counts, as in the linear fit; pipelines all have their
    weight, drawn to what is described.

    :raises CalibrationError: as :func:`loopyperf.calibration.solver.solve` does.
    """
    kept, undetermined = _kept(problem)
    columns = tuple(problem.properties[column] for column in kept)
    rates = problem.matrix[:, kept]
    scales = _scales(rates, columns, problem.basis)
    task = _task(problem, columns, rates * scales)
    first = _begin(problem, columns, scales)
    found = _best(task, first)
    *best, sharpness = found.parameters.tolist()
    singular = np.linalg.svd(rates * scales, compute_uv=False)
    errors = found.evaluation.residuals[: len(task.measured)]
    return Solution(
        model="overlap",
        weights=dict(zip(columns, (best * scales).tolist(), strict=True)),
        covariance=_covariance(found, scales),
        undetermined=undetermined,
        absent=problem.absent,
        rank=len(kept),
        condition=float(singular[0] / singular[-1]),
        residuals=tuple((1.0 - np.exp(errors)).tolist()),
        at_bound=tuple(name for name, value in zip(columns, best, strict=True) if value == 0),
        non_negative=True,
        ridge=task.ridge,
        tolerance=TOLERANCE,
        sharpness=sharpness,
        basis=problem.basis,
    )


def _best(task: _Fitted, first: Vector) -> Minimum:
    """Return the lowest minimum found from the weights *first*, by more searches where the first ones stopped short.

    Warns :class:`ConvergenceWarning` where the lowest of all stopped short too.
    """
    found = min((task.minimum(np.append(first, p)) for p in STARTS), key=lambda found: found.cost)
    if not found.is_converged:
        begins = (found.parameters, *(np.append(first, p) for p in FURTHER_STARTS))
        found = min(found, *map(task.minimum, begins), key=lambda found: found.cost)
    if not found.is_converged:
        starts = len(STARTS) + 1 + len(FURTHER_STARTS)
        warnings.warn(
            f"the search for {len(first)} weights of the overlap model stopped after {MOST_STEPS} steps from each of "
            f"{starts} starts, at no minimum: the weights are the best ones found. Measure more kinds of kernels, or "
            "fit fewer properties",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found


def _task(problem: Problem, columns: tuple[str, ...], scaled: Matrix) -> _Fitted:
    """Return what is fitted: *scaled* are the rates of *columns*, each over the time of its row, in scales."""
    measured = np.array([row.seconds for row in problem.observations], dtype=np.float64)
    by_pipelines = problem.basis == "pipelines"
    return _Fitted(
        amounts=scaled * measured[:, None],
        measured=measured,
        sides=tuple(side(name, problem.basis) for name in columns),
        centre=DESCRIBED if by_pipelines else 0.0,
        ridge=DRAWN if by_pipelines else RIDGE,
    )


def _covariance(found: Minimum, scales: Vector) -> Matrix:
    """Return the covariance of the weights and the sharpness, but for the factor of the scatter."""
    slopes, factors = found.evaluation.jacobian(), np.append(scales, 1.0)
    # Where nothing depends on the sharpness, nothing is known of it, and nothing is to be multiplied by that.
    return cast("Matrix", np.linalg.pinv(slopes.T @ slopes, hermitian=True)) * np.outer(factors, factors)


def _kept(problem: Problem) -> tuple[list[int], tuple[Indistinguishable, ...]]:
    if problem.basis == "pipelines":
        return list(range(len(problem.properties))), ()
    return separated(problem, TOLERANCE)


def _scales(rates: Matrix, columns: tuple[str, ...], basis: Basis) -> Vector:
    if basis == "pipelines":
        return np.array([LAUNCH if name == LAUNCHES else DESCRIBED for name in columns])
    return cast("Vector", 1 / np.linalg.norm(rates, axis=0))


def _begin(problem: Problem, columns: tuple[str, ...], scales: Vector) -> Vector:
    """Return weights in scales that the search begins from: of counts, those of the linear fit."""
    if problem.basis == "pipelines":
        return np.ones(len(columns))
    linear: Mapping[str, float] = solve(problem).weights
    found = np.array([linear[name] for name in columns]) / scales
    return np.maximum(found, LEAST)
