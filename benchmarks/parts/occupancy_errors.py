"""Errors of predicted performances over occupancies, as in the papers, with predictions pᵢ and measurements mᵢ.

MAPE           mean |pᵢ − mᵢ| / mᵢ, over the occupancies of one kernel                    (Lemeire, section 6.3)
MAPE_shape     the same for pᵢ − lf(ωᵢ), where lf is the best linear fit of pᵢ − mᵢ over the occupancy ω
"""

import numpy as np
from numpy.typing import ArrayLike

from loopyperf.calibration.accuracy import positive_pairs
from loopyperf.errors import ModelInputError


def mape(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return the mean absolute percentage error as a fraction; in the papers, of performances over occupancies.

    Raises :class:`ModelInputError` unless the arrays have the same size, at least 1, and are positive.
    """
    p, m = positive_pairs(predicted, measured)
    return float(np.mean(np.abs(p - m) / m))


def mape_shape(predicted: ArrayLike, measured: ArrayLike, occupancy: ArrayLike) -> float:
    """Return the MAPE after subtracting the best linear fit of the differences over the *occupancy*.

    It distinguishes models whose errors are an offset and a slope from those with a wrong shape. Raises
    :class:`ModelInputError` as :func:`mape`, and for another number of occupancies. Source: Lemeire, section 6.3.
    """
    p, m = positive_pairs(predicted, measured)
    warps = np.asarray(occupancy, dtype=np.float64).ravel()
    if warps.shape != m.shape:
        raise ModelInputError(f"pass an occupancy for each of the {m.size} measurements; got {warps.size}")
    if len(np.unique(warps)) < 3 or not np.isfinite(warps).all():
        raise ModelInputError("the shape error needs at least three distinct, finite occupancies")
    line = np.stack([np.ones_like(warps), warps], axis=1)
    apart = p - m
    fit = line @ np.linalg.lstsq(line, apart, rcond=None)[0]
    return float(np.mean(np.abs(apart - fit) / m))
