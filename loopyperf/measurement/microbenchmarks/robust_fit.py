"""Least squares in which outliers count less: a machine that did something else for a moment spoils no fit."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

Values = NDArray[np.float64]

OUTLIER = 0.02
"""relative deviations beyond it count less than by their square"""


def robust_fit(deviations: Callable[[Values], Values], starts: Iterable[Values]) -> Values:
    """Return the parameters with the least *deviations*, which are relative ones, from the best of the *starts*."""
    solver: Any = optimize.least_squares  # pyright: ignore[reportUnknownVariableType]
    fits: list[Any] = [solver(deviations, start, loss="soft_l1", f_scale=OUTLIER) for start in starts]
    best: Values = min(fits, key=lambda fit: fit.cost).x
    return best
