"""Plot rooflines, times over sizes, and predictions beside measurements with matplotlib (the extra ``plots``).

Each function draws on the given axes, or on a new figure, and returns the figure. Colors are those of the current
matplotlib style.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from textwrap import fill
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.errors import CalibrationError, LoopyperfError, ParameterError
from loopyperf.explain.roofline_chart import MULTIPLY_ADDS, LaunchUnderRoofs, Roofline
from loopyperf.models.result import Estimate
from loopyperf.models.workload import fit_column
from loopyperf.predict.fitted import extrapolates
from loopyperf.units import UNBROKEN, in_percent, number_of, prefixed, unbroken

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
except ImportError as error:
    raise LoopyperfError(
        f"plots need matplotlib, which cannot be imported ({error}): pip install 'loopyperf[plots]'"
    ) from error

__all__ = ["plot_predictions", "plot_roofline", "plot_sizes"]

Floats = NDArray[np.float64]
SIZE = 6.4, 4.0
"""width of a new figure, and its height without the legend, in inches"""
WITH_LABELS = 1.25
"""ratio of the width of axes with labels to that without, before the layout is known"""
NARROW = 4.0
"""width of axes in inches, e.g. in one column of a page, up to which names are printed smaller"""
LETTERS = 6
"""characters in a line of a name per inch of the axes' width, so that two columns of a legend fit"""
MARKERS = "osD^vP<X>"
"""markers; their number and that of matplotlib's colors have no common divisor, so that 90 series differ"""
MARKER_SIZES = 7.0, 5.0
"""sizes of the first and of the last series' markers in points: markers at one point surround each other"""
ERROR_BAND = 0.2
"""relative error at the dashed lines beside the diagonal"""


# {{{ axes, styles and the legend


class Style(TypedDict):
    """The color and marker of a series."""

    color: str
    marker: str
    markersize: float


def styles(series: int) -> list[Style]:
    """Return the styles of a number of *series*, in the order in which they are drawn."""
    return [
        Style(color=f"C{number}", marker=MARKERS[number % len(MARKERS)], markersize=float(size))
        for number, size in enumerate(np.linspace(*MARKER_SIZES, series))
    ]


def _axes(ax: Axes | None) -> Axes:
    """Return *ax*, or the axes of a new figure that is not registered with pyplot."""
    return Figure(figsize=SIZE, layout="constrained").subplots() if ax is None else ax


def _figure_of(ax: Axes) -> Figure:
    """Return the figure that contains *ax*, directly or in a subfigure."""
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def _ink(ax: Axes) -> str:
    """Return the color of the labels of *ax*: black on a light background, white on a dark one."""
    return str(ax.xaxis.label.get_color())


def _width_of(ax: Axes) -> float:
    """Return the approximate width of *ax* with its labels, in inches."""
    return WITH_LABELS * ax.get_window_extent().width / _figure_of(ax).dpi


def _note(ax: Axes, words: str) -> None:
    """Add *words* to the legend of *ax* as an entry without a marker."""
    ax.plot([], [], linestyle="none", label=words)


def with_legend(ax: Axes, *, grows: bool) -> Figure:
    """Return the figure of *ax* with a legend above the axes, in as many columns as fit.

    If it *grows*, the height of the legend is added to that of the figure.
    """
    figure = _figure_of(ax)
    handles, labels = ax.get_legend_handles_labels()
    letters = max(LETTERS, int(LETTERS * _width_of(ax)))

    def drawn(columns: int) -> Legend:
        legend = ax.legend(
            handles,
            [fill(unbroken(name), letters).replace(UNBROKEN, " ") for name in labels],  # numbers stay with their units
            # Anchored at the right end, because row names on the left leave room above them.
            loc="lower right",
            bbox_to_anchor=(1, 1),
            ncols=columns,
            columnspacing=1,
            handlelength=2.4,
            frameon=False,
            fontsize="small" if _width_of(ax) > NARROW else "x-small",
        )
        for text in legend.get_texts():
            # In names of kernels and launches, $ must not start math.
            text.set_parse_math(False)
        return legend

    if handles:
        legend = drawn(max(1, int(_width_of(ax) * figure.dpi / drawn(1).get_window_extent().width)))
        if grows:
            figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)
    return figure


