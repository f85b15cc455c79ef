"""Robust non-linear least squares with bounds: Levenberg and Marquardt's steps, each of them a non-negative problem.

    minimise c(x) = Σⱼ s²·(√(1 + (fⱼ(x)/s)²) − 1),        x ≥ b, the last component at most u

Near x, with weights tⱼ = 1 + (fⱼ/s)², g = Σⱼ tⱼ^(−1/2) fⱼ ∇fⱼ, and H = Σⱼ tⱼ^(−3/2) ∇fⱼ ∇fⱼᵀ, to whose diagonal
Σⱼ tⱼ^(−1/2) fⱼ ∂²fⱼ/∂xᵢ² is added where it is above 0, a step d minimises

    gᵀd + dᵀ(H + μ diag H)d / 2        subject to the bounds of x + d

which by the triangular factor of H + μ diag H is a non-negative least-squares problem with one answer. So a parameter
lies on its bound after one step, where methods that stay inside of the bounds come near it by halves: of a thousand
kernels and 150 weights, of which a third is 0, they took thousands of steps, and stopped short.

Second derivatives are for minima near a bound where f bends sharply: that of a smooth maximum of exponent p goes as
w^(p − 2) with a small weight w, for p < 2 without limit, and blind to it the search crept for a thousand steps.

Damping μ begins at 1, since longer first steps end in minima that are higher, and follows H. B. Nielsen, Damping
Parameter in Marquardt's Method, 1999; the approximate H is Triggs et al., Bundle Adjustment, 2000, section 4.3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy import linalg

from loopyperf.calibration.least_squares import non_negative_least_squares
from loopyperf.calibration.problem import Matrix, Vector

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
