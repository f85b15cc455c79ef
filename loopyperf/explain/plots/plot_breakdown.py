"""Plot the parts of a run time, and the weights of fits."""

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
"""maximum number of parts drawn one by one; the others are one bar"""
TICKS = 5
"""maximum number of ticks, so that they fit in one column of a page"""
WHOLE, OTHERS, NOWHERE = "total", "others", "(no source)"
NEGATIVE = "negative cost (negative weight)"
PRINT, LETTER, _ = PRINTS[1]
BESIDE_BARS = 8 * LETTER
"""width of the label beside a bar, in inches"""
BARS = 0.5
"""minimum share of the width for bars, beside the longest names"""
FAR = 2.5
"""ratio to the longest bar; a longer interval ends in an arrow, so that bars remain visible"""


def plot_breakdown(estimate: Estimate, *, by: By = "property", most: int = MOST, ax: Axes | None = None) -> Figure:
    """Plot the costs of the parts of *estimate* as bars (x, in s, ms, µs, ns or ps), with the total on top.

    Parts are properties, or instructions, barriers and launches of the source, the largest first. All but the *most*
    largest by magnitude are one bar, "others". Costs below 0, which weights that were fitted without bounds may have,
    extend to the left. The bar of the total has the prediction interval and the alternative times
    (:attr:`Estimate.alternatives`). An interval much longer than all bars ends in an arrow, and the legend has its end.

    :raises ParameterError: *estimate* is not an estimate of one size, or *by* is invalid.
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
    """Return the margin for labels beside the bars, as a share of the bars' width."""
    bars = BARS * width_of(ax) - 2 * BESIDE_BARS
    return BESIDE_BARS / max(bars, BESIDE_BARS)


def _costs(estimate: Estimate, by: By) -> Mapping[str, float]:
    """Return the costs of the parts, in seconds."""
    if isinstance(estimate.seconds, np.ndarray):
        raise ParameterError(f"a breakdown needs an estimate of one size, got one of {estimate.seconds.size} sizes")
    if by == "property":
        parts = estimate.breakdown.by_property()
    elif by == "source":
        parts = estimate.breakdown.by_source()
    else:
        raise ParameterError(f"by must be 'property' or 'source', got {by!r}")
    return {name or NOWHERE: float(cost) for name, cost in parts.items()}


def _largest(parts: Mapping[str, float], most: int) -> dict[str, float]:
    """Return the *most* largest parts, in descending order, and the sum of the others."""
    ordered = sorted(parts, key=lambda name: -abs(parts[name]))
    # A single other part is shown by its name.
    shown = ordered if len(ordered) <= most + 1 else ordered[:most]
    rest = [parts[name] for name in ordered[len(shown) :]]
    found = {name: parts[name] for name in sorted(shown, key=lambda name: -parts[name])}
    return {**found, f"{len(rest)} {OTHERS}": sum(rest)} if rest else found


def _mark_whole(ax: Axes, estimate: Estimate, unit: float, far: float) -> None:
    """Draw the interval and the alternative times; an interval beyond *far* seconds ends in an arrow."""
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
"""factor by which the axis extends beyond the weights, so that it includes a power of ten"""
UNITS: Mapping[Basis, str] = {"counts": "s per unit", "pipelines": "s per s of published busy time"}
"""units of weights, by basis"""


Known = tuple[float, float, float]
"""weight; half-width of its interval, NaN if unknown; y-coordinate"""


def plot_weights(fits: Mapping[str, Fit], columns: Sequence[str], *, ax: Axes | None = None) -> Figure:
    """Plot the weights of *columns* (x, logarithmic, s per unit or per s of published busy time), one row per column.

    *fits* maps devices to fits of the same model, basis and counting; within a row, devices are in this order. Bars are
    80 % intervals of a weight if all other weights are exact: √ of its variance (the fit's covariance, for relative
    errors of variance 1), times the quantile of the scores that prediction intervals use
    (:meth:`loopyperf.calibration.accuracy.Uncertainty.of_weights`). A fit without uncertainty has no bars. Negative
    weights are hollow markers at their magnitude, and zero weights are on the frame.

    :raises IncompatibleRunsError: *fits* differ in model, basis or counting.
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
    _explain_markers(ax, [each for points in known.values() for each in points])
    name_rows(ax, columns)
    ax.set(xscale="log", xlim=(left, right), ylim=(len(columns) - 0.5, -0.5), xlabel=f"weight ({UNITS[basis]})")
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    legend_above(ax)
    return figure_of(ax)


def _checked_basis(fits: Mapping[str, Fit], columns: Sequence[str]) -> Basis:
    """Return the common basis of *fits*."""
    kinds = {name: (fit.model, fit.basis, fit.counting) for name, fit in fits.items()}
    if len(set(kinds.values())) > 1:
        listed = "; ".join(f"{name}: {', '.join(kind)}" for name, kind in kinds.items())
        raise IncompatibleRunsError(f"cannot compare weights of different models, bases or countings ({listed})")
    absent = [column for column in columns if not any(column in fit.weights for fit in fits.values())]
    if fits and absent:
        known = ", ".join(dict.fromkeys(name for fit in fits.values() for name in fit.weights))
        raise ParameterError(f"no fit has a weight for {', '.join(map(repr, absent))}; choose from {known}")
    bases: list[Basis] = [fit.basis for fit in fits.values()]
    return bases[0] if bases else "counts"


def _limits(points: Sequence[Known]) -> tuple[float, float]:
    """Return the ends of the axis, beyond all weights and their intervals."""
    sizes = [abs(weight) for weight, _, _ in points if weight]
    most = [abs(weight) + width for weight, width, _ in points if isfinite(width)]
    return (min(sizes) / MARGIN, max(sizes + most) * MARGIN) if sizes else (0.1, 10.0)


def _draw(ax: Axes, points: Sequence[Known], style: LineStyle, device: str, left: float) -> None:
    for weight, width, row in points:
        if isfinite(width):
            # An interval that includes 0 extends to the end of the axis.
            ends = [max(left, abs(weight) - width), max(left, abs(weight) + width)]
            ax.plot(ends, [row, row], color=style["color"], linestyle=style["linestyle"], linewidth=1.2)
        mark = hollow(style) if weight < 0 else marker_style(style)
        # A logarithmic axis has no zero, so the marker is on the frame.
        ax.plot([abs(weight) or left], [row], **mark, linestyle="none", clip_on=bool(weight), zorder=3)
    ax.plot([], [], **marker_style(style), linestyle="none", label=device)


def _explain_markers(ax: Axes, points: Sequence[Known]) -> None:
    """Add legend entries for hollow markers, markers on the frame, and bars, if there are any."""
    if any(weight < 0 for weight, _, _ in points):
        ax.plot([], [], "o", color="grey", fillstyle="none", label="negative (magnitude shown)")
    if any(weight == 0 for weight, _, _ in points):
        legend_entry(ax, "on the frame: weight 0")
    if any(isfinite(width) for _, width, _ in points):
        ax.plot([], [], color="grey", linewidth=1.2, label=f"{in_percent(LEVEL)} interval")