# }}}


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
    drawn = _axes(ax)
    kernels = list(dict.fromkeys(row.kernel for row in shown))
    for kernel, style in zip(kernels, styles(len(kernels)), strict=True):
        rows = [row for row in shown if row.kernel == kernel]
        measured, predicted = [row.measured for row in rows], [row.predicted for row in rows]
        drawn.plot(measured, predicted, **style, linestyle="none", label=kernel)
        for row in rows:
            if row.interval is not None:
                drawn.vlines(row.measured, *row.interval, color=style["color"], linewidth=1)
    ends = [bound for row in shown for bound in (row.measured, row.predicted)]
    span = np.array([min(ends), max(ends)])
    drawn.plot(span, span, color="grey", linewidth=1, zorder=0)
    for factor, label in ((1 - ERROR_BAND, None), (1 + ERROR_BAND, f"{in_percent(ERROR_BAND)} off")):
        drawn.plot(span, span * factor, color="grey", linewidth=1, linestyle="--", zorder=0, label=label)
    drawn.set(xscale="log", yscale="log", xlabel="measured (s)", ylabel="predicted (s)")
    if len(shown) < len(predictions):
        _note(drawn, f"not shown: {len(predictions) - len(shown)} predicted below 0")
    return with_legend(drawn, grows=ax is None)


# {{{ times over a size


def plot_sizes(estimate: Estimate, size: str, *, fit: Fit | None = None, ax: Axes | None = None) -> Figure:
    """Plot run times (y, s) against the values of *size* (x) on logarithmic axes.

    *estimate* must be for an array of sizes. Its interval is a band, and its alternative times
    (:attr:`Estimate.alternatives`) are dashed lines. If *fit*, the estimate's fit, is given, markers are hollow at
    sizes where the kernel does more or less of something than all kernels of the fit. Sizes and times that are not
    above 0 are not shown; the legend has their number.

    :raises ParameterError: *estimate* is not for several sizes, or *size* is unknown or has equal values.
    """
    values, order = _ascending(estimate, size)
    seconds = _at(estimate.seconds, order)
    is_positive = (values > 0) & (seconds > 0)
    values, order, seconds = values[is_positive], order[is_positive], seconds[is_positive]
    drawn = _axes(ax)
    style, *others = styles(1 + len(estimate.alternatives))
    drawn.plot(values, seconds, **style, label=f"{estimate.kernel}, {estimate.model}{estimate.without}")
    if estimate.interval is not None:
        low, high = (_at(end, order) for end in estimate.interval)
        # The edges are visible for a single size, too.
        drawn.fill_between(values, low, high, color=style["color"], alpha=0.3, label="interval")
    for alternative, other in zip(estimate.alternatives, others, strict=True):
        drawn.plot(
            values, _at(alternative.seconds, order), **other, linestyle="--", label=f"if {alternative.assumption}"
        )
    if fit is not None and (beyond := _is_beyond(estimate, fit)[order]).any():
        points, ground = (values[beyond], seconds[beyond]), drawn.get_facecolor()
        drawn.plot(*points, **style, markerfacecolor=ground, linestyle="none", label="extrapolated")
    if hidden := int((~is_positive).sum()):
        _note(drawn, f"not shown: {number_of(hidden, 'point')} with size or time not above 0")
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


# }}}


# {{{ rooflines

MARGIN = 4.0
"""factor by which the axes extend beyond the launches and the ridge points"""
DASHES = ("-", "--", "-.", ":", (0, (8, 2, 1, 2, 1, 2)))
"""line styles of memories, and in the same order of peaks"""
WIDTHS = 1.2, 0.7
"""line widths of memories and of peaks, in points"""
CLASSICAL = MULTIPLY_ADDS.format("f32")
"""the peak that is always drawn for each of several devices"""


