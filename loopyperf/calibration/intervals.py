"""By how much the answers of a fit may be off: what its weights leave unsure, and what no measurement of it tells."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Matrix, Vector
from loopyperf.errors import CalibrationError
from loopyperf.models.overlap import Sensitivity, sensitivity_of
from loopyperf.models.result import LEVEL

NEGLIGIBLE = 1e-3
"""of all counts of a kernel: without a weight for so few of them, its time is known nearly as well"""


@dataclass(frozen=True, slots=True)
class Widths:
    """How far the answers of a fit for some kernels may be off, and why."""

    half: Vector
    """by how much ln T of each kernel may be off, up or down; infinite for kernels that do something of
    :attr:`priceless`, and where the fit has too few scores for the level"""
    leverage: Vector
    """of each kernel: the variance of ln T from the weights, in units of that of a measurement"""
    priceless: tuple[str, ...]
    """columns without a weight that are more than a negligible part of some kernel, in order"""


def widths(fit: Fit, names: Sequence[str], amounts: Matrix, level: float = LEVEL) -> Widths:
    """Return how far *fit* may be off, with the probability *level*.

    Kernels have *amounts* (kernels × names) of the columns called *names*.

    Raises :class:`CalibrationError` for a fit that states no uncertainty.
    """
    if fit.uncertainty is None:
        raise CalibrationError("a fit without measurements of two classes or more does not know how far it is off")
    found = sensitivity_of(fit, names, amounts)
    leverage = fit.uncertainty.leverage(fit, found)
    half = fit.uncertainty.half_width(leverage + novelty(fit, names, amounts, found), level)
    unknown = _priceless(fit, names, amounts)
    return Widths(np.where(unknown.any(axis=1), np.inf, half), leverage, _columns(names, unknown))


def novelty(fit: Fit, names: Sequence[str], amounts: Matrix, found: Sensitivity) -> Vector:
    """Return the variance of ln T from what no measurement of the fit tells, in units of that of a measurement.

    Of kernels that have *amounts* (kernels × names) of the columns called *names*, on which T depends as is *found*. A
    decade beyond the range that was measured of a column counts as much as all that the model gets wrong within it, in
    the share that the column has in the time. A pipeline without a weight is as unsure as what draws weights to the
    description leaves it.
    """
    places = {name: place for place, name in enumerate(names)}
    decades = np.zeros_like(found.shares)
    for column, name in enumerate(found.columns):
        if name in places and name in fit.ranges:
            decades[:, column] = _decades(amounts[:, places[name]], fit.ranges[name])
    beyond = (np.abs(found.shares) * decades).sum(axis=1)
    undrawn = found.shares[:, len(fit.weights) :]
    ridge = float(fit.options.get("ridge") or np.inf)
    return beyond**2 + (undrawn**2).sum(axis=1) / ridge**2


def priceless(fit: Fit, names: Sequence[str], amounts: Matrix) -> tuple[str, ...]:
    """Return the columns without a weight that are more than a negligible part of some kernel, in order.

    Kernels have *amounts* (kernels × names) of the columns called *names*.
    """
    return _columns(names, _priceless(fit, names, amounts))


def _columns(names: Sequence[str], marked: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(sorted({names[place] for place in np.nonzero(marked)[1].tolist()}))


def _priceless(fit: Fit, names: Sequence[str], amounts: Matrix) -> NDArray[np.bool_]:
    """Return which of *amounts* (kernels × names) are without a weight, and more than a negligible part of all."""
    if fit.basis == "pipelines":
        return np.zeros(amounts.shape, np.bool_)
    known = {*fit.weights, *(name for group in fit.undetermined for name in group.left_out)}
    unknown = np.array([name not in known for name in names], np.bool_)
    return unknown & (amounts > NEGLIGIBLE * amounts.sum(axis=1, keepdims=True))


def _decades(amounts: Vector, measured: tuple[float, float]) -> Vector:
    """Return how many powers of ten *amounts* are outside of the range that was *measured*; 0 for none at all."""
    least, most = measured
    if not 0 < least <= most:
        return np.zeros_like(amounts)
    known = np.where(amounts > 0, amounts, least)
    return np.log10(np.maximum(known / most, 1)) + np.log10(np.maximum(least / known, 1))
