"""Weights and sharpness of the overlap model from measurements, by non-linear least squares with analytic gradients.

    minimise Σⱼ ρ(ln(Tⱼ(w, p)/tⱼ)) + Σᵢ ρ((R (x − c))ᵢ),        x = (w/s, p),        w ≥ 0, 1 ≤ p ≤ 20

with T of :mod:`loopyperf.models.linear`, the measured times t, and ρ the soft L1 norm beyond 20 %: kernels that the
model does not explain have less to say. Scales s, centers c and the ridge R are the basis's. Weights of counts are
unknown beforehand: s makes the columns as long as in the linear fit, and weights are drawn to 0.

Of pipelines a prior says what they take: the device's description, by which each weight is 1, or a fit of another
device. R is the inverse square root of its covariance, in units of the error of a kernel: weights are drawn to it each
by itself, and less so all together, because a device may be slower as a whole. The sharpness is drawn too. So a fit of
a few kernels stays near the prior, and a pipeline of which nothing was measured takes what the prior says.

Weights from measurements: relative-error least squares, plain or with weights that cannot be negative.

Scale column i of the problem's matrix A to unit length, ãᵢ = Aᵢ/‖Aᵢ‖, wᵢ = αᵢ‖Aᵢ‖, and leave out what cannot be told
apart (:mod:`loopyperf.calibration.dependence`). Then::

    minimise ‖1 − Ã w‖² + ρ² ‖w‖²        (non-negative fit: subject to w ≥ 0)

The ridge ρ is dimensionless, because 1, Ã and w are. Source: Stevens and Klöckner, section 4.3 (plain, ρ = 0).
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
from scipy import linalg

from loopyperf.calibration.dependence import least_squares, non_negative_least_squares, separated
from loopyperf.calibration.problem import TOLERANCE, Indistinguishable, Matrix, Problem, Solution, Vector
from loopyperf.errors import CalibrationError, ConvergenceWarning
from loopyperf.models.linear import DESCRIBED, Overlapped, curvatures, overlapped, side
from loopyperf.models.model_interface import Fitted
from loopyperf.models.workload import LAUNCHES, LAUNCHING

# {{{ robust non-linear least squares with bounds
#
# Levenberg and Marquardt's steps, each of them a non-negative problem.
#
#     minimise c(x) = Σⱼ s²·(√(1 + (fⱼ(x)/s)²) − 1),        x ≥ b, the last component at most u
#
# Near x, with weights tⱼ = 1 + (fⱼ/s)², g = Σⱼ tⱼ^(−1/2) fⱼ ∇fⱼ, and H = Σⱼ tⱼ^(−3/2) ∇fⱼ ∇fⱼᵀ, to whose diagonal
# Σⱼ tⱼ^(−1/2) fⱼ ∂²fⱼ/∂xᵢ² is added where it is above 0, a step d minimises
#
#     gᵀd + dᵀ(H + μ diag H)d / 2        subject to the bounds of x + d
#
# which by the triangular factor of H + μ diag H is a non-negative least-squares problem with one answer. So a parameter
# lies on its bound after one step, where methods that stay inside of the bounds come near it by halves: of a thousand
# kernels and 150 weights, of which a third is 0, they took thousands of steps, and stopped short.
#
# Second derivatives are for minima near a bound where f bends sharply: that of a smooth maximum of exponent p goes as
# w^(p − 2) with a small weight w, for p < 2 without limit, and blind to it the search crept for a thousand steps.
#
# Damping μ begins at 1, since longer first steps end in minima that are higher, and follows H. B. Nielsen, Damping
# Parameter in Marquardt's Method, 1999; the approximate H is Triggs et al., Bundle Adjustment, 2000, section 4.3.


DAMPED = 1.0
"""μ of the first step: the diagonal counts twice"""
LIGHTEST = 1e-12
"""least μ, at which H has a factor still; also the least element of its diagonal, relative to the greatest"""
CONVERGED = 1e-13
"""of the cost: what a last step would have taken from it"""
MOST_STEPS = 1000
"""after which what was found so far is taken"""
TAKEN = 1e-4
"""share of the expected decrease from which on a step is taken"""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Residuals at a point, and their derivatives where these are asked for."""

    residuals: Vector
    jacobian: Callable[[], Matrix]
    """(residuals × parameters)"""
    curvature: Callable[[Vector], Vector]
    """factors aⱼ of the residuals -> Σⱼ aⱼ ∂²fⱼ/∂xᵢ² of each parameter, or 0 where it is left out"""