def plot_roofline(roofline: Roofline | Mapping[str, Roofline], *, ax: Axes | None = None) -> Figure:
    """Plot performance (y, flop/s) against arithmetic intensity (x, flop/B) on logarithmic axes.

    Slopes are bandwidths of memories, and horizontal lines are peaks of multiply-adds, special functions and issue, all
    from the device parameters at the clock under load. Each launch has one marker per memory, at its intensity for that
    memory and at the performance predicted by :attr:`Roofline.model`. The marker of the memory that bounds the launch
    is filled, or else that of the memory farthest from the core; the others are hollow. A line leads from it to the
    attainable performance: its roof, or less if its bound, such as the number of requests, has no roof. A launch
    without a prediction is hollow and lies at its attainable performance. Launches without floating-point operations
    are not shown.

    *roofline* is one roofline, or a mapping from names for the legend. Each of several rooflines has a color, and if
    they have several launches, each launch has a marker. Several devices have roofs in the color of their first
    roofline: the peak of f32 multiply-adds and the peaks that bound a launch. The legend of narrow axes has no values.

    :raises ParameterError: there is no roofline.

    See :func:`loopyperf.explain.roofline_chart.roofline`. Source: Williams et al., Roofline, 2009; with points for
    several memories, Yang et al., Hierarchical Roofline Analysis for GPUs, 2020.
    """
    rooflines = {"": roofline} if isinstance(roofline, Roofline) else dict(roofline)
    if not rooflines:
        raise ParameterError("no roofline to plot; pass at least one from loopyperf.roofline")
    drawn = _axes(ax)
    drawn.set(xscale="log", yscale="log", xlabel="intensity (flop/B)", ylabel="performance (flop/s)")
    roofs = dict(_roofs(list(rooflines.values())))
    launches = [
        (number, name, launch, _intensity(launch, each))
        for number, (name, each) in enumerate(rooflines.items())
        for launch in each.launches
        if launch.flops
    ]
    _set_limits(drawn, list(roofs.values()), [(launch, at) for _, _, launch, at in launches])
    _draw_roofs(drawn, roofs)
    _draw_launches(drawn, launches)
    if hidden := sum(len(each.launches) for each in rooflines.values()) - len(launches):
        _note(drawn, f"not shown: {number_of(hidden, 'launch')} without floating-point operations")
    return with_legend(drawn, grows=ax is None)


Roofs = tuple[Mapping[str, float], Mapping[str, float]]
"""bandwidths by memory, in B/s, and peaks, in flop/s; equal peaks share a name"""
PlottedLaunch = tuple[int, str, LaunchUnderRoofs, float]
"""number of its roofline, name of that (empty if there is only one), launch, and intensity of its filled marker"""


def _intensity(launch: LaunchUnderRoofs, roofline: Roofline) -> float:
    """Return the intensity (flop/B) for the memory that bounds a launch, or else for that farthest from the core."""
    memories = (launch.memory, *reversed(list(roofline.bandwidths)))
    return next((launch.intensities[name] for name in memories if name in launch.intensities), 1.0)


def _roofs(every: Sequence[Roofline]) -> Iterator[tuple[str, Roofs]]:
    """Yield the color and the roofs of each device; the color is empty for a single device."""
    first: list[tuple[int, Roofline]] = []
    for number, each in enumerate(every):
        if all((each.device, each.bandwidths, each.peaks) != (r.device, r.bandwidths, r.peaks) for _, r in first):
            first.append((number, each))
    bounds = {CLASSICAL, *(launch.roof for each in every for launch in each.launches)}
    for number, each in first:
        shown = {name: peak for name, peak in each.peaks.items() if name in bounds or len(first) == 1}
        alike: dict[str, list[str]] = {}
        for name, peak in (shown or each.peaks).items():
            alike.setdefault(prefixed(peak, "flop/s"), []).append(name)
        merged = {" and ".join(names): each.peaks[names[0]] for names in alike.values()}
        yield f"C{number}" if len(first) > 1 else "", (each.bandwidths, merged)


def _set_limits(ax: Axes, roofs: Sequence[Roofs], launches: Sequence[tuple[LaunchUnderRoofs, float]]) -> None:
    """Set limits that include all launches, ridge points and peaks."""
    heights = [peak for _, peaks in roofs for peak in peaks.values()]
    heights += [height for launch, _ in launches for height in (launch.performance, launch.attainable)]
    highest = max(heights, default=1.0)
    across = [
        max(peaks.values(), default=highest) / bandwidth for memories, peaks in roofs for bandwidth in memories.values()
    ]
    across += [each for launch, at in launches for each in (at, *launch.intensities.values())]
    ax.set_xlim(min(across, default=1.0) / MARGIN, max(across, default=1.0) * MARGIN)
    ax.set_ylim(min(heights, default=1.0) / MARGIN, highest * MARGIN)


