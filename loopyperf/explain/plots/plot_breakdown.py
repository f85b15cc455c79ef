"""Plot the parts of a run time."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from loopyperf.errors import ParameterError
from loopyperf.explain.plots.figures import (
    Axes,
    Figure,
    axes,
    check_drawn,
    font_size,
    ink,
    name_rows,
    ticker,
    with_legend,
)
from loopyperf.models.result import Estimate
from loopyperf.units import duration, unit_of

By = Literal["property", "source"]
MOST = 10
"""maximum number of parts drawn one by one; the others are one bar"""
MARGIN = 0.35
"""margin for the labels beside bars, as a share of their range"""
TICKS = 5
"""maximum number of ticks, so that they fit in one column of a page"""
FAR = 2.0
"""ratio to the longest time at which the axis ends, so that bars remain visible beside a long interval"""


def plot_breakdown(estimate: Estimate, *, by: By = "property", most: int = MOST, ax: Axes | None = None) -> Figure:
    """Plot the costs of the parts of *estimate* as bars (x, in s, ms, µs, ns or ps), with the total on top.

    Parts are properties, or instructions, barriers and launches of the source, the largest first. All but the *most*
    largest by magnitude are one bar, "others". Costs below 0, which weights that were fitted without bounds may have,
    extend to the left. The bar of the total has the prediction interval, whose ends are in the legend, and the
    alternative times (:attr:`Estimate.alternatives`). An interval much longer than all times is cut off.

    :raises ParameterError: *estimate* is not an estimate of one size, or *by* is invalid.
    """
    check_drawn(estimate, Estimate, "loopyperf.estimate")
    parts = _largest(_costs(estimate, by), most)
    whole = float(estimate.seconds)
    longest = max(map(abs, [whole, *parts.values(), *(float(each.seconds) for each in estimate.alternatives)]))
    unit, name = unit_of(longest)
    drawn = axes(ax)
    drawn.barh(0, whole / unit, color="grey")
    seconds = np.array(list(parts.values()))
    bars = drawn.barh(range(1, len(parts) + 1), seconds / unit, color=np.where(seconds < 0, "C1", "C0").tolist())
    drawn.bar_label(bars, list(map(duration, parts.values())), padding=2, fontsize=font_size(drawn))
    drawn.axvline(0, color=ink(drawn), linewidth=0.8)
    drawn.margins(x=MARGIN)
    _mark_total(drawn, estimate, unit)
    right = drawn.get_xlim()[1]
    drawn.set_xlim(right=min(right, FAR * longest / unit or right))
    least = "at least " if estimate.left_out else ""
    name_rows(drawn, [f"total, {least}{whole / unit:.3g} {name}", *parts])
    drawn.xaxis.set_major_locator(ticker.MaxNLocator(TICKS))
    drawn.set(xlabel=f"time ({name})")
    return with_legend(drawn, grows=ax is None)


def _costs(estimate: Estimate, by: By) -> Mapping[str, float]:
    """Return the costs of the parts, in seconds."""
    if isinstance(estimate.seconds, np.ndarray):
        raise ParameterError(f"a breakdown needs an estimate of one size, got one of {estimate.seconds.size} sizes")
    if by not in ("property", "source"):
        raise ParameterError(f"by must be 'property' or 'source', got {by!r}")
    parts = estimate.breakdown.by_property() if by == "property" else estimate.breakdown.by_source()
    return {name or "(no source)": float(cost) for name, cost in parts.items()}


def _largest(parts: Mapping[str, float], most: int) -> dict[str, float]:
    """Return the *most* largest parts, in descending order, and the sum of the others."""
    ordered = sorted(parts, key=lambda name: -abs(parts[name]))
    # A single other part is shown by its name.
    shown = ordered if len(ordered) <= most + 1 else ordered[:most]
    rest = [parts[name] for name in ordered[len(shown) :]]
    found = {name: parts[name] for name in sorted(shown, key=lambda name: -parts[name])}
    return {**found, f"{len(rest)} others": sum(rest)} if rest else found


def _mark_total(ax: Axes, estimate: Estimate, unit: float) -> None:
    """Draw the interval and the alternative times on the bar of the total."""
    whole = float(estimate.seconds)
    if estimate.interval is not None:
        low, high = (float(end) for end in estimate.interval)
        spread = [[(whole - low) / unit], [(high - whole) / unit]]
        label = f"interval, {duration(low)} to {duration(high)}"
        ax.errorbar([whole / unit], [0], xerr=spread, color=ink(ax), capsize=4, linestyle="none", label=label)
    for marker, other in zip("Ds^vP", estimate.alternatives, strict=False):
        at = float(other.seconds) / unit
        ax.plot([at], [0], marker, color=ink(ax), fillstyle="none", linestyle="none", label=f"if {other.assumption}")
