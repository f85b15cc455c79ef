"""Least squares in which outliers count less: a machine that did something else for a moment spoils no fit."""

from collections.abc import Callable, Iterable
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

Values = NDArray[np.float64]

OUTLIER = 0.02
"""relative deviations beyond it count less than by their square"""


class _Fit(Protocol):
    """What scipy returns."""

    x: Values


def robust_fit(deviations: Callable[[Values], Values], starts: Iterable[Values]) -> Values:
    """Return the parameters with the least *deviations*, which are relative ones, near the best of the *starts*."""
    start = min(starts, key=lambda start: _cost(deviations(start)))
    solver = cast("Callable[..., _Fit]", optimize.least_squares)
    return solver(deviations, start, loss="soft_l1", f_scale=OUTLIER).x


def _cost(deviations: Values) -> float:
    """Return what the solver makes small."""
    return float(np.sum(np.sqrt(1 + (deviations / OUTLIER) ** 2)))
