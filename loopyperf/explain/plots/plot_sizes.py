"""Plot the run time of a kernel against a size."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.fits import Fit
from loopyperf.errors import ParameterError
from loopyperf.explain.plots.figures import Axes, Figure, axes, check_drawn, ink, note, styles, with_legend
from loopyperf.models.result import Estimate
from loopyperf.models.workload import fit_column
from loopyperf.predict.fitted import extrapolates
from loopyperf.units import number_of

Floats = NDArray[np.float64]


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
    the estimate's fit, is given, markers are hollow at sizes where the kernel does more or less of something than all
    kernels of the fit. Sizes and times that are not above 0 are not shown; the legend has their number.

    :raises ParameterError: *estimate* is not for several sizes, or *size* is unknown or has equal values.
    """
    check_drawn(estimate, Estimate, "loopyperf.estimate")
    values, order = _ascending(estimate, size)
    seconds = _at(estimate.seconds, order)
    is_positive = (values > 0) & (seconds > 0)
    values, order, seconds = values[is_positive], order[is_positive], seconds[is_positive]
    known = [(at, time) for at, time in measured if at > 0 and time > 0]
    hidden = int((~is_positive).sum()) + len(measured) - len(known)
    drawn = axes(ax)
    style, *others = styles(1 + len(estimate.alternatives))
    drawn.plot(values, seconds, **style, label=f"{estimate.kernel}, {estimate.model}{estimate.without}")
    if estimate.interval is not None:
        low, high = (_at(end, order) for end in estimate.interval)
        # The edges are visible for a single size, too.
        drawn.fill_between(values, low, high, color=style["color"], alpha=0.3, label="interval")
    for each, other in zip(estimate.alternatives, others, strict=True):
        drawn.plot(values, _at(each.seconds, order), **other, linestyle="--", label=f"if {each.assumption}")
    if fit is not None and (beyond := _is_beyond(estimate, fit)[order]).any():
        points, ground = (values[beyond], seconds[beyond]), drawn.get_facecolor()
        drawn.plot(*points, **style, markerfacecolor=ground, linestyle="none", label="extrapolated")
    if known:
        drawn.plot(*zip(*sorted(known), strict=True), "x", color=ink(drawn), linestyle="none", label="measured")
    if hidden:
        note(drawn, f"not shown: {number_of(hidden, 'point')} with size or time not above 0")
    drawn.set(xscale="log", yscale="log", xlabel=size, ylabel="run time (s)")
    return with_legend(drawn, grows=ax is None)


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


def _at(times: Any, order: NDArray[np.intp]) -> Floats:
    return np.asarray(times, np.float64).ravel()[order]


def _is_beyond(estimate: Estimate, fit: Fit) -> NDArray[np.bool_]:
    """Return for each size whether the fit extrapolates."""
    shares: dict[str, dict[str, Any]] = {}
    for row in estimate.breakdown.rows:
        shares.setdefault(fit_column(row.property), {})[row.source] = row.count
    return np.broadcast_to(extrapolates(fit, shares), (np.size(estimate.seconds),))
