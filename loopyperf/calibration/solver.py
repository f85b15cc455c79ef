"""Weights from measurements: relative-error least squares, plain or with weights that cannot be negative.

Scale column i of the problem's matrix A to unit length, ãᵢ = Aᵢ/‖Aᵢ‖, wᵢ = αᵢ‖Aᵢ‖, and leave out what cannot be told
apart (:mod:`loopyperf.calibration.dependence`). Then::

    minimise ‖1 − Ã w‖² + ρ² ‖w‖²        (non-negative fit: subject to w ≥ 0)

The ridge ρ is dimensionless, because 1, Ã and w are. Source: Stevens and Klöckner, section 4.3 (plain, ρ = 0).
"""

import math
from typing import cast

import numpy as np
from scipy import linalg

from loopyperf.calibration.dependence import separated
from loopyperf.calibration.indistinguishable import TOLERANCE
from loopyperf.calibration.least_squares import least_squares, non_negative_least_squares
from loopyperf.calibration.problem import Matrix, Problem, Vector
from loopyperf.calibration.solution import Solution
from loopyperf.errors import CalibrationError

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