@dataclass(frozen=True, slots=True)
class SolverResult:
    """Where a search ended."""

    cost: float
    parameters: Vector
    evaluation: Evaluation
    """there"""
    is_converged: bool
    """no step lowers the cost further; otherwise the search stopped after :data:`MOST_STEPS`"""


def minimise(
    evaluate: Callable[[Vector], Evaluation], begin: Vector, *, least: Vector, last_at_most: float, scale: float
) -> SolverResult:
    """Return the minimum of the cost c above that a search from *begin* finds.

    *least* is b, *last_at_most* u, *scale* s; all of *begin* is within them.
    """
    here = _Point.of(begin, evaluate(begin), scale)
    damping, growth = DAMPED, 2.0
    for _ in range(MOST_STEPS):
        quadratic = _Quadratic.at(here, scale)
        while True:
            above = here.parameters - least
            lowest = quadratic.lowest(above, damping, last_at_most - least[-1])
            expected = quadratic.decrease(lowest - above)
            if expected <= CONVERGED * here.cost:
                return SolverResult(here.cost, here.parameters, here.evaluation, is_converged=True)
            there = least + lowest
            found = _Point.of(there, evaluate(there), scale)
            gained = (here.cost - found.cost) / expected
            if gained > TAKEN:
                break
            damping, growth = damping * growth, growth * 2
        damping, growth = max(damping * max(1 / 3, 1 - (2 * gained - 1) ** 3), LIGHTEST), 2.0
        here = found
    return SolverResult(here.cost, here.parameters, here.evaluation, is_converged=False)


@dataclass(frozen=True, slots=True)
class _Point:
    parameters: Vector
    evaluation: Evaluation
    cost: float

    @classmethod
    def of(cls, parameters: Vector, evaluation: Evaluation, scale: float) -> "_Point":
        squares = (evaluation.residuals / scale) ** 2
        # √(1 + q) − 1, where small residuals do not cancel
        return cls(parameters, evaluation, float(scale**2 * (squares / (np.sqrt(1 + squares) + 1)).sum()))


@dataclass(frozen=True, slots=True)
class _Quadratic:
    """The cost near a point, less what it is there."""

    gradient: Vector
    hessian: Matrix
    diagonal: Vector

    @classmethod
    def at(cls, point: _Point, scale: float) -> "_Quadratic":
        residuals, jacobian = point.evaluation.residuals, point.evaluation.jacobian()
        grown = 1 + (residuals / scale) ** 2
        factors = residuals / np.sqrt(grown)
        weighted = jacobian * (grown**-0.75)[:, None]
        curvature = point.evaluation.curvature(factors)
        used = np.where(np.isfinite(curvature) & (curvature > 0), curvature, 0.0)
        hessian = weighted.T @ weighted + np.diag(used)
        diagonal = np.diag(hessian)
        return cls(jacobian.T @ factors, hessian, np.maximum(diagonal, LIGHTEST * diagonal.max()))

    def lowest(self, above: Vector, damping: float, last: float) -> Vector:
        """Return how far above their bounds the parameters are at the damped minimum, if here they are *above*.

        The last one is at most *last* above its own. Of a convex function, the minimum under one more bound is on it
        where the bound matters.
        """
        damped = self.hessian + np.diag(damping * self.diagonal)
        factor = cast("Matrix", linalg.cholesky(damped))
        target = cast("Vector", linalg.solve_triangular(factor, damped @ above - self.gradient, trans=1))
        found = non_negative_least_squares(factor, target)
        if found[-1] > last:
            return np.append(non_negative_least_squares(factor[:, :-1], target - last * factor[:, -1]), last)
        return found

    def decrease(self, step: Vector) -> float:
        """Return by how much the cost falls by *step*, undamped."""
        return -float(self.gradient @ step + step @ self.hessian @ step / 2)


