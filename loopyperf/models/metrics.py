"""How near predictions are to measurements: the figures by which models are compared, each defined in one place.

With predictions pᵢ and measurements mᵢ of the same things, both of times or both of performances:

    MAPE           mean |pᵢ − mᵢ| / mᵢ, over the occupancies of one kernel                    (Lemeire, section 6.3)
    MAPE_shape     the same of pᵢ − lf(ωᵢ), with lf the best line through the differences pᵢ − mᵢ over the occupancy ω
    geometric mean of the errors |pᵢ − mᵢ| / mᵢ                               (Stevens and Klöckner, section 5, Table 1)
    log error      median |ln(pᵢ / mᵢ)|
    Spearman       the correlation of the ranks of p and m
    regret         how many times longer the one takes that is predicted to be fastest than the fastest one

All are without a unit: fractions, not per cent.
"""

import math
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopyperf.errors import ModelInputError

LEAST_ERROR = 1e-3
"""Smaller errors count as this one in geometric means. A single exact hit would make one 0, whatever the other errors,
and to leave it out would punish the hit; run times repeat to about 1 %, so an error below 0.1 % is luck and means no
more."""

Floats = NDArray[np.floating[Any]]


def mape(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return the mean absolute percentage error, as a fraction: of performances over occupancies, in the papers.

    Raises :class:`ModelInputError` unless there are as many predictions as measurements, at least 1, all positive.
    """
    asked, found = _pairs(predicted, measured)
    return float(np.mean(np.abs(asked - found) / found))


def mape_shape(predicted: ArrayLike, measured: ArrayLike, occupancy: ArrayLike) -> float:
    """Return the MAPE after the best linear fit, over the *occupancy*, of the differences is taken away.

    Models whose errors are an offset and a drift are so told from those that see another shape. Raises
    :class:`ModelInputError` as :func:`mape`, and for another number of occupancies. Source: Lemeire, section 6.3.
    """
    asked, found = _pairs(predicted, measured)
    warps = np.asarray(occupancy, dtype=np.float64).ravel()
    if warps.shape != found.shape:
        raise ModelInputError(f"give an occupancy for each of the {found.size} measurements; received {warps.size}")
    if len(np.unique(warps)) < 3 or not np.isfinite(warps).all():
        raise ModelInputError("a line goes through any two points: the shape needs three finite occupancies or more")
    line = np.stack([np.ones_like(warps), warps], axis=1)
    apart = asked - found
    fit = line @ np.linalg.lstsq(line, apart, rcond=None)[0]
    return float(np.mean(np.abs(apart - fit) / found))


def geometric_mean(errors: Iterable[float]) -> float:
    """Return the geometric mean of relative errors, those below :data:`LEAST_ERROR` counted as that.

    Raises :class:`ModelInputError` if there are none.
    """
    logarithms = [math.log(max(error, LEAST_ERROR)) for error in errors]
    if not logarithms:
        raise ModelInputError("the mean of no errors was asked for; predict at least one measured kernel")
    return math.exp(math.fsum(logarithms) / len(logarithms))


def median_log_error(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return the median of |ln(predicted / measured)|, which is the same for twice and for half; see :func:`mape`."""
    asked, found = _pairs(predicted, measured)
    return float(np.median(np.abs(np.log(asked / found))))


def spearman(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return Spearman's rank correlation, from −1 to 1; 0 where one side is all alike, so that it ranks nothing.

    Raises :class:`ModelInputError` as :func:`mape`.
    """
    asked, found = _pairs(predicted, measured)
    if np.ptp(asked) == 0 or np.ptp(found) == 0:
        return 0.0
    from scipy import stats  # estimating needs no SciPy, whose import takes half a second

    return float(cast("Any", stats).spearmanr(asked, found).statistic)


def regret(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Return the measured time of the one that is predicted to be fastest, over the least measured: 1 or more.

    Where several are predicted to be fastest, any of them may be taken: it is the mean of their times that counts.
    Raises :class:`ModelInputError` as :func:`mape`.
    """
    asked, found = _pairs(predicted, measured)
    return float(np.mean(found[asked == asked.min()]) / found.min())


def _pairs(predicted: ArrayLike, measured: ArrayLike) -> tuple[Floats, Floats]:
    """Return both as arrays of floats in one dimension."""
    asked, found = (np.asarray(each, dtype=np.float64).ravel() for each in (predicted, measured))
    if asked.shape != found.shape or not found.size:
        raise ModelInputError(
            f"give a prediction for each measurement; received {asked.size} predictions and {found.size} measurements"
        )
    for name, values in (("predictions", asked), ("measurements", found)):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ModelInputError(f"{name} must be positive and finite; received {_first_bad(values)}")
    return asked, found


def _first_bad(values: Floats) -> float:
    return next(float(value) for value in values if not (math.isfinite(value) and value > 0))
