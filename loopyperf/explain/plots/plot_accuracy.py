"""Predicted against measured run times, and what the errors have to do with."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.errors import CalibrationError
from loopyperf.explain.plots.figures import (
    PRINTS,
    Axes,
    Figure,
    axes,
    figure_of,
    in_lines,
    legend_above,
    legend_entry,
    legend_print,
    name_along,
    point_styles,
    ticker,
)
from loopyperf.models.linear import sensitivity
from loopyperf.units import in_percent

BAND = 0.2
"""relative error of the dashed lines beside the diagonal"""
GRIDS = ((6, 3, 3.2, 3.0), (12, 4, 2.8, 2.4), (math.inf, 5, 2.6, 2.2))
"""up to so many charts of one figure: how many are in a row, and how wide and tall each is, in inches"""
LEGEND = 1.0
"""inches below them"""
TICKS = 4
"""of a scale of shares, at most"""
SCALE = 0.5
"""inches beside a chart"""
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
    for kernel, style in zip(kernels, point_styles(), strict=False):
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
        label = f"{in_percent(BAND)} off" if factor > 1 else None
        ax.plot(span, span * factor, color="grey", linewidth=1, linestyle="--", zorder=0, label=label)
    ax.set(xscale="log", yscale="log", xlabel="measured (s)", ylabel="predicted (s)")
    _say_left_out(ax, len(predictions) - len(shown))
    legend_above(ax)
    return figure_of(ax)


def plot_residuals(observations: Sequence[Observation], fit: Fit, column: str, *, ax: Axes | None = None) -> Figure:
    """Return the chart of errors (y, ln(predicted/measured)) over the share of *column* in the predicted time (x, %).

    A style for each kernel class. Errors that grow with the share say that the column's weight, or its form, is wrong.
    Kernels that have nothing of it are left out.
    *observations* are those of a :func:`loopyperf.validate`, or what :func:`loopyperf.load_observations` reads. Times
    below 0 are left out, as :func:`plot_predictions` does.

    :raises CalibrationError: there are no observations, or none above 0 by *fit*, or *fit* has no weight for *column*.
    """
    errors = _errors(observations, fit)
    if column not in fit.weights:
        raise CalibrationError(
            f"there is nothing to draw over {column!r}, which has no weight in the fit; it has {', '.join(fit.weights)}"
        )
    ax = axes(ax)
    _scatter(ax, errors, column)
    name_along(ax, f"share of {column} in the predicted time")
    ax.set(ylabel=ERROR)
    legend_above(ax)
    return figure_of(ax)


def plot_residual_panels(observations: Sequence[Observation], fit: Fit, *, at_most: int | None = None) -> Figure:
    """Return the charts of :func:`plot_residuals`, in its units, for each column that any observation has something of.

    Those with the largest mean shares come first; last those that *fit* has no weight for, or 0, over how much kernels
    do of it in a second, relative to the most. *at_most* is how many are drawn: all unless stated, on a figure as large
    as that takes.

    :raises CalibrationError: there are no observations, or none above 0 by *fit*, or *at_most* is less than 1.
    """
    if at_most is not None and at_most < 1:
        raise CalibrationError(f"at least one chart must be drawn, but at most {at_most} were asked for")
    errors = _errors(observations, fit)
    columns = errors.present[:at_most]
    across, width, height = next(rest for most, *rest in GRIDS if len(columns) <= most)
    across = min(int(across), len(columns))
    down = -(-len(columns) // across)
    figure = Figure(figsize=(across * width, down * height + LEGEND), layout="constrained")
    panels = figure.subplots(down, across, sharey=True, squeeze=False)
    for ax, column in zip(panels.flat, columns, strict=False):
        _scatter(ax, errors, column, int((width - SCALE) / PRINTS[0][1]))
        ax.tick_params(axis="x", labelsize=PRINTS[1][0])
    for ax in panels.flat[len(columns) :]:
        ax.remove()
    for ax in panels[:, 0]:
        ax.set(ylabel=ERROR)
    handles = {
        label: handle for ax in figure.axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    size, ncols = legend_print(list(handles), across * width, LEGEND)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=ncols, frameon=False, fontsize=size
    )
    return figure


# {{{ errors over shares


@dataclass(frozen=True, slots=True, eq=False)
class _Errors:
    """Of observations with a predicted time above 0: of which class, by how much ln T is off, and what T is made of."""

    classes: NDArray[np.str_]
    errors: NDArray[np.float64]
    shares: Mapping[str, NDArray[np.float64]]
    """column that costs something -> its shares of the predicted times"""
    rates: Mapping[str, NDArray[np.float64]]
    """column that costs nothing -> how much of it there is in a second, at most 1"""
    left_out: int

    @property
    def present(self) -> list[str]:
        """Return the columns that any kernel has something of, those with the largest mean shares first."""
        sizes = {name: float(np.abs(each).mean()) for name, each in self.shares.items()}
        return [*sorted(sizes, key=lambda name: -sizes[name]), *self.rates]


def _errors(observations: Sequence[Observation], fit: Fit) -> _Errors:
    amounts = [row.amounts(fit.basis) for row in observations]
    rows = [row for row, each in zip(observations, amounts, strict=True) if each]
    if not rows:
        raise CalibrationError(
            f"there is nothing to draw: none of {len(observations)} observations has the columns of the fit, which are "
            f"of {fit.basis}; take those of a validation with this fit"
        )
    amounts = [each for each in amounts if each]
    found = sensitivity(fit, amounts)
    above = found.seconds > 0
    if not above.any():
        raise CalibrationError(f"there is nothing to draw: none of {len(rows)} predicted times is above 0")
    measured = np.array([row.seconds for row in rows])
    shares = {name: each for name, each in zip(found.columns, found.shares[above].T, strict=True) if each.any()}
    others = sorted({name for each in amounts for name in each} - set(shares))
    rates = {name: np.array([each.get(name, 0) for each in amounts])[above] / measured[above] for name in others}
    return _Errors(
        classes=np.array([row.kernel_class for row in rows])[above],
        errors=np.log(found.seconds[above] / measured[above]),
        shares=shares,
        rates={name: each / each.max() for name, each in rates.items() if each.any()},
        left_out=int((~above).sum()),
    )


def _scatter(ax: Axes, found: _Errors, column: str, letters: int = 80) -> None:
    """Draw the errors over *column*, whose name is in lines of so many *letters*."""
    costs = column in found.shares
    along = found.shares[column] if costs else found.rates.get(column, np.zeros_like(found.errors))
    what = f"share of {column}" if costs else f"{column} in a second, of the most (no weight)"
    classes = dict.fromkeys(found.classes.tolist())
    for kernel_class, style in zip(classes, point_styles(), strict=False):
        own = (found.classes == kernel_class) & (along != 0)
        if own.any():
            ax.plot(along[own], found.errors[own], **style, linestyle="none", label=kernel_class)
    ax.axhline(0, color="grey", linewidth=1, zorder=0)
    ax.set_xlabel("\n".join(in_lines(what, letters)), fontsize=PRINTS[0][0])
    farthest = 1.05 * max(abs(along).max(initial=0.0), 1e-12)
    ax.set_xlim(-farthest if (along < 0).any() else -0.03 * farthest, farthest)
    ax.xaxis.set_major_locator(ticker.MaxNLocator(TICKS))
    # Shares may be a millionth: no sum with an offset has room below a chart.
    ax.xaxis.set_major_formatter(
        lambda share, _: f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"
    )
    _say_left_out(ax, found.left_out)


def _say_left_out(ax: Axes, number: int) -> None:
    if number:
        legend_entry(ax, f"without {number} predicted below 0")


# }}}