# }}}


# {{{ solver


RIDGE = 1e-2
"""Default ρ of the non-negative fit: expected noise over expected size of a scaled weight, 1 % over 1. A combination of
columns with singular value σ is shrunk by ρ²/(σ² + ρ²): 0.01 % where σ = 1, far below the noise, and by half where
σ = ρ, which is where noise decides. It also makes the minimum unique."""


def solve(
    problem: Problem, *, non_negative: bool = True, ridge: float | None = None, tolerance: float = TOLERANCE
) -> Solution:
    """Return the weights, in seconds per unit, that predict the problem's run times with the least relative error.

    *ridge* is ρ above (dimensionless), by default :data:`RIDGE` for the non-negative fit and 0 for the plain one;
    *tolerance* is the least own part of a column that is fitted (:mod:`loopyperf.calibration.dependence`).

    :raises CalibrationError: *ridge* or *tolerance* is out of range.
    """
    ridge = (RIDGE if non_negative else 0.0) if ridge is None else ridge
    _check_options(ridge, tolerance)
    kept, undetermined = separated(problem, tolerance)
    names = [problem.properties[column] for column in kept]
    matrix = problem.matrix[:, kept]
    scale = np.linalg.norm(matrix, axis=0)
    # The triangular factor has the same singular values, and far fewer rows.
    triangular = cast("Matrix", linalg.qr(matrix / scale, mode="r")[0])[: len(kept)]
    singular = np.linalg.svd(triangular, compute_uv=False)
    weights = _minimise(matrix / scale, non_negative, ridge) / scale
    information = (matrix / scale).T @ (matrix / scale) + ridge**2 * np.eye(len(names))
    covariance = cast("Matrix", np.linalg.pinv(information, hermitian=True)) / np.outer(scale, scale)
    return Solution(
        model="linear",
        weights=dict(zip(names, weights.tolist(), strict=True)),
        covariance=np.pad(covariance, (0, 1)),
        undetermined=undetermined,
        absent=problem.absent,
        rank=len(kept),
        condition=float(singular[0] / singular[-1]),
        residuals=tuple((1.0 - matrix @ weights).tolist()),
        at_bound=tuple(name for name, weight in zip(names, weights, strict=True) if non_negative and weight == 0),
        non_negative=non_negative,
        ridge=ridge,
        tolerance=tolerance,
    )


def _minimise(columns: Matrix, non_negative: bool, ridge: float) -> Vector:
    """Return the scaled weights w; the ridge is so many more rows that ask each of them to be 0."""
    rows, width = columns.shape
    augmented = np.vstack([columns, ridge * np.eye(width)])
    target = np.concatenate([np.ones(rows), np.zeros(width)])
    return (non_negative_least_squares if non_negative else least_squares)(augmented, target)


def _check_options(ridge: float, tolerance: float) -> None:
    if not (math.isfinite(ridge) and ridge >= 0):
        raise CalibrationError(f"the ridge must be a number of at least 0, for example {RIDGE}, but is {ridge}")
    if not 0 < tolerance < 1:
        raise CalibrationError(f"the tolerance must be between 0 and 1, for example {TOLERANCE}, but is {tolerance}")


# }}}


