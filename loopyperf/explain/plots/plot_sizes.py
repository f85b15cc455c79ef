"""How the time of a kernel grows with a size."""

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
"""points: how wide the interval of a single size is drawn, which is less than its mark"""
EDGE = 0.6
"""points: how wide the edge of the interval of several is"""
FEW = 4
"""times the least size: up to there, numbers are as far apart as they are below a linear axis"""
DECADES = 200
"""times the least size: from there on, only powers of ten are written"""


def plot_sizes(
    estimate: Estimate,
    size: str,
    *,
    fit: Fit | None = None,
    measured: Sequence[tuple[float, float]] = (),
    ax: Axes | None = None,
) -> Figure:
    """Return the chart of run times (y, s) over the values of *size* (x), on logarithmic axes.

    *estimate* is one of an array of sizes. Its interval is a band, a time that it has otherwise
    (:attr:`Estimate.alternatives`) a dashed line. *measured* are values of *size*, each with a time in seconds. With
    the *fit* that it was made by, sizes are hatched at which the kernel does more, or less, of something than all
    kernels that the fit was made from. Sizes and times that are not above 0 have no place; the legend says how many.

    :raises ParameterError: *estimate* is none, is of one size, has no *size*, or several with the same value of it.
    """
    check_drawn(estimate, Estimate, "loopyperf.estimate")
    values, order = _ascending(estimate, size)
    seconds = _at(estimate.seconds, order)
    has_place = (values > 0) & (seconds > 0)
    values, order, seconds = values[has_place], order[has_place], seconds[has_place]
    known = [(at, time) for at, time in measured if at > 0 and time > 0]
    left_out = int((~has_place).sum()) + len(measured) - len(known)
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
    if left_out:
        legend_entry(ax, f"without {number_of(left_out, 'point')} of which size or time is not above 0")
    legend_above(ax)
    return figure_of(ax)


def _draw_interval(ax: Axes, values: Floats, low: Floats, high: Floats, color: str) -> None:
    """Draw the band from *low* to *high*: a pale one, whose edges are seen on any ground."""
    width = EDGE if len(values) > 1 else ALONE
    ax.fill_between(values, low, high, facecolor=(color, 0.35), edgecolor=color, linewidth=width, label="interval")


def _ascending(estimate: Estimate, size: str) -> tuple[Floats, NDArray[np.intp]]:
    """Return the values of *size* in ascending order, and where they stand in the estimate."""
    if size not in estimate.sizes:
        raise ParameterError(f"{estimate.kernel} has no size {size!r}, only {', '.join(estimate.sizes) or 'none'}")
    if not isinstance(estimate.seconds, np.ndarray):
        raise ParameterError(f"run times over {size} need an estimate of several: give it as an array to estimate")
    values = np.broadcast_to(np.asarray(estimate.sizes[size], np.float64), estimate.seconds.shape).ravel()
    if len(np.unique(values)) < len(values):
        raise ParameterError(
            f"several sizes of the estimate have the same {size}: let no other size vary beside it, or draw each alone"
        )
    order = np.argsort(values)
    return values[order], order


def _number(ax: Axes, values: Floats) -> None:
    """Write numbers below *ax*: the *values* where they have room, else round ones, and none between them."""
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
    """Return for each size whether the fit is extrapolated there."""
    shares: dict[str, dict[str, Any]] = {}
    for row in estimate.breakdown.rows:
        shares.setdefault(fit_column(row.property), {})[row.source] = row.count
    return np.broadcast_to(extrapolates(fit, shares), (np.size(estimate.seconds),))


def _hatch(ax: Axes, values: Floats, is_beyond: NDArray[np.bool_]) -> None:
    """Hatch what lies halfway around the sizes that are beyond; at the ends, up to the last size."""
    middles = np.sqrt(values[1:] * values[:-1])
    edges = [values[0], *middles, values[-1]] if len(values) else []
    edges = [values[0] * 0.9, values[0] * 1.1] if len(values) == 1 else edges
    label: str | None = "beyond what was measured"
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
