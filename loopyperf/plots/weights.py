"""What a unit of work costs on several devices."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan

from loopyperf.calibration.fits import Fit
from loopyperf.errors import IncompatibleRunsError, ParameterError
from loopyperf.models.interface import Basis
from loopyperf.models.result import LEVEL
from loopyperf.plots.figures import (
    Axes,
    Figure,
    axes,
    figure_of,
    legend_above,
    name_rows,
    say_in_legend,
    ticker,
)
from loopyperf.plots.styles import LineStyle, hollow, line_styles, points_of
from loopyperf.units import in_percent

MARGIN = 3.2
"""times: how far the axis goes beyond the weights, so that a power of ten is on it"""
UNITS: Mapping[Basis, str] = {"counts": "s per unit", "pipelines": "s per described s"}
"""what weights are told in, by what they are for"""


Known = tuple[float, float, float]
"""a weight; by how much it may be off, NaN where that is not stated; the height that it is drawn at"""


def plot_weights(fits: Mapping[str, Fit], columns: Sequence[str], *, ax: Axes | None = None) -> Figure:
    """Return the chart of weights (x, logarithmic, s per unit or per described s) of *columns*, a row for each.

    *fits* are by the name of the device, of one model, basis and counting; devices stand in their order within a row.
    Bars are by how much a weight may be off if nothing else is: √ of its variance (the fit's covariance, for relative
    errors of variance 1), times the quantile of the scores from which intervals are made
    (:meth:`loopyperf.calibration.accuracy.Uncertainty.of_weights`); there are none where the fit does not
    state it. A weight below 0 is hollow, at its magnitude; 0 is on the frame.

    :raises IncompatibleRunsError: the weights of *fits* are for different things.
    :raises ParameterError: no fit has one of *columns*.
    """
    basis = _checked_basis(fits, columns)
    ax = axes(ax)
    height = 0.7 / max(1, len(fits))
    known: dict[str, list[Known]] = {}
    for number, (device, fit) in enumerate(fits.items()):
        widths = {} if fit.uncertainty is None else fit.uncertainty.of_weights(LEVEL)
        shift = (number - (len(fits) - 1) / 2) * height
        known[device] = [
            (fit.weights[column], widths.get(column, nan), place + shift)
            for place, column in enumerate(columns)
            if column in fit.weights
        ]
    left, right = _limits([each for points in known.values() for each in points])
    for (device, points), style in zip(known.items(), line_styles(), strict=False):
        _draw(ax, points, style, device, left)
    _name_kinds(ax, [each for points in known.values() for each in points])
    name_rows(ax, columns)
    ax.set(xscale="log", xlim=(left, right), ylim=(len(columns) - 0.5, -0.5), xlabel=f"weight ({UNITS[basis]})")
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    legend_above(ax)
    return figure_of(ax)


def _checked_basis(fits: Mapping[str, Fit], columns: Sequence[str]) -> Basis:
    """Return what the weights are for."""
    kinds = {name: (fit.model, fit.basis, fit.counting) for name, fit in fits.items()}
    if len(set(kinds.values())) > 1:
        listed = "; ".join(f"{name}: {', '.join(kind)}" for name, kind in kinds.items())
        raise IncompatibleRunsError(f"weights of different models, bases or countings do not compare ({listed})")
    absent = [column for column in columns if not any(column in fit.weights for fit in fits.values())]
    if fits and absent:
        known = ", ".join(dict.fromkeys(name for fit in fits.values() for name in fit.weights))
        raise ParameterError(f"no fit has a weight of {', '.join(map(repr, absent))}; there are {known}")
    bases: list[Basis] = [fit.basis for fit in fits.values()]
    return bases[0] if bases else "counts"


def _limits(points: Sequence[Known]) -> tuple[float, float]:
    """Return the ends of the axis: beyond all weights, and what they are at most."""
    sizes = [abs(weight) for weight, _, _ in points if weight]
    most = [abs(weight) + width for weight, width, _ in points if isfinite(width)]
    return (min(sizes) / MARGIN, max(sizes + most) * MARGIN) if sizes else (0.1, 10.0)


def _draw(ax: Axes, points: Sequence[Known], style: LineStyle, device: str, left: float) -> None:
    for weight, width, row in points:
        if isfinite(width):
            # What may be 0 reaches the end of the axis.
            ends = [max(left, abs(weight) - width), max(left, abs(weight) + width)]
            ax.plot(ends, [row, row], color=style["color"], linestyle=style["linestyle"], linewidth=1.2)
        mark = hollow(style) if weight < 0 else points_of(style)
        # Zero has no place on a logarithmic axis: the mark is on the frame.
        ax.plot([abs(weight) or left], [row], **mark, linestyle="none", clip_on=bool(weight), zorder=3)
    ax.plot([], [], **points_of(style), linestyle="none", label=device)


def _name_kinds(ax: Axes, points: Sequence[Known]) -> None:
    """Say what hollow marks, those on the frame and bars are, where there are any."""
    if any(weight < 0 for weight, _, _ in points):
        ax.plot([], [], "o", color="grey", fillstyle="none", label="below 0: its magnitude")
    if any(weight == 0 for weight, _, _ in points):
        say_in_legend(ax, "on the frame: 0")
    if any(isfinite(width) for _, width, _ in points):
        ax.plot([], [], color="grey", linewidth=1.2, label=f"may be off so far ({in_percent(LEVEL)})")