EXPLAINED = 0.2
"""|ln| of predicted over measured time up to which an error counts by its square"""
SHARPEST = 20.0
"""at which the smooth maximum of two equal parts is 3.5 % above them"""
STARTS = (1.5, 4.0)
"""sharpness that the search begins from"""
FURTHER_STARTS = (1.0, 2.5, 8.0, 16.0)
"""the same, where the best of those searches stopped before it came to a minimum"""
DRAWN = 2.0
"""r of pipelines: that one takes 10 % more than the prior says is as bad as a kernel predicted 20 % wrong"""
TOGETHER = 4.0
"""by how many times as much all pipelines together may differ from the prior as one of them by itself"""
SHARPNESS = 2.0
"""p of pipelines where no fit says another: the root of the sum of squares"""
SHARPNESS_DRAWN = 2.0
"""r of the sharpness, relative to the prior's"""
LAUNCH = 5e-6
"""s of launches beside pipelines, in seconds: what one costs where nobody has said"""
LAUNCH_DRAWN = 0.3
"""r of launches, of whose cost no prior says much: another driver has another"""
LEAST_SCALE = 0.2
"""of what is described: s of a pipeline that the prior says to take next to nothing"""
LEAST = 1e-3
"""of its scale, at which a weight begins that the linear fit holds at 0, where the smooth maximum does not grow"""


@dataclass(frozen=True, slots=True)
class _Fitted:
    """What is being fitted, in the problem's order of columns."""

    amounts: Matrix
    """(observations × columns), in scales: amounts times s"""
    measured: Vector
    sides: tuple[str | None, ...]
    center: Vector
    """of the weights in scales, then of the sharpness"""
    ridge: Matrix
    """(errors × parameters)"""

    def evaluate(self, parameters: Vector) -> Evaluation:
        """Return the errors, of observations and then of weights, at the weights in scales and then the sharpness."""
        found = overlapped(self.amounts * parameters[:-1], self.sides, parameters[-1])
        drawn = self.ridge @ (parameters - self.center)
        residuals = np.concatenate([np.log(found.seconds / self.measured), drawn])
        return Evaluation(residuals, partial(self._jacobian, found), partial(self._curvature, found, parameters))

    def _jacobian(self, found: Overlapped) -> Matrix:
        rows, width = self.amounts.shape
        slopes = np.zeros((rows, width + 1))
        slopes[:, :width] = self.amounts * (found.factors / found.seconds[:, None])
        slopes[:, width] = found.by_sharpness / found.seconds
        return np.vstack([slopes, self.ridge])

    def _curvature(self, found: Overlapped, parameters: Vector, factors: Vector) -> Vector:
        """Return Σⱼ *factors*ⱼ ∂²fⱼ/∂xᵢ² of the weights, and 0 for the sharpness, of which it is left out."""
        seconds = found.seconds[:, None]
        by_cost = curvatures(self.amounts * parameters[:-1], self.sides, parameters[-1], found) / seconds
        of_logarithms = self.amounts**2 * (by_cost - (found.factors / seconds) ** 2)
        return np.append(factors[: len(seconds)] @ of_logarithms, 0.0)

    def minimum(self, begin: Vector) -> SolverResult:
        least = np.append(np.zeros(len(begin) - 1), 1.0)
        return minimise(self.evaluate, begin, least=least, last_at_most=SHARPEST, scale=EXPLAINED)


def solve_overlap(problem: Problem, prior: Fitted | None = None) -> Solution:
    """Return the weights and the sharpness that predict the problem's run times with the least error of logarithms.

    Columns that cannot be told apart are one for counts, as in the linear fit. Pipelines all have their weight, and so
    has each of *prior*, a fit of pipelines: they are drawn to its weights and its sharpness, by default to what is
    described.

    :raises CalibrationError: as :func:`loopyperf.calibration.overlap_fit.solve` does.
    """
    posed = _of_counts(problem) if problem.basis == "counts" else _of_pipelines(problem, prior)
    found = _best(posed.task, posed.first)
    *best, sharpness = found.parameters.tolist()
    singular = np.linalg.svd(posed.task.amounts / posed.task.measured[:, None], compute_uv=False)
    told = singular[singular > np.finfo(float).eps * singular[0]]  # nothing was measured of some pipelines of a prior
    errors = found.evaluation.residuals[: len(posed.task.measured)]
    return Solution(
        model="overlap",
        weights=dict(zip(posed.columns, (best * posed.scales).tolist(), strict=True)),
        covariance=_covariance(found, posed.scales),
        undetermined=posed.undetermined,
        absent=problem.absent,
        rank=len(posed.columns),
        condition=float(told[0] / told[-1]),
        residuals=tuple((1.0 - np.exp(errors)).tolist()),
        at_bound=tuple(name for name, value in zip(posed.columns, best, strict=True) if value == 0),
        non_negative=True,
        ridge=posed.ridge,
        tolerance=TOLERANCE,
        sharpness=sharpness,
        basis=problem.basis,
    )


