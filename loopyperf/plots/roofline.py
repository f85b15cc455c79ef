"""The roofline chart: what the memories and the arithmetic of a device allow, and the launches of a kernel below."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from loopyperf.models.on_device.roofs import LaunchUnderRoofs, Roofline
from loopyperf.plots.figures import (
    NARROW,
    Axes,
    Figure,
    LineStyle,
    axes,
    figure_of,
    ink,
    legend_above,
    line_styles,
    width_of,
)
from loopyperf.units import prefixed

MARGIN = 4.0
"""times: how far the axes go beyond the launches and the ridges"""
NAMES = 0.5
"""of the chart without them: the width on its right in which levels are named"""
DASHES = ("-", "--", "-.", ":")


def plot_roofline(roofline: Roofline, *, measured: Mapping[str, float] | None = None, ax: Axes | None = None) -> Figure:
    """Return the chart of performance (flop/s) over intensity (flop/B), on logarithmic axes.

    Slopes are the bandwidths of memories, level lines the peaks of multiply-adds, special functions and issues, all of
    the device's description at its clock under load. Of each launch there is a point at its intensity for each memory,
    at the height that the roofline model says is attainable: solid for the one farthest from the core, hollow for
    others. The memory whose slope a launch's point of it touches is its bound; a level binds what does such operations.
    *measured* are the seconds of launches by name, all executions of one together; they are crosses. A launch without
    floating-point operations has no place.

    See :func:`loopyperf.oracle.roofline.roofline`. Source: Williams et al., Roofline, 2009; with points for several
    memories, Yang et al., Hierarchical Roofline Analysis for GPUs, 2020.
    """
    ax = axes(ax)
    launches = [launch for launch in roofline.launches if launch.flops]
    ax.set(xscale="log", yscale="log", xlabel="intensity (flop/B)", ylabel="performance (flop/s)")
    _set_limits(ax, roofline, launches, measured or {})
    _draw_roofs(ax, roofline)
    styles = line_styles()
    for launch, style in zip(launches, styles, strict=False):
        _draw_launch(ax, launch, style, list(roofline.bandwidths))
    known = [(launch, measured[launch.name]) for launch in launches if measured and launch.name in measured]
    for number, (launch, seconds) in enumerate(known):
        at = [_farthest(launch, list(roofline.bandwidths))[1]]
        label = None if number else "measured"
        ax.plot(at, [launch.flops / seconds], "x", color=ink(ax), linestyle="none", label=label, zorder=4)
    if any(len(launch.intensities) > 1 for launch in launches):
        ax.plot([], [], "o", color="grey", fillstyle="none", label="by nearer memories")
    legend_above(ax)
    return figure_of(ax)


def _set_limits(
    ax: Axes, roofline: Roofline, launches: Sequence[LaunchUnderRoofs], measured: Mapping[str, float]
) -> None:
    """Show all launches, and the ridge of each memory with the highest peak of arithmetic."""
    highest = max(roofline.peaks.values(), default=1.0)
    ridges = [highest / bandwidth for bandwidth in roofline.bandwidths.values()]
    across = [*ridges, *(each for launch in launches for each in launch.intensities.values())] or [1.0]
    up = [*roofline.peaks.values(), *(launch.performance for launch in launches)] or [1.0]
    up += [launch.flops / measured[launch.name] for launch in launches if launch.name in measured]
    left = min(across) / MARGIN
    ax.set_xlim(left, max(across) * (max(across) / left) ** NAMES)
    ax.set_ylim(min(up) / MARGIN, highest * MARGIN)


def _draw_roofs(ax: Axes, roofline: Roofline) -> None:
    (left, right), (_, top) = ax.get_xlim(), ax.get_ylim()
    highest = max(roofline.peaks.values(), default=top)
    for (name, bandwidth), dash in zip(roofline.bandwidths.items(), cycle(DASHES), strict=False):
        across, up = [left, highest / bandwidth], [left * bandwidth, highest]
        ax.plot(across, up, color=ink(ax), linewidth=1, linestyle=dash, label=f"{name}, {prefixed(bandwidth, 'B/s')}")
    steepest = max(roofline.bandwidths.values(), default=highest / left)
    for name, peak in roofline.peaks.items():
        ax.plot([peak / steepest, right], [peak, peak], color=ink(ax), linewidth=0.6)
        text = f"{name}, {prefixed(peak, 'flop/s')}" if width_of(ax) > NARROW else name
        ax.annotate(
            text, (right, peak), xytext=(-3, 1), textcoords="offset points", ha="right", va="bottom", fontsize="x-small"
        )


def _draw_launch(ax: Axes, launch: LaunchUnderRoofs, style: LineStyle, memories: Sequence[str]) -> None:
    farthest, at = _farthest(launch, memories)
    others = [each for memory, each in launch.intensities.items() if memory != farthest]
    height = launch.performance
    ax.plot([min([at, *others]), at], [height, height], color=style["color"], linewidth=1, linestyle=":")
    ax.plot(others, [height] * len(others), **style, linestyle="none", fillstyle="none", zorder=3)
    label = f"{launch.name}, bound: {launch.bound}"
    ax.plot([at], [height], **style, linestyle="none", label=label, zorder=3)


def _farthest(launch: LaunchUnderRoofs, memories: Sequence[str]) -> tuple[str, float]:
    """Return the memory farthest from the core that the launch moves anything by way of, and its intensity."""
    found = launch.intensities
    return next(((name, found[name]) for name in reversed(memories) if name in found), ("nothing", 1.0))
