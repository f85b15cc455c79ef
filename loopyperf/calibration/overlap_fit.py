"""Solvers for the weights of the linear and overlap models.

Overlap model: weights and sharpness by non-linear least squares with analytic gradients:

    minimize Σⱼ ρ(ln(Tⱼ(w, p)/tⱼ)) + Σᵢ ρ((R (x − c))ᵢ),        x = (w/s, p),        w ≥ 0, 1 ≤ p ≤ 20

with T of :mod:`loopyperf.models.linear`, the measured times t, and ρ the soft L1 norm beyond 20 %, which gives kernels
that the model does not explain less influence. Scales s, centers c and the ridge R depend on the basis. Weights of
counts have no prior: s makes the columns as long as in the linear fit, and weights are regularized toward 0.

Weights of pipelines have a prior: the device parameters, for which each weight is 1, or a fit of another device. R is
the inverse square root of the prior's covariance, in units of the error of a kernel: weights are regularized toward the
prior individually, and less strongly in common, because a device may be slower as a whole. The sharpness is regularized
too. So a fit of a few kernels stays near the prior, and a pipeline without measurements keeps its prior weight.

Linear model: weights by least squares of the relative errors, plain or non-negative. Scale column i of the problem's
matrix A to unit length, ãᵢ = Aᵢ/‖Aᵢ‖, wᵢ = αᵢ‖Aᵢ‖, and exclude indistinguishable columns.
Then::

    minimize ‖1 − Ã w‖² + ρ² ‖w‖²        (non-negative fit: subject to w ≥ 0)

The ridge ρ is dimensionless, because 1, Ã and w are. Source: Stevens and Klöckner, section 4.3 (plain, ρ = 0).
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import cast

import numpy as np
from scipy import linalg, optimize

from loopyperf.calibration.problem import TOLERANCE, Indistinguishable, Matrix, Problem, Solution, Vector
from loopyperf.errors import CalibrationError, ConvergenceWarning
from loopyperf.models.linear import DESCRIBED, Overlapped, curvatures, overlapped, side
from loopyperf.models.model_interface import Fitted
from loopyperf.models.workload import LAUNCHES, LAUNCHING

# {{{ linear least squares, plain and non-negative, as typed functions


def least_squares(columns: Matrix, target: Vector) -> Vector:
    """Return the coefficients of *columns* whose combination is closest to *target*."""
    return cast("tuple[Vector, ...]", linalg.lstsq(columns, target))[0]


def non_negative_least_squares(columns: Matrix, target: Vector) -> Vector:
    """Return the non-negative coefficients of *columns* whose combination is closest to *target*."""
    return cast("Vector", optimize.nnls(columns, target)[0])


# }}}


# {{{ properties that the measured kernels cannot distinguish
#
# Let a₁…aₙ be the columns of the problem, scaled to unit length. Column j's own part is its distance from the span of
# the others:
#
#     εⱼ = min over c of ‖aⱼ − Σ_{i≠j} cᵢ aᵢ‖        (1/εⱼ² is its variance inflation factor)
#
# Measurement noise s changes a scaled weight by s/εⱼ. If εⱼ is 0, the weight is arbitrary; if it is below s, it is
# arbitrary in practice. Such columns are excluded one by one, the rest is fitted, and the relation that made them
# redundant is kept (:class:`loopyperf.calibration.problem.Indistinguishable`).


_SINGULAR = 1e-12
"""Singular values of unit columns below this are rounding errors of 0."""
_ROUNDING = 1e-9
"""Coefficients of unit columns below this are rounding errors of an exact dependency."""


@lru_cache(maxsize=32)
def separated(problem: Problem, tolerance: float) -> tuple[list[int], tuple[Indistinguishable, ...]]:
    """Return the columns of *problem* to fit and the indistinguishable ones; cached for all candidates."""
    return separate(problem.matrix, problem.properties, tolerance)


def separate(matrix: Matrix, names: Sequence[str], tolerance: float) -> tuple[list[int], tuple[Indistinguishable, ...]]:
    """Return the indices of the columns to fit, ascending, and the groups of indistinguishable columns.

    *matrix* is (rows × names), without zero columns. A column that is a non-negative combination of others is excluded
    first (of a total and its parts, the total; then non-negative fits lose nothing), and of equal candidates the later
    one, so that the choice is deterministic.
    """
    scale = np.linalg.norm(matrix, axis=0)
    # The triangular factor of the unit columns has the same geometry in a minimal number of rows.
    columns = cast("Matrix", linalg.qr(matrix / scale, mode="r")[0])[: matrix.shape[1]]
    kept = _kept(columns, tolerance)
    left_out = [column for column in range(len(names)) if column not in kept]
    relations: dict[str, dict[str, float]] = {}
    mismatches: dict[str, float] = {}
    for column in left_out:
        factors, mismatches[names[column]] = _relation(columns, kept, column)
        # Rounded, so that a factor of 1 is written as 1.0 and files are easy to compare.
        relations[names[column]] = {
            names[other]: float(f"{factor * scale[column] / scale[other]:.12g}") for other, factor in factors.items()
        }
    return kept, _groups(relations, mismatches)


def own_parts(columns: Matrix) -> Vector:
    """Return the own parts ε (0 to 1) of unit columns: with A = U·S·Vᵀ, 1/εⱼ² = (AᵀA)⁻¹ⱼⱼ = Σₖ (Vⱼₖ/sₖ)²."""
    singular, turned = cast("tuple[Matrix, Vector, Matrix]", linalg.svd(columns))[1:]
    # With more columns than rows, some singular values are missing.
    lengths = np.full(columns.shape[1], _SINGULAR)
    lengths[: len(singular)] = np.maximum(singular, _SINGULAR)
    return 1 / np.linalg.norm(turned.T / lengths, axis=1)


def _kept(columns: Matrix, tolerance: float) -> list[int]:
    kept = list(range(columns.shape[1]))
    for combine in (non_negative_least_squares, least_squares):
        # Excluding some columns brings no other one closer to the rest. A non-negative combination, which is slow to
        # compute, is no closer than an unrestricted one.
        own = own_parts(columns[:, kept])
        suspects = {column for column, part in zip(kept, own, strict=True) if part <= 2 * tolerance}
        for column in reversed(tuple(kept)):
            others = [other for other in kept if other != column]
            if others and column in suspects:
                target = columns[:, column]
                distance = np.linalg.norm(target - columns[:, others] @ combine(columns[:, others], target))
                kept = others if distance <= tolerance else kept
    return kept


def _relation(columns: Matrix, kept: list[int], column: int) -> tuple[dict[int, float], float]:
    """Return the coefficients of the kept columns that approximate the excluded one, and the remaining distance."""
    factors = least_squares(columns[:, kept], columns[:, column])
    mismatch = float(np.linalg.norm(columns[:, column] - columns[:, kept] @ factors))
    noise = max(mismatch, _ROUNDING)
    return {other: float(factor) for other, factor in zip(kept, factors, strict=True) if abs(factor) > noise}, mismatch


def _groups(
    relations: Mapping[str, Mapping[str, float]], mismatches: Mapping[str, float]
) -> tuple[Indistinguishable, ...]:
    """Return the relations in groups without common properties."""
    groups: list[tuple[set[str], list[str]]] = []
    for name, equal in relations.items():
        touching = [group for group in groups if group[0] & equal.keys()]
        groups = [group for group in groups if group not in touching]
        members = set(equal).union(*(group[0] for group in touching))
        groups.append((members, [left for group in touching for left in group[1]] + [name]))
    return tuple(
        Indistinguishable(
            left_out={name: relations[name] for name in sorted(left_out)},
            mismatch=max(mismatches[name] for name in left_out),
        )
        for _, left_out in groups
    )


# }}}


# {{{ robust non-linear least squares with bounds, by Levenberg-Marquardt steps that each solve a non-negative problem
#
#     minimize c(x) = Σⱼ s²·(√(1 + (fⱼ(x)/s)²) − 1),        x ≥ b, the last component at most u
#
# Near x, with weights tⱼ = 1 + (fⱼ/s)², g = Σⱼ tⱼ^(−1/2) fⱼ ∇fⱼ, and H = Σⱼ tⱼ^(−3/2) ∇fⱼ ∇fⱼᵀ, to whose diagonal
# Σⱼ tⱼ^(−1/2) fⱼ ∂²fⱼ/∂xᵢ² is added where it is positive, a step d minimizes
#
#     gᵀd + dᵀ(H + μ diag H)d / 2        subject to the bounds of x + d
#
# With the triangular factor of H + μ diag H this is a non-negative least-squares problem with a unique solution. A
# parameter thus reaches its bound in one step, while interior methods approach it by halving the distance: for a
# thousand kernels and 150 weights, a third of them 0, they took thousands of steps and stopped early.
#
# Second derivatives are needed for minima near a bound where f is strongly curved: the curvature of a smooth maximum of
# exponent p goes as w^(p − 2) for a small weight w, without limit for p < 2. Without it the search took a thousand
# steps.
#
# Damping μ starts at 1, since longer first steps lead to higher minima, and follows H. B. Nielsen, Damping Parameter in
# Marquardt's Method, 1999; the approximate H is that of Triggs et al., Bundle Adjustment, 2000, section 4.3.


FIRST_DAMPING = 1.0
"""μ of the first step: the diagonal counts twice"""
MIN_DAMPING = 1e-12
"""minimum of μ, for which H still has a factor; also the minimum element of its diagonal, relative to the maximum"""
CONVERGED = 1e-13
"""relative decrease of the cost expected from the next step at which the search ends"""
MAX_STEPS = 1000
"""maximum number of steps, after which the best parameters so far are used"""
MIN_GAIN = 1e-4
"""minimum decrease of an accepted step, relative to the expected decrease"""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Residuals at a point, and their derivatives on request."""

    residuals: Vector
    jacobian: Callable[[], Matrix]
    """(residuals × parameters)"""
    curvature: Callable[[Vector], Vector]
    """factors aⱼ of the residuals -> Σⱼ aⱼ ∂²fⱼ/∂xᵢ² for each parameter, 0 where omitted"""


