"""Linear least squares, plain and non-negative: SciPy's, which states no types."""

from typing import cast

from scipy import linalg, optimize

from loopyperf.calibration.problem import Matrix, Vector


def least_squares(columns: Matrix, target: Vector) -> Vector:
    """Return the factors of *columns*, of which the sum is nearest to *target*."""
    return cast("tuple[Vector, ...]", linalg.lstsq(columns, target))[0]


def non_negative_least_squares(columns: Matrix, target: Vector) -> Vector:
    """Return the factors of *columns*, none of them negative, of which the sum is nearest to *target*."""
    return cast("Vector", optimize.nnls(columns, target)[0])
