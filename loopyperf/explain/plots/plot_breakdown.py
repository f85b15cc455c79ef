"""What the time of a kernel is made of."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import Literal

import numpy as np

from loopyperf.calibration.fits import Fit
from loopyperf.errors import IncompatibleRunsError, ParameterError
from loopyperf.explain.plots.figures import (
    PRINTS,
    Axes,
    Figure,
    LineStyle,
    area_styles,
    axes,
    check_drawn,
    figure_of,
    hollow,
    ink,
    legend_above,
    legend_entry,
    line_styles,
    marker_style,
    name_rows,
    ticker,
    width_of,
)
from loopyperf.models.model_interface import Basis
from loopyperf.models.result import LEVEL, Estimate
from loopyperf.units import duration, in_percent, unit_of

By = Literal["property", "source"]
MOST = 10
"""parts that are drawn, others are one"""
TICKS = 5
"""of the axis, at most, so that they have room in one column of a page"""
WHOLE, OTHERS, NOWHERE = "all", "others", "(no source)"
NEGATIVE = "below 0: a negative weight"
PRINT, LETTER, _ = PRINTS[1]
BESIDE_BARS = 8 * LETTER
"""inches that the time beside a bar takes"""
BARS = 0.5
"""of the width that bars have at least, beside the longest names"""
FAR = 2.5
"""times the longest bar: an interval that reaches farther ends in an arrow, so that bars remain to be seen"""


def plot_breakdown(estimate: Estimate, *, by: By = "property", most: int = MOST, ax: Axes | None = None) -> Figure:
    """Return bars of what parts of *estimate* cost (x, in s, ms, µs, ns or ps): the largest first, their sum on top.

    Parts, a row each, are properties, or instructions, barriers and launches of the source; all but the *most* largest,
    by their magnitude, are one bar, "others". Costs below 0, which weights that were fitted without bounds may have, go
    to the left. The bar of the whole has the estimate's interval, and the times that it has otherwise
    (:attr:`Estimate.alternatives`). An interval that reaches much farther than all bars ends in an arrow; the legend
    then says up to where.

    :raises ParameterError: *estimate* is none, or of many sizes, or *by* is something else.
    """
    check_drawn(estimate, Estimate, "loopyperf.estimate")
    parts = _largest(_costs(estimate, by), most)
    whole = float(estimate.seconds)
    unit, name = unit_of(max(map(abs, [whole, *parts.values()])))
    ax = axes(ax)
    ax.barh(0, whole / unit, color="grey")
    bars = list(enumerate(parts.values(), start=1))
    costs = [(place, seconds / unit) for place, seconds in bars if seconds >= 0]
    savings = [(place, seconds / unit) for place, seconds in bars if seconds < 0]
    for drawn, style, label in zip((costs, savings), area_styles(), (None, NEGATIVE), strict=False):
        if drawn:
            places, widths = zip(*drawn, strict=True)
            drawn_bars = ax.barh(places, widths, **style, linewidth=0, label=label)
            ax.bar_label(drawn_bars, [duration(width * unit) for width in widths], padding=2, fontsize=PRINT)
    _mark_whole(ax, estimate, unit, FAR * max(map(abs, [whole, *parts.values()])))
    ax.axvline(0, color=ink(ax), linewidth=0.8)
    least = "at least " if estimate.left_out else ""
    name_rows(ax, [f"{WHOLE}, {least}{whole / unit:.3g} {name}", *parts])
    ax.xaxis.set_major_locator(ticker.MaxNLocator(TICKS))
    ax.margins(x=_margin(ax))
    ax.set(xlabel=f"time ({name})")
    ax.invert_yaxis()
    legend_above(ax)
    return figure_of(ax)


def _margin(ax: Axes) -> float:
    """Return the room for times to the left and right of the bars, as a share of what these take."""
    bars = BARS * width_of(ax) - 2 * BESIDE_BARS
    return BESIDE_BARS / max(bars, BESIDE_BARS)


def _costs(estimate: Estimate, by: By) -> Mapping[str, float]:
    """Return the parts in seconds."""
    if isinstance(estimate.seconds, np.ndarray):
        raise ParameterError(f"a breakdown is of one size, this estimate is of {estimate.seconds.size}: estimate one")
    if by == "property":
        parts = estimate.breakdown.by_property()
    elif by == "source":
        parts = estimate.breakdown.by_source()
    else:
        raise ParameterError(f"by is 'property' or 'source', received {by!r}")
    return {name or NOWHERE: float(cost) for name, cost in parts.items()}


def _largest(parts: Mapping[str, float], most: int) -> dict[str, float]:
    """Return the *most* largest parts, from the largest to the least, and the sum of the others."""
    ordered = sorted(parts, key=lambda name: -abs(parts[name]))
    # One part alone is no longer a name than "others" is.
    shown = ordered if len(ordered) <= most + 1 else ordered[:most]
    rest = [parts[name] for name in ordered[len(shown) :]]
    found = {name: parts[name] for name in sorted(shown, key=lambda name: -parts[name])}
    return {**found, f"{len(rest)} {OTHERS}": sum(rest)} if rest else found


def _mark_whole(ax: Axes, estimate: Estimate, unit: float, far: float) -> None:
    """Draw the interval and what the time is otherwise; what is beyond *far* seconds by an arrow."""
    whole = float(estimate.seconds)
    if estimate.interval is not None:
        low, high = (float(end) for end in estimate.interval)
        is_far = high > far
        spread = [[(whole - low) / unit], [(min(high, far) - whole) / unit]]
        label = f"interval, up to {duration(high)}" if is_far else "interval"
        ax.errorbar([whole / unit], [0], xerr=spread, color=ink(ax), capsize=4, linestyle="none", label=label)
        if is_far:
            ax.plot([far / unit], [0], ">", color=ink(ax))
    for marker, other in zip("Ds^vP", estimate.alternatives, strict=False):
        at = float(other.seconds) / unit
        ax.plot([at], [0], marker, color=ink(ax), fillstyle="none", linestyle="none", label=f"if {other.assumption}")


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
        mark = hollow(style) if weight < 0 else marker_style(style)
        # Zero has no place on a logarithmic axis: the mark is on the frame.
        ax.plot([abs(weight) or left], [row], **mark, linestyle="none", clip_on=bool(weight), zorder=3)
    ax.plot([], [], **marker_style(style), linestyle="none", label=device)


def _name_kinds(ax: Axes, points: Sequence[Known]) -> None:
    """Say what hollow marks, those on the frame and bars are, where there are any."""
    if any(weight < 0 for weight, _, _ in points):
        ax.plot([], [], "o", color="grey", fillstyle="none", label="below 0: its magnitude")
    if any(weight == 0 for weight, _, _ in points):
        legend_entry(ax, "on the frame: 0")
    if any(isfinite(width) for _, width, _ in points):
        ax.plot([], [], color="grey", linewidth=1.2, label=f"may be off so far ({in_percent(LEVEL)})")