@dataclass(frozen=True, slots=True)
class SolverResult:
    """Result of a search."""

    cost: float
    parameters: Vector
    evaluation: Evaluation
    """evaluation at the parameters"""
    is_converged: bool
    """whether no step lowers the cost further; otherwise the search stopped after :data:`MAX_STEPS`"""


def minimise(
    evaluate: Callable[[Vector], Evaluation], begin: Vector, *, least: Vector, last_at_most: float, scale: float
) -> SolverResult:
    """Search for a minimum of the cost c above from *begin*.

    *least* is b, *last_at_most* is u, *scale* is s; *begin* must satisfy the bounds.
    """
    here = _Point.of(begin, evaluate(begin), scale)
    damping, growth = FIRST_DAMPING, 2.0
    for _ in range(MAX_STEPS):
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
            if gained > MIN_GAIN:
                break
            damping, growth = damping * growth, growth * 2
        damping, growth = max(damping * max(1 / 3, 1 - (2 * gained - 1) ** 3), MIN_DAMPING), 2.0
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
        # √(1 + q) − 1 without cancellation for small residuals
        return cls(parameters, evaluation, float(scale**2 * (squares / (np.sqrt(1 + squares) + 1)).sum()))


@dataclass(frozen=True, slots=True)
class _Quadratic:
    """Quadratic approximation of the cost near a point, minus the cost there."""

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
        return cls(jacobian.T @ factors, hessian, np.maximum(diagonal, MIN_DAMPING * diagonal.max()))

    def lowest(self, above: Vector, damping: float, last: float) -> Vector:
        """Return the distances of the parameters from their bounds at the damped minimum, given those here, *above*.

        The last distance is at most *last*. The constrained minimum of a convex function is on the additional bound if
        the unconstrained one violates it.
        """
        damped = self.hessian + np.diag(damping * self.diagonal)
        factor = cast("Matrix", linalg.cholesky(damped))
        target = cast("Vector", linalg.solve_triangular(factor, damped @ above - self.gradient, trans=1))
        found = non_negative_least_squares(factor, target)
        if found[-1] > last:
            return np.append(non_negative_least_squares(factor[:, :-1], target - last * factor[:, -1]), last)
        return found

    def decrease(self, step: Vector) -> float:
        """Return the decrease of the undamped cost by *step*."""
        return -float(self.gradient @ step + step @ self.hessian @ step / 2)


