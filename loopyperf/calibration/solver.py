"""Weights from measurements: relative-error least squares, plain or with weights that cannot be negative.

Scale column i of the problem's matrix A to unit length, ãᵢ = Aᵢ/‖Aᵢ‖, wᵢ = αᵢ‖Aᵢ‖, and leave out what cannot be told
apart (:mod:`loopyperf.calibration.dependence`). Then::

    minimise ‖1 − Ã w‖² + ρ² ‖w‖²        (non-negative fit: subject to w ≥ 0)

The ridge ρ is dimensionless, because 1, Ã and w are. Source: Stevens and Klöckner, section 4.3 (plain, ρ = 0).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy import linalg

from loopyperf.calibration.dependence import least_squares, non_negative_least_squares, separated
from loopyperf.calibration.problem import TOLERANCE, Matrix, Problem, Solution, Vector
from loopyperf.errors import CalibrationError

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
class Minimum:
    """Where a search ended."""

    cost: float
    parameters: Vector
    evaluation: Evaluation
    """there"""
    is_converged: bool
    """no step lowers the cost further; otherwise the search stopped after :data:`MOST_STEPS`"""


def minimise(
    evaluate: Callable[[Vector], Evaluation], begin: Vector, *, least: Vector, last_at_most: float, scale: float
) -> Minimum:
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
                return Minimum(here.cost, here.parameters, here.evaluation, is_converged=True)
            there = least + lowest
            found = _Point.of(there, evaluate(there), scale)
            gained = (here.cost - found.cost) / expected
            if gained > TAKEN:
                break
            damping, growth = damping * growth, growth * 2
        damping, growth = max(damping * max(1 / 3, 1 - (2 * gained - 1) ** 3), LIGHTEST), 2.0
        here = found
    return Minimum(here.cost, here.parameters, here.evaluation, is_converged=False)


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