def _draw_roofs(ax: Axes, roofs: Mapping[str, Roofs]) -> None:
    """Draw the roofs within the limits of *ax*; the legend has the values of a single device."""
    left, right = ax.get_xlim()
    kinds = [dict.fromkeys(name for roof in roofs.values() for name in roof[kind]) for kind in (0, 1)]
    dashes = [dict(zip(names, cycle(DASHES))) for names in kinds]
    for color, (bandwidths, peaks) in roofs.items():
        highest = max(peaks.values(), default=ax.get_ylim()[1])
        start = highest / max(bandwidths.values(), default=highest / left)
        lines = [
            (0, name, prefixed(bandwidth, "B/s"), [left, highest / bandwidth], [left * bandwidth, highest])
            for name, bandwidth in bandwidths.items()
        ]
        lines += [
            (1, name, prefixed(peak, "flop/s"), [start * peak / highest, right], [peak, peak])
            for name, peak in peaks.items()
        ]
        for kind, name, value, across, up in lines:
            label = name if _width_of(ax) <= NARROW else f"{name}, {value}"
            (line,) = ax.plot(across, up, color=color or _ink(ax), linestyle=dashes[kind][name], zorder=1)
            line.set(linewidth=WIDTHS[kind], label=None if color else label)
    if len(roofs) > 1:
        for of_kind, width in zip(dashes, WIDTHS, strict=True):
            for name, dash in of_kind.items():
                ax.plot([], [], color=_ink(ax), linestyle=dash, linewidth=width, label=name)


def _draw_launches(ax: Axes, launches: Sequence[PlottedLaunch]) -> None:
    """Draw the launches with legend entries; several launches of several rooflines share entries."""
    rooflines = {number: name for number, name, _, _ in launches}
    markers = dict(zip(dict.fromkeys(launch.name for _, _, launch, _ in launches), cycle(MARKERS)))
    shares_entries = "" not in rooflines.values() and len(rooflines) < len(launches)
    if shares_entries:
        for number, name in rooflines.items():
            ax.plot([], [], color=f"C{number}", linewidth=3, label=name)
        for name, marker in markers.items():
            ax.plot([], [], marker, color="grey", label=name)
    for (number, name, launch, at), style in zip(launches, styles(len(launches)), strict=True):
        style["color"] = f"C{number}" if name else style["color"]
        style["marker"] = markers[launch.name] if shares_entries else style["marker"]
        bound = launch.bound if launch.share is None else f"{in_percent(launch.share)} of {launch.bound}"
        reached = "" if _width_of(ax) <= NARROW else f": {'bound by ' if launch.share is None else ''}{bound}"
        label = None if shares_entries else f"{name or launch.name}{reached}"
        _draw_launch(ax, launch, at, style, label, names_memories=len(launches) == 1)
    if len(launches) > 1 and any(len(launch.intensities) > 1 for _, _, launch, _ in launches):
        ax.plot([], [], "o", color="grey", fillstyle="none", label="at other memories")
    if any(launch.predicted for _, _, launch, _ in launches):
        ax.plot([], [], color="grey", linewidth=1, label="to attainable")


def _draw_launch(
    ax: Axes, launch: LaunchUnderRoofs, at: float, style: Style, label: str | None, *, names_memories: bool
) -> None:
    """Draw the marks of a launch; if it *names_memories*, those of other memories are in the legend."""
    others = {memory: intensity for memory, intensity in launch.intensities.items() if intensity != at}
    height, color = launch.performance, style["color"]
    ax.plot(sorted([at, *others.values()]), [height] * (1 + len(others)), ":", color=color, linewidth=1)
    ax.plot([at, at], [height, launch.attainable], color=color, linewidth=1, marker="_", markevery=[1])
    for marker, (memory, intensity) in zip(cycle(MARKERS[1:]), others.items()):
        hollow: Style = {**style, "marker": marker} if names_memories else style
        name = f"at {memory}" if names_memories else None
        ax.plot([intensity], [height], **hollow, fillstyle="none", linestyle="none", label=name, zorder=3)
    filled = "none" if launch.predicted is None else "full"
    ax.plot([at], [height], **style, fillstyle=filled, linestyle="none", label=label, zorder=3)


# }}}