# }}}


# {{{ solver


RIDGE = 1e-2
"""Default ρ of the non-negative fit: expected noise over expected size of a scaled weight, 1 % over 1. A combination of
columns with singular value σ is shrunk by ρ²/(σ² + ρ²): 0.01 % at σ = 1, far below the noise, and half at σ = ρ, where
noise dominates. It also makes the minimum unique."""


def solve(
    problem: Problem, *, non_negative: bool = True, ridge: float | None = None, tolerance: float = TOLERANCE
) -> Solution:
    """Return the weights in seconds per unit that predict the problem's run times with minimal relative error.

    *ridge* is ρ above (dimensionless), by default :data:`RIDGE` for the non-negative fit and 0 for the plain one;
    *tolerance* is the minimum own part of a fitted column.

    :raises CalibrationError: *ridge* or *tolerance* is out of range.
    """
    ridge = (RIDGE if non_negative else 0.0) if ridge is None else ridge
    if not (math.isfinite(ridge) and ridge >= 0):
        raise CalibrationError(f"ridge must be a number >= 0, for example {RIDGE}, got {ridge}")
    if not 0 < tolerance < 1:
        raise CalibrationError(f"tolerance must be between 0 and 1, for example {TOLERANCE}, got {tolerance}")
    kept, undetermined = separated(problem, tolerance)
    names = [problem.properties[column] for column in kept]
    matrix = problem.matrix[:, kept]
    scale = np.linalg.norm(matrix, axis=0)
    # The triangular factor has the same singular values and far fewer rows.
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
    """Return the scaled weights w; the ridge adds one row per weight with the target 0."""
    rows, width = columns.shape
    augmented = np.vstack([columns, ridge * np.eye(width)])
    target = np.concatenate([np.ones(rows), np.zeros(width)])
    return (non_negative_least_squares if non_negative else least_squares)(augmented, target)


