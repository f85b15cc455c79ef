"""Plot predicted against measured run times, and errors against shares of the time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.errors import CalibrationError
from loopyperf.explain.plots.figures import Axes, Figure, axes, note, styles, ticker, with_legend
from loopyperf.models.linear import Sensitivity, sensitivity
from loopyperf.units import in_percent

BAND = 0.2
"""relative error at the dashed lines beside the diagonal"""


def plot_predictions(predictions: Sequence[Prediction], *, ax: Axes | None = None) -> Figure:
    """Plot predicted run times (y, s) against measured ones (x, s) on logarithmic axes.

    Each kernel has its own style, and each prediction a bar for its interval. Dashed lines mark errors of 20 %. Times
    below 0, which a linear fit without bounds may predict, are not shown; the legend has their number.

    :raises CalibrationError: there are no predictions above 0.
    """
    shown = [row for row in predictions if row.predicted > 0]
    if not shown:
        raise CalibrationError(
            f"nothing to plot: none of {len(predictions)} predictions is above 0 s; pass at least one prediction of a "
            "measured kernel"
        )
    drawn = axes(ax)
    kernels = list(dict.fromkeys(row.kernel for row in shown))
    for kernel, style in zip(kernels, styles(len(kernels)), strict=True):
        rows = [row for row in shown if row.kernel == kernel]
        measured, predicted = [row.measured for row in rows], [row.predicted for row in rows]
        drawn.plot(measured, predicted, **style, linestyle="none", label=kernel)
        for row in rows:
            if row.interval is not None:
                drawn.vlines(row.measured, *row.interval, color=style["color"], linewidth=1)
    ends = [bound for row in shown for bound in (row.measured, row.predicted)]
    span = np.array([min(ends), max(ends)])
    drawn.plot(span, span, color="grey", linewidth=1, zorder=0)
    for factor, label in ((1 - BAND, None), (1 + BAND, f"{in_percent(BAND)} off")):
        drawn.plot(span, span * factor, color="grey", linewidth=1, linestyle="--", zorder=0, label=label)
    drawn.set(xscale="log", yscale="log", xlabel="measured (s)", ylabel="predicted (s)")
    _note_hidden(drawn, len(predictions) - len(shown))
    return with_legend(drawn, grows=ax is None)


def plot_residuals(observations: Sequence[Observation], fit: Fit, column: str, *, ax: Axes | None = None) -> Figure:
    """Plot errors (y, ln(predicted/measured)) against the share of *column* in the predicted time (x, %).

    Each kernel class has its own style. Errors that grow with the share indicate that the column's weight, or the form
    of its term, is wrong. Kernels without the column are not shown. *observations* are those of
    :func:`loopyperf.validate`, or the result of :func:`loopyperf.load_observations`. Times below 0 are not shown, as in
    :func:`plot_predictions`.

    :raises CalibrationError: there are no observations, or none above 0 by *fit*, or *fit* has no weight for *column*.
    """
    rows, found = _predicted(observations, fit)
    if column not in fit.weights:
        raise CalibrationError(f"the fit has no weight for {column!r}; choose one of {', '.join(fit.weights)}")
    measured = np.array([row.seconds for row in rows])
    shares = found.shares[:, found.columns.index(column)]
    is_above = found.seconds > 0
    is_shown = is_above & (shares != 0)
    classes = np.array([row.kernel_class for row in rows])
    drawn = axes(ax)
    names = list(dict.fromkeys(classes[is_shown].tolist()))
    for kernel_class, style in zip(names, styles(len(names)), strict=True):
        own = is_shown & (classes == kernel_class)
        errors = np.log(found.seconds[own] / measured[own])
        drawn.plot(shares[own], errors, **style, linestyle="none", label=kernel_class)
    drawn.axhline(0, color="grey", linewidth=1, zorder=0)
    drawn.set(xlabel=f"share of {column} in the predicted time", ylabel="ln(predicted/measured)")
    drawn.xaxis.set_major_formatter(ticker.PercentFormatter(1, symbol=" %"))
    _note_hidden(drawn, int((~is_above).sum()))
    return with_legend(drawn, grows=ax is None)


def columns_by_share(observations: Sequence[Observation], fit: Fit) -> list[str]:
    """Return the columns with a weight and a share in the predicted times, the largest mean shares first.

    Raises :class:`CalibrationError` as :func:`plot_residuals`.
    """
    _, found = _predicted(observations, fit)
    means: NDArray[np.float64] = np.abs(found.shares[found.seconds > 0]).mean(axis=0)
    sizes = dict(zip(found.columns, means.tolist(), strict=True))
    return sorted((name for name in fit.weights if sizes[name]), key=lambda name: -sizes[name])


def _predicted(observations: Sequence[Observation], fit: Fit) -> tuple[list[Observation], Sensitivity]:
    """Return the observations with amounts in the basis of *fit*, and their predicted times and shares."""
    rows = [row for row in observations if row.amounts(fit.basis)]
    if not rows:
        raise CalibrationError(
            f"nothing to plot: none of {len(observations)} observations has the columns of the fit ({fit.basis}); pass "
            "those of a validation with this fit"
        )
    found = sensitivity(fit, [row.amounts(fit.basis) for row in rows])
    if not (found.seconds > 0).any():
        raise CalibrationError(f"nothing to plot: none of {len(rows)} predicted times is above 0 s")
    return rows, found


def _note_hidden(ax: Axes, number: int) -> None:
    if number:
        note(ax, f"not shown: {number} predicted below 0")