@dataclass(frozen=True, slots=True)
class _Posed:
    """What is fitted of a problem."""

    task: _Fitted
    columns: tuple[str, ...]
    scales: Vector
    first: Vector
    """weights in scales that the search begins from"""
    ridge: float
    """r"""
    undetermined: tuple[Indistinguishable, ...] = ()


def _of_counts(problem: Problem) -> _Posed:
    kept, undetermined = separated(problem, TOLERANCE)
    columns = tuple(problem.properties[column] for column in kept)
    rates = problem.matrix[:, kept]
    scales = cast("Vector", 1 / np.linalg.norm(rates, axis=0))
    width = len(columns)
    task = _task(problem, columns, rates * scales, np.zeros(width + 1), RIDGE * np.eye(width, width + 1))
    linear: Mapping[str, float] = solve(problem).weights
    first = np.maximum(np.array([linear[name] for name in columns]) / scales, LEAST)
    return _Posed(task, columns, scales, first, RIDGE, undetermined)


def _of_pipelines(problem: Problem, prior: Fitted | None) -> _Posed:
    weights: Mapping[str, float] = {} if prior is None else prior.weights
    sharpness = SHARPNESS if prior is None else prior.sharpness
    columns: tuple[str, ...] = tuple(dict.fromkeys((*problem.properties, *weights)))
    rates = np.pad(problem.matrix, ((0, 0), (0, len(columns) - len(problem.properties))))
    described = np.array([LAUNCH if name == LAUNCHES else DESCRIBED for name in columns])
    believed = np.array([weights.get(name, each) for name, each in zip(columns, described, strict=True)])
    scales = np.maximum(believed, LEAST_SCALE * described)
    center = np.append(believed / scales, sharpness)
    task = _task(problem, columns, rates * scales, center, _ridge(columns, center))
    return _Posed(task, columns, scales, np.maximum(center[:-1], LEAST), DRAWN)


def _ridge(columns: tuple[str, ...], center: Vector) -> Matrix:
    """Return R of pipelines: along their common factor it is less by how much more they may differ together."""
    of_device = np.array([name not in LAUNCHING for name in columns])
    common = np.where(of_device, center[:-1], 0.0)
    common /= max(float(np.linalg.norm(common)), LEAST)
    each = np.eye(len(columns)) - (1 - 1 / math.hypot(1, TOGETHER)) * np.outer(common, common)
    drawn = np.where(of_device, DRAWN, LAUNCH_DRAWN)[:, None] * each
    return cast("Matrix", linalg.block_diag(drawn, SHARPNESS_DRAWN / center[-1]))


def _best(task: _Fitted, first: Vector) -> SolverResult:
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


def _task(problem: Problem, columns: tuple[str, ...], scaled: Matrix, center: Vector, ridge: Matrix) -> _Fitted:
    """Return what is fitted: *scaled* are the rates of *columns*, each over the time of its row, in scales."""
    measured = np.array([row.seconds for row in problem.observations], dtype=np.float64)
    sides = tuple(side(name, problem.basis) for name in columns)
    return _Fitted(scaled * measured[:, None], measured, sides, center, ridge)


def _covariance(found: SolverResult, scales: Vector) -> Matrix:
    """Return the covariance of the weights and the sharpness, but for the factor of the scatter."""
    slopes, factors = found.evaluation.jacobian(), np.append(scales, 1.0)
    # Where nothing depends on the sharpness, nothing is known of it, and nothing is to be multiplied by that.
    return cast("Matrix", np.linalg.pinv(slopes.T @ slopes, hermitian=True)) * np.outer(factors, factors)
