"""Predicted against measured run times, and what the errors have to do with."""

from collections.abc import Sequence

import numpy as np

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.models.sensitivity import sensitivity
from loopyperf.plots.figures import Axes, Figure, axes, figure_of, legend_above, line_styles

BAND = 0.2
"""relative error of the dashed lines beside the diagonal"""


def plot_predictions(predictions: Sequence[Prediction], *, ax: Axes | None = None) -> Figure:
    """Return the chart of measured run times (x, seconds) against predicted ones (y), on logarithmic axes.

    A style for each kernel, a bar for the interval of each prediction, the diagonal, and lines 20 % beside it.
    """
    ax = axes(ax)
    kernels = dict.fromkeys(row.kernel for row in predictions)
    for kernel, style in zip(kernels, line_styles(), strict=False):
        rows = [row for row in predictions if row.kernel == kernel]
        measured, predicted = [row.measured for row in rows], [row.predicted for row in rows]
        ax.plot(measured, predicted, **style, linestyle="none", label=kernel)
        for row in rows:
            if row.interval is not None:
                ax.plot([row.measured, row.measured], list(row.interval), color=style["color"], linewidth=1)
    ends = [bound for row in predictions for bound in (row.measured, row.predicted)]
    span = np.array([min(ends), max(ends)])
    ax.plot(span, span, color="grey", linewidth=1, zorder=0)
    for factor in (1 - BAND, 1 + BAND):
        ax.plot(span, span * factor, color="grey", linewidth=1, linestyle="--", zorder=0)
    ax.set(xscale="log", yscale="log", xlabel="measured (s)", ylabel="predicted (s)")
    legend_above(ax)
    return figure_of(ax)


def plot_residuals(observations: Sequence[Observation], fit: Fit, column: str, *, ax: Axes | None = None) -> Figure:
    """Return the chart of errors, ln(predicted/measured), over what share of the predicted time *column* has.

    A style for each kernel class. Errors that grow with the share say that the column's weight, or its form, is wrong.
    """
    ax = axes(ax)
    for kernel_class, style in zip(
        dict.fromkeys(row.kernel_class for row in observations), line_styles(), strict=False
    ):
        rows = [row for row in observations if row.kernel_class == kernel_class]
        amounts = [row.amounts(fit.basis) for row in rows]
        found = sensitivity(fit, amounts)
        # ∂ln T/∂w · w is the column's share of T.
        share = found.gradient[:, tuple(fit.weights).index(column)] * fit.weights[column]
        errors = np.log(found.seconds / np.array([row.seconds for row in rows]))
        ax.plot(share, errors, **style, linestyle="none", label=kernel_class)
    ax.axhline(0, color="grey", linewidth=1, zorder=0)
    ax.set(xlabel=f"share of {column} in the predicted time", ylabel="ln(predicted/measured)", xlim=(-0.02, 1.02))
    legend_above(ax)
    return figure_of(ax)
