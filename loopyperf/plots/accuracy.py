"""Predicted against measured run times, and what the errors have to do with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.errors import CalibrationError
from loopyperf.models.sensitivity import sensitivity
from loopyperf.plots.figures import HEIGHT, MARKERS, WIDTH, Axes, Figure, axes, figure_of, legend_above, line_styles

BAND = 0.2
"""relative error of the dashed lines beside the diagonal"""
PANELS = 6
"""charts of one figure by default"""
ACROSS = 3
"""of them in a row"""
LEGEND = 1.0
"""inches below them"""
ERROR = "ln(predicted/measured)"


def plot_predictions(predictions: Sequence[Prediction], *, ax: Axes | None = None) -> Figure:
    """Return the chart of measured run times (x, seconds) against predicted ones (y), on logarithmic axes.

    A style for each kernel, a bar for the interval of each prediction, the diagonal, and lines 20 % beside it. Times
    below 0, which a plain linear fit may predict, are left out, and the title says how many.

    :raises CalibrationError: there are no predictions above 0.
    """
    shown = [row for row in predictions if row.predicted > 0]
    if not shown:
        raise CalibrationError(
            f"there is nothing to draw: of {len(predictions)} predictions none is above 0 s; predict at least one "
            "measured kernel"
        )
    ax = axes(ax)
    kernels = dict.fromkeys(row.kernel for row in shown)
    for kernel, style in zip(kernels, line_styles(), strict=False):
        rows = [row for row in shown if row.kernel == kernel]
        measured, predicted = [row.measured for row in rows], [row.predicted for row in rows]
        ax.plot(measured, predicted, **style, linestyle="none", label=kernel)
        for row in rows:
            if row.interval is not None:
                ax.plot([row.measured, row.measured], list(row.interval), color=style["color"], linewidth=1)
    ends = [bound for row in shown for bound in (row.measured, row.predicted)]
    span = np.array([min(ends), max(ends)])
    ax.plot(span, span, color="grey", linewidth=1, zorder=0)
    for factor in (1 - BAND, 1 + BAND):
        ax.plot(span, span * factor, color="grey", linewidth=1, linestyle="--", zorder=0)
    ax.set(xscale="log", yscale="log", xlabel="measured (s)", ylabel="predicted (s)")
    _say_left_out(ax, len(predictions) - len(shown))
    legend_above(ax)
    return figure_of(ax)


def plot_residuals(observations: Sequence[Observation], fit: Fit, column: str, *, ax: Axes | None = None) -> Figure:
    """Return the chart of errors, ln(predicted/measured), over what share of the predicted time *column* has.

    A style for each kernel class. Errors that grow with the share say that the column's weight, or its form, is wrong.
    *observations* are those of a :func:`loopyperf.validate`, or what :func:`loopyperf.load_observations` reads. Times
    below 0 are left out, as :func:`plot_predictions` does.

    :raises CalibrationError: there are no observations, or *fit* has no weight for *column*.
    """
    errors = _errors(observations, fit)
    if column not in fit.weights:
        raise CalibrationError(
            f"there is nothing to draw over {column!r}, which has no weight in the fit; it has {', '.join(fit.weights)}"
        )
    ax = axes(ax)
    _scatter(ax, errors, column)
    ax.set(xlabel=f"share of {column} in the predicted time", ylabel=ERROR)
    legend_above(ax)
    return figure_of(ax)


def plot_residual_panels(observations: Sequence[Observation], fit: Fit, *, at_most: int = PANELS) -> Figure:
    """Return the charts of :func:`plot_residuals` for *at_most* so many columns, those with the largest mean shares.

    :raises CalibrationError: there are no observations, or *at_most* is less than 1.
    """
    if at_most < 1:
        raise CalibrationError(f"at least one chart must be drawn, but at most {at_most} were asked for")
    errors = _errors(observations, fit)
    mean = errors.shares.mean(axis=0)
    names = tuple(fit.weights)
    columns = sorted(names, key=lambda name: -mean[names.index(name)])[:at_most]
    across = min(ACROSS, len(columns))
    down = -(-len(columns) // across)
    figure = Figure(figsize=(across * WIDTH / 2, down * HEIGHT * 0.75 + LEGEND), layout="constrained")
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for ax, column in zip(panels.flat, columns, strict=False):
        _scatter(ax, errors, column)
    for ax in panels.flat[len(columns) :]:
        ax.remove()
    for ax in panels[:, 0]:
        ax.set(ylabel=ERROR)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * across, frameon=False, fontsize="x-small")
    return figure


# {{{ errors over shares


@dataclass(frozen=True, slots=True, eq=False)
class _Errors:
    """Of observations with a predicted time above 0: of which class, by how much ln T is off, and what T is made of."""

    fit: Fit
    classes: NDArray[np.str_]
    errors: NDArray[np.float64]
    shares: NDArray[np.float64]
    """(observations × weights)"""
    left_out: int


def _errors(observations: Sequence[Observation], fit: Fit) -> _Errors:
    rows = [row for row in observations if row.amounts(fit.basis)]
    if not rows:
        raise CalibrationError(
            f"there is nothing to draw: none of {len(observations)} observations has the columns of the fit, which are "
            f"of {fit.basis}; take those of a validation with this fit"
        )
    found = sensitivity(fit, [row.amounts(fit.basis) for row in rows])
    above = found.seconds > 0
    measured = np.array([row.seconds for row in rows])
    weights = np.array(list(fit.weights.values()))
    return _Errors(
        fit=fit,
        classes=np.array([row.kernel_class for row in rows])[above],
        errors=np.log(found.seconds[above] / measured[above]),
        # ∂ln T/∂w · w is the column's share of T.
        shares=(found.gradient[:, : len(weights)] * weights)[above],
        left_out=int((~above).sum()),
    )


def _scatter(ax: Axes, found: _Errors, column: str) -> None:
    shares = found.shares[:, tuple(found.fit.weights).index(column)]
    classes = dict.fromkeys(found.classes.tolist())
    for number, (kernel_class, style) in enumerate(zip(classes, line_styles(), strict=False)):
        own = found.classes == kernel_class
        # Styles come back after ten; then markers are hollow.
        fill = "none" if number // len(MARKERS) % 2 else "full"
        ax.plot(shares[own], found.errors[own], **style, fillstyle=fill, linestyle="none", label=kernel_class)
    ax.axhline(0, color="grey", linewidth=1, zorder=0)
    ax.set(xlabel=f"share of {column}", xlim=(-0.02, 1.02))
    _say_left_out(ax, found.left_out)


def _say_left_out(ax: Axes, number: int) -> None:
    if number:
        ax.set_title(f"without {number} predicted below 0", fontsize="small")


# }}}