# }}}


OUTLIER = 0.2
"""|ln(predicted/measured)| up to which an error counts by its square"""
MAX_SHARPNESS = 20.0
"""upper bound of p, at which the smooth maximum of two equal parts is 3.5 % above them"""
STARTS = (1.5, 4.0)
"""initial sharpness of the searches"""
FURTHER_STARTS = (1.0, 2.5, 8.0, 16.0)
"""additional ones if the best of those searches did not converge"""
PRIOR_RIDGE = 2.0
"""r of pipelines: an excess of 10 % over the prior costs as much as a kernel predicted 20 % wrong"""
COMMON_DEVIATION = 4.0
"""permitted deviation of all pipelines in common from the prior, relative to that of a single one"""
SHARPNESS = 2.0
"""prior of p for pipelines without a fit: the root of the sum of squares"""
SHARPNESS_RIDGE = 2.0
"""r of the sharpness, relative to its prior"""
LAUNCH = 5e-6
"""s of launches in a fit of pipelines, in seconds: the cost of a launch without other information"""
LAUNCH_RIDGE = 0.3
"""r of launches, whose cost depends on the driver, so that the prior is weak"""
MIN_SCALE = 0.2
"""minimum of s for a pipeline whose prior weight is near 0, relative to the device parameters"""
MIN_START = 1e-3
"""initial value, relative to its scale, of a weight that is 0 in the linear fit, where the smooth maximum is flat"""


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The optimization task, in the problem's order of columns."""

    amounts: Matrix
    """(observations × columns), amounts times s"""
    measured: Vector
    sides: tuple[str | None, ...]
    center: Vector
    """centers of the scaled weights, then of the sharpness"""
    ridge: Matrix
    """(errors × parameters)"""

    def evaluate(self, parameters: Vector) -> Evaluation:
        """Return the errors of observations, then of weights, at *parameters*: scaled weights, then the sharpness."""
        found = overlapped(self.amounts * parameters[:-1], self.sides, parameters[-1])
        penalties = self.ridge @ (parameters - self.center)
        residuals = np.concatenate([np.log(found.seconds / self.measured), penalties])
        return Evaluation(residuals, partial(self._jacobian, found), partial(self._curvature, found, parameters))

    def _jacobian(self, found: Overlapped) -> Matrix:
        rows, width = self.amounts.shape
        slopes = np.zeros((rows, width + 1))
        slopes[:, :width] = self.amounts * (found.factors / found.seconds[:, None])
        slopes[:, width] = found.by_sharpness / found.seconds
        return np.vstack([slopes, self.ridge])

    def _curvature(self, found: Overlapped, parameters: Vector, factors: Vector) -> Vector:
        """Return Σⱼ *factors*ⱼ ∂²fⱼ/∂xᵢ² for the weights, and 0 for the sharpness, where it is omitted."""
        seconds = found.seconds[:, None]
        by_cost = curvatures(self.amounts * parameters[:-1], self.sides, parameters[-1], found) / seconds
        of_logarithms = self.amounts**2 * (by_cost - (found.factors / seconds) ** 2)
        return np.append(factors[: len(seconds)] @ of_logarithms, 0.0)

    def minimum(self, begin: Vector) -> SolverResult:
        least = np.append(np.zeros(len(begin) - 1), 1.0)
        return minimise(self.evaluate, begin, least=least, last_at_most=MAX_SHARPNESS, scale=OUTLIER)


