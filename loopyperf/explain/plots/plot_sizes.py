"""Plot the run time of a kernel against a size."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.fits import Fit
from loopyperf.errors import ParameterError
from loopyperf.explain.plots.figures import (
    LETTER,
    Axes,
    Figure,
    axes,
    check_drawn,
    figure_of,
    ink,
    legend_above,
    legend_entry,
    name_along,
    point_styles,
    ticker,
    width_of,
)
from loopyperf.models.result import Estimate
from loopyperf.models.workload import fit_column
from loopyperf.predict.by_counts import extrapolates
from loopyperf.units import number_of

Floats = NDArray[np.float64]
ALONE = 1.5
"""line width of the interval of a single size, in points; less than its marker"""
EDGE = 0.6
"""line width of the interval's edge for several sizes, in points"""
FEW = 4
"""ratio of the largest to the smallest size below which tick labels are spaced as on a linear axis"""
DECADES = 200
"""ratio from which only powers of ten are labeled"""


def plot_sizes(
    estimate: Estimate,
    size: str,
    *,
    fit: Fit | None = None,
    measured: Sequence[tuple[float, float]] = (),
    ax: Axes | None = None,
) -> Figure:
    """Plot run times (y, s) against the values of *size* (x) on logarithmic axes.

    *estimate* must be for an array of sizes. Its interval is a band, and its alternative times
    (:attr:`Estimate.alternatives`) are dashed lines. *measured* are pairs of a size and a time in seconds. If *fit*,
    the estimate's fit, is given, sizes are hatched where the kernel does more or less of something than all kernels of
    the fit. Sizes and times that are not above 0 are not shown; the legend has their number.

    :raises ParameterError: *estimate* is not for several sizes, or *size* is unknown or has equal values.
    """
    check_drawn(estimate, Estimate, "loopyperf.estimate")
    values, order = _ascending(estimate, size)
    seconds = _at(estimate.seconds, order)
    is_positive = (values > 0) & (seconds > 0)
    values, order, seconds = values[is_positive], order[is_positive], seconds[is_positive]
    known = [(at, time) for at, time in measured if at > 0 and time > 0]
    hidden = int((~is_positive).sum()) + len(measured) - len(known)
    ax = axes(ax)
    style, *others = islice(point_styles(), 1 + len(estimate.alternatives))
    color = style["color"]
    if estimate.interval is not None:
        low, high = (_at(end, order) for end in estimate.interval)
        _draw_interval(ax, values, low, high, color)
    ax.plot(values, seconds, **style, markersize=3, label=f"{estimate.kernel}, {estimate.model}{estimate.without}")
    for each, other in zip(estimate.alternatives, others, strict=True):
        label, times = f"if {each.assumption}", _at(each.seconds, order)
        ax.plot(values, times, **other, markersize=3, linestyle="--", label=label)
    if known:
        at, times = zip(*sorted(known), strict=True)
        ax.plot(at, times, "x", color=ink(ax), linestyle="none", label="measured")
    ax.set(xscale="log", yscale="log", ylabel="run time (s)")
    name_along(ax, size)
    if len(values):
        _number(ax, values)
    if fit is not None:
        _hatch(ax, values, _beyond(estimate, fit)[order])
    if hidden:
        legend_entry(ax, f"not shown: {number_of(hidden, 'point')} with size or time not above 0")
    legend_above(ax)
    return figure_of(ax)


def _draw_interval(ax: Axes, values: Floats, low: Floats, high: Floats, color: str) -> None:
    """Draw the band from *low* to *high*, pale, with edges that are visible on any background."""
    width = EDGE if len(values) > 1 else ALONE
    ax.fill_between(values, low, high, facecolor=(color, 0.35), edgecolor=color, linewidth=width, label="interval")


def _ascending(estimate: Estimate, size: str) -> tuple[Floats, NDArray[np.intp]]:
    """Return the values of *size* in ascending order, and their indices in the estimate."""
    if size not in estimate.sizes:
        raise ParameterError(f"{estimate.kernel} has no size {size!r}; sizes: {', '.join(estimate.sizes) or 'none'}")
    if not isinstance(estimate.seconds, np.ndarray):
        raise ParameterError(f"the estimate is for one size; estimate the kernel with an array for {size!r}")
    values = np.broadcast_to(np.asarray(estimate.sizes[size], np.float64), estimate.seconds.shape).ravel()
    if len(np.unique(values)) < len(values):
        raise ParameterError(f"several sizes of the estimate have the same {size!r}; vary only {size!r} in one plot")
    order = np.argsort(values)
    return values[order], order


def _number(ax: Axes, values: Floats) -> None:
    """Label the x-axis with the *values* if they fit, or else with round numbers, without minor labels."""
    span = np.ptp(np.log(values))
    room = LETTER * (3 + len(f"{values[-1]:,.0f}"))
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    if (np.diff(np.log(values)) * width_of(ax) >= room * span).all():
        ax.set_xticks(values, [f"{value:,.0f}" for value in values])
    elif span < np.log(DECADES):
        subs = (1, 2, 5) if np.log(2) * width_of(ax) >= room * span else (1, 3)
        ax.xaxis.set_major_locator(ticker.MaxNLocator(3) if span < np.log(FEW) else ticker.LogLocator(subs=subs))
        ax.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))


def _at(times: Any, order: NDArray[np.intp]) -> Floats:
    return np.asarray(times, np.float64).ravel()[order]


def _beyond(estimate: Estimate, fit: Fit) -> NDArray[np.bool_]:
    """Return for each size whether the fit extrapolates."""
    shares: dict[str, dict[str, Any]] = {}
    for row in estimate.breakdown.rows:
        shares.setdefault(fit_column(row.property), {})[row.source] = row.count
    return np.broadcast_to(extrapolates(fit, shares), (np.size(estimate.seconds),))


def _hatch(ax: Axes, values: Floats, is_beyond: NDArray[np.bool_]) -> None:
    """Hatch the sizes where the fit extrapolates, up to halfway to their neighbors."""
    middles = np.sqrt(values[1:] * values[:-1])
    edges = [values[0], *middles, values[-1]] if len(values) else []
    edges = [values[0] * 0.9, values[0] * 1.1] if len(values) == 1 else edges
    label: str | None = "extrapolated"
    changes = np.flatnonzero(np.diff(np.concatenate([[False], is_beyond, [False]]).astype(int)))
    for begin, end in zip(changes[::2], changes[1::2], strict=True):
        ax.axvspan(
            edges[begin],
            edges[end],
            facecolor="none",
            edgecolor=ink(ax),
            hatch="////",
            alpha=0.5,
            linewidth=0,
            label=label,
        )
        label = None
