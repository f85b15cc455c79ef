"""Plot predicted against measured run times, and errors against shares of the time."""

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
"""relative error at the dashed lines beside the diagonal"""
GRIDS = ((6, 3, 3.2, 3.0), (12, 4, 2.8, 2.4), (math.inf, 5, 2.6, 2.2))
"""for up to so many panels: panels per row, and width and height of each in inches"""
LEGEND = 1.0
"""height of the legend below the panels, in inches"""
TICKS = 4
"""maximum number of ticks on an axis of shares"""
SCALE = 0.5
"""width of the axis labels beside a panel, in inches"""
ERROR = "ln(predicted/measured)"


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
    _note_hidden(ax, len(predictions) - len(shown))
    legend_above(ax)
    return figure_of(ax)


def plot_residuals(observations: Sequence[Observation], fit: Fit, column: str, *, ax: Axes | None = None) -> Figure:
    """Plot errors (y, ln(predicted/measured)) against the share of *column* in the predicted time (x, %).

    Each kernel class has its own style. Errors that grow with the share indicate that the column's weight, or the form
    of its term, is wrong. Kernels without the column are not shown. *observations* are those of
    :func:`loopyperf.validate`, or the result of :func:`loopyperf.load_observations`. Times below 0 are not shown, as in
    :func:`plot_predictions`.

    :raises CalibrationError: there are no observations, or none above 0 by *fit*, or *fit* has no weight for *column*.
    """
    errors = _errors(observations, fit)
    if column not in fit.weights:
        raise CalibrationError(f"the fit has no weight for {column!r}; choose one of {', '.join(fit.weights)}")
    ax = axes(ax)
    _scatter(ax, errors, column)
    name_along(ax, f"share of {column} in the predicted time")
    ax.set(ylabel=ERROR)
    legend_above(ax)
    return figure_of(ax)


def plot_residual_panels(observations: Sequence[Observation], fit: Fit, *, at_most: int | None = None) -> Figure:
    """Plot a panel like :func:`plot_residuals`, in the same units, for each column of the observations.

    The columns with the largest mean shares come first. Columns without a weight in *fit*, or with weight 0, come last,
    plotted against their rate (amount per second, relative to the maximum). *at_most* limits the number of panels;
    the figure is as large as they require.

    :raises CalibrationError: there are no observations, or none above 0 by *fit*, or *at_most* is less than 1.
    """
    if at_most is not None and at_most < 1:
        raise CalibrationError(f"at_most must be >= 1, got {at_most}")
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


# {{{ errors against shares


@dataclass(frozen=True, slots=True, eq=False)
class _Errors:
    """Kernel classes, errors of ln T, and shares of T, of the observations with a predicted time T above 0."""

    classes: NDArray[np.str_]
    errors: NDArray[np.float64]
    shares: Mapping[str, NDArray[np.float64]]
    """shares of the predicted times, by column with a cost"""
    rates: Mapping[str, NDArray[np.float64]]
    """amounts per second relative to the maximum, by column without a cost"""
    left_out: int

    @property
    def present(self) -> list[str]:
        """Return the columns of the observations, those with the largest mean shares first."""
        sizes = {name: float(np.abs(each).mean()) for name, each in self.shares.items()}
        return [*sorted(sizes, key=lambda name: -sizes[name]), *self.rates]


def _errors(observations: Sequence[Observation], fit: Fit) -> _Errors:
    amounts = [row.amounts(fit.basis) for row in observations]
    rows = [row for row, each in zip(observations, amounts, strict=True) if each]
    if not rows:
        raise CalibrationError(
            f"nothing to plot: none of {len(observations)} observations has the columns of the fit ({fit.basis}); pass "
            "those of a validation with this fit"
        )
    amounts = [each for each in amounts if each]
    found = sensitivity(fit, amounts)
    above = found.seconds > 0
    if not above.any():
        raise CalibrationError(f"nothing to plot: none of {len(rows)} predicted times is above 0 s")
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
    """Draw the errors against *column*, whose name is wrapped to *letters* characters."""
    costs = column in found.shares
    along = found.shares[column] if costs else found.rates.get(column, np.zeros_like(found.errors))
    what = f"share of {column}" if costs else f"{column} per second, relative to the maximum (no weight)"
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
    # Shares may be as small as 1e-6, and an offset label does not fit below a panel.
    ax.xaxis.set_major_formatter(
        lambda share, _: f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"
    )
    _note_hidden(ax, found.left_out)


def _note_hidden(ax: Axes, number: int) -> None:
    if number:
        legend_entry(ax, f"not shown: {number} predicted below 0")


# }}}