def solve_overlap(problem: Problem, prior: Fitted | None = None) -> Solution:
    """Return the weights and the sharpness that predict the problem's run times with minimal logarithmic error.

    Indistinguishable columns of counts are merged, as in the linear fit. All pipelines, including those of *prior*, a
    fit of pipelines, have a weight. The weights and the sharpness are regularized toward *prior*, by default toward the
    device parameters.

    :raises CalibrationError: as in :func:`loopyperf.calibration.overlap_fit.solve`.
    """
    posed = _of_counts(problem) if problem.basis == "counts" else _of_pipelines(problem, prior)
    found = _best(posed.task, posed.first)
    *best, sharpness = found.parameters.tolist()
    slopes, factors = found.evaluation.jacobian(), np.append(posed.scales, 1.0)
    # If nothing depends on the sharpness, its variance is 0 in the pseudo-inverse, which avoids infinite entries.
    covariance = cast("Matrix", np.linalg.pinv(slopes.T @ slopes, hermitian=True)) * np.outer(factors, factors)
    singular = np.linalg.svd(posed.task.amounts / posed.task.measured[:, None], compute_uv=False)
    # Some of the prior's pipelines have no measurements.
    nonzero = singular[singular > np.finfo(float).eps * singular[0]]
    errors = found.evaluation.residuals[: len(posed.task.measured)]
    return Solution(
        model="overlap",
        weights=dict(zip(posed.columns, (best * posed.scales).tolist(), strict=True)),
        covariance=covariance,
        undetermined=posed.undetermined,
        absent=problem.absent,
        rank=len(posed.columns),
        condition=float(nonzero[0] / nonzero[-1]),
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
    """An optimization task with its scales and initial values."""

    task: _Fitted
    columns: tuple[str, ...]
    scales: Vector
    first: Vector
    """initial scaled weights of the search"""
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
    first = np.maximum(np.array([linear[name] for name in columns]) / scales, MIN_START)
    return _Posed(task, columns, scales, first, RIDGE, undetermined)


def _of_pipelines(problem: Problem, prior: Fitted | None) -> _Posed:
    weights: Mapping[str, float] = {} if prior is None else prior.weights
    sharpness = SHARPNESS if prior is None else prior.sharpness
    columns: tuple[str, ...] = tuple(dict.fromkeys((*problem.properties, *weights)))
    rates = np.pad(problem.matrix, ((0, 0), (0, len(columns) - len(problem.properties))))
    described = np.array([LAUNCH if name == LAUNCHES else DESCRIBED for name in columns])
    believed = np.array([weights.get(name, each) for name, each in zip(columns, described, strict=True)])
    scales = np.maximum(believed, MIN_SCALE * described)
    center = np.append(believed / scales, sharpness)
    task = _task(problem, columns, rates * scales, center, _ridge(columns, center))
    return _Posed(task, columns, scales, np.maximum(center[:-1], MIN_START), PRIOR_RIDGE)


def _ridge(columns: tuple[str, ...], center: Vector) -> Matrix:
    """Return R of pipelines, which is smaller in the direction of their common factor."""
    of_device = np.array([name not in LAUNCHING for name in columns])
    common = np.where(of_device, center[:-1], 0.0)
    common /= max(float(np.linalg.norm(common)), MIN_START)
    each = np.eye(len(columns)) - (1 - 1 / math.hypot(1, COMMON_DEVIATION)) * np.outer(common, common)
    penalties = np.where(of_device, PRIOR_RIDGE, LAUNCH_RIDGE)[:, None] * each
    return cast("Matrix", linalg.block_diag(penalties, SHARPNESS_RIDGE / center[-1]))


def _best(task: _Fitted, first: Vector) -> SolverResult:
    """Return the lowest minimum found from the weights *first*, with additional searches if these do not converge.

    Issues a :class:`ConvergenceWarning` if the best one has not converged either.
    """
    found = min((task.minimum(np.append(first, p)) for p in STARTS), key=lambda found: found.cost)
    if not found.is_converged:
        begins = (found.parameters, *(np.append(first, p) for p in FURTHER_STARTS))
        found = min(found, *map(task.minimum, begins), key=lambda found: found.cost)
    if not found.is_converged:
        starts = len(STARTS) + 1 + len(FURTHER_STARTS)
        warnings.warn(
            f"the fit of {len(first)} weights of the overlap model did not converge after {MAX_STEPS} steps from each "
            f"of {starts} starts; using the best weights found; measure more kinds of kernels, or fit fewer properties",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found


def _task(problem: Problem, columns: tuple[str, ...], scaled: Matrix, center: Vector, ridge: Matrix) -> _Fitted:
    """Return the task for *scaled*, the rates of *columns* over the time of each row, in scales."""
    measured = np.array([row.seconds for row in problem.observations], dtype=np.float64)
    sides = tuple(side(name, problem.basis) for name in columns)
    return _Fitted(scaled * measured[:, None], measured, sides, center, ridge)
