"""What the time of a kernel is made of."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from loopyperf.errors import ParameterError
from loopyperf.models.result import Estimate
from loopyperf.plots.figures import (
    PRINTS,
    Axes,
    Figure,
    axes,
    check_drawn,
    figure_of,
    ink,
    legend_above,
    name_rows,
    ticker,
    width_of,
)
from loopyperf.plots.styles import area_styles
from loopyperf.units import duration, unit_of

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
