"""The roofline chart: what the memories and the arithmetic of a device allow, and the launches of a kernel below."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import inf, isclose
from typing import Literal

from matplotlib.lines import Line2D

from loopyperf.errors import ParameterError
from loopyperf.models.on_device.roofs import LaunchUnderRoofs, Roofline
from loopyperf.plots.figures import (
    NARROW,
    PRINTS,
    Axes,
    Figure,
    axes,
    check_drawn,
    figure_of,
    ink,
    legend_above,
    say_in_legend,
    width_of,
)
from loopyperf.plots.levels import name_levels, names_in_lines
from loopyperf.plots.styles import DASHES, HALVES, PointStyle, hollow, point_styles
from loopyperf.units import number_of, prefixed

MARGIN = 4.0
"""times: how far the axes go beyond the launches and the ridges"""
BEYOND = 1.5
"""times: how far level lines go beyond what is farthest right"""
ALIKE = 0.02
"""relative difference of places that look the same"""
PRINT, _, LINE = PRINTS[1]
MARKER = 6.0
"""points; a launch around another one is larger"""
Kind = Literal["memory", "peak", "launch"]


def mark_of(kind: Kind, number: int) -> str:
    """Return the id (``Artist.get_gid``) of what is drawn of a memory, of peaks that look the same, or of a launch.

    The *number* is that in the order of :attr:`Roofline.bandwidths`, of the peaks by height as they first appear in
    :attr:`Roofline.peaks`, or of :attr:`Roofline.launches`.
    """
    return f"{kind}-{number}"


def roofs_in_words(roofline: Roofline) -> dict[str, str]:
    """Return what each roof is and how high, by :func:`mark_of` it, as in ``"DRAM, 900 GB/s"``."""
    words = {
        mark_of("memory", number): f"{memory}, {prefixed(bandwidth, 'B/s')}"
        for number, (memory, bandwidth) in enumerate(roofline.bandwidths.items())
    }
    for number, (height, names) in enumerate(_same_peaks(roofline).items()):
        words[mark_of("peak", number)] = f"{_joined(names)}, {height}"
    return words


def _same_peaks(roofline: Roofline) -> dict[str, list[str]]:
    """Return height, as it is written -> the names of the peaks that have it: one line is drawn for them."""
    found: dict[str, list[str]] = {}
    for name, peak in roofline.peaks.items():
        found.setdefault(prefixed(peak, "flop/s"), []).append(name)
    return found


def _joined(names: Sequence[str]) -> str:
    return " and ".join(names)


def plot_roofline(roofline: Roofline, *, measured: Mapping[str, float] | None = None, ax: Axes | None = None) -> Figure:
    """Return the chart of performance (y, flop/s) over intensity (x, flop/B), on logarithmic axes.

    Slopes are the bandwidths of memories, level lines the peaks of multiply-adds, special functions and issues, all of
    the device's description at its clock under load. Of each launch there is a point at its intensity for each memory,
    at the height that the roofline model says is attainable: solid for the one farthest from the core, hollow for
    others; where there is one launch alone, each is named. The memory whose slope a launch's point of it touches is its
    bound; a level binds what does such operations; what is bound by something else, such as the number of requests,
    lies below all roofs, and the legend says so. *measured* are the seconds of launches by name, all executions of one
    together; they are crosses. A launch without floating-point operations has no place.

    :raises ParameterError: *roofline* is none, or *measured* has a time of what is no launch, or that is not above 0.

    See :func:`loopyperf.oracle.roofline.roofline`. Source: Williams et al., Roofline, 2009; with points for several
    memories, Yang et al., Hierarchical Roofline Analysis for GPUs, 2020.
    """
    check_drawn(roofline, Roofline, "loopyperf.roofline")
    _check_measured(roofline, measured or {})
    ax = axes(ax)
    drawn = {number: launch for number, launch in enumerate(roofline.launches) if launch.flops}
    launches = list(drawn.values())
    ax.set(xscale="log", yscale="log", xlabel="intensity (flop/B)", ylabel="performance (flop/s)")
    memories = list(roofline.bandwidths)
    levels = _levels(ax, roofline)
    names, share = names_in_lines(ax, list(levels))
    end = _set_limits(ax, roofline, launches, measured or {}, share)
    _draw_roofs(ax, roofline, end)
    written = name_levels(ax, dict(zip(names, levels.values(), strict=True)), end)
    for number, name in enumerate(names):
        written[name].set_gid(mark_of("peak", number))
    for place, (number, style) in enumerate(zip(drawn, point_styles(HALVES), strict=False)):
        inside = sum(_is_at_the_same_place(drawn[number], other, memories) for other in launches[place + 1 :])
        for mark in _draw_launch(ax, drawn[number], style, memories, MARKER + 4 * min(inside, 4)):
            mark.set_gid(mark_of("launch", number))
    known = [(launch, measured[launch.name]) for launch in launches if measured and launch.name in measured]
    for number, (launch, seconds) in enumerate(known):
        at = [_farthest(launch, memories)[1]]
        label = None if number else "measured"
        ax.plot(at, [launch.flops / seconds], "x", color=ink(ax), linestyle="none", label=label, zorder=4)
    if len(launches) == 1:
        _name_memories(ax, launches[0])
    if any(len(launch.intensities) > 1 for launch in launches):
        ax.plot([], [], "o", color="grey", fillstyle="none", label="by nearer memories")
    if roofline.below_all_roofs:
        say_in_legend(ax, roofline.below_all_roofs)
    if not launches:
        say_in_legend(ax, "no launch does floating-point operations")
    elif len(launches) < len(roofline.launches):
        others = number_of(len(roofline.launches) - len(launches), "launch")
        say_in_legend(ax, f"without {others} of no such operations")
    legend_above(ax)
    return figure_of(ax)


def _check_measured(roofline: Roofline, measured: Mapping[str, float]) -> None:
    names = [launch.name for launch in roofline.launches]
    unknown = next((name for name in measured if name not in names), None)
    if unknown is not None:
        raise ParameterError(f"there is no launch called {unknown!r} to draw the time of, only {', '.join(names)}")
    wrong = next((name for name, seconds in measured.items() if not 0 < seconds < inf), None)
    if wrong is not None:
        raise ParameterError(f"the launch {wrong!r} cannot have taken {measured[wrong]!r} s: give seconds above 0")


def _levels(ax: Axes, roofline: Roofline) -> dict[str, float]:
    """Return the names of the levels: one for peaks that are the same, with the number where there is room."""
    is_narrow, words = width_of(ax) <= NARROW, roofs_in_words(roofline)
    return {
        _joined(names) if is_narrow else words[mark_of("peak", number)]: roofline.peaks[names[0]]
        for number, names in enumerate(_same_peaks(roofline).values())
    }


def _set_limits(
    ax: Axes,
    roofline: Roofline,
    launches: Sequence[LaunchUnderRoofs],
    measured: Mapping[str, float],
    names: float,
) -> float:
    """Show all launches, and the ridge of each memory with the highest peak; return where level lines end.

    To the right, a share of the width is left for *names*.
    """
    highest = max(roofline.peaks.values(), default=1.0)
    ridges = [highest / bandwidth for bandwidth in roofline.bandwidths.values()]
    across = [*ridges, *(each for launch in launches for each in launch.intensities.values())] or [1.0]
    up = [*roofline.peaks.values(), *(launch.performance for launch in launches)] or [1.0]
    up += [launch.flops / measured[launch.name] for launch in launches if launch.name in measured]
    left, end = min(across) / MARGIN, max(across) * BEYOND
    ax.set_xlim(left, left * (end / left) ** (1 / (1 - names)))
    ax.set_ylim(min(up) / MARGIN, highest * MARGIN)
    return end


def _draw_roofs(ax: Axes, roofline: Roofline, end: float) -> None:
    left, top = ax.get_xlim()[0], ax.get_ylim()[1]
    highest, words = max(roofline.peaks.values(), default=top), roofs_in_words(roofline)
    for number, (bandwidth, dash) in enumerate(zip(roofline.bandwidths.values(), cycle(DASHES), strict=False)):
        across, up, gid = [left, highest / bandwidth], [left * bandwidth, highest], mark_of("memory", number)
        ax.plot(across, up, color=ink(ax), linewidth=1, linestyle=dash, label=words[gid], gid=gid)
    steepest = max(roofline.bandwidths.values(), default=highest / left)
    for number, names in enumerate(_same_peaks(roofline).values()):
        for peak in (roofline.peaks[name] for name in names):
            ax.plot([peak / steepest, end], [peak, peak], color=ink(ax), linewidth=0.6, gid=mark_of("peak", number))


def _draw_launch(
    ax: Axes, launch: LaunchUnderRoofs, style: PointStyle, memories: Sequence[str], markersize: float
) -> list[Line2D]:
    """Draw *launch*, and return its marks."""
    farthest, at = _farthest(launch, memories)
    others = [each for memory, each in launch.intensities.items() if memory != farthest]
    height = launch.performance
    label = f"{launch.name}, bound: {launch.bound}"
    return [
        *ax.plot([min([at, *others]), at], [height, height], color=style["color"], linewidth=1, linestyle=":"),
        *ax.plot(others, [height] * len(others), **hollow(style), linestyle="none", zorder=3),
        *ax.plot([at], [height], **style, markersize=markersize, linestyle="none", label=label, zorder=3),
    ]


def _name_memories(ax: Axes, launch: LaunchUnderRoofs) -> None:
    """Write above each point of *launch*, upwards, which memory it is of; those close together have one name."""
    left, right = ax.get_xlim()
    close = (right / left) ** (LINE / (ax.get_position().width * figure_of(ax).get_figwidth()))
    names: dict[float, list[str]] = {}
    for memory, intensity in sorted(launch.intensities.items(), key=lambda item: item[1]):
        place = next((at for at in names if intensity < at * close), intensity)
        names.setdefault(place, []).append(memory)
    for place, of_place in names.items():
        ax.annotate(
            "all memories" if len(of_place) == len(launch.intensities) > 2 else _joined(of_place),
            (place, launch.performance),
            xytext=(0, MARKER),
            textcoords="offset points",
            rotation="vertical",
            ha="center",
            va="bottom",
            fontsize=PRINT,
            # A slope that passes here would make the name unreadable.
            bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.5},
        )


def _is_at_the_same_place(one: LaunchUnderRoofs, other: LaunchUnderRoofs, memories: Sequence[str]) -> bool:
    across = isclose(_farthest(one, memories)[1], _farthest(other, memories)[1], rel_tol=ALIKE)
    return across and isclose(one.performance, other.performance, rel_tol=ALIKE)


def _farthest(launch: LaunchUnderRoofs, memories: Sequence[str]) -> tuple[str, float]:
    """Return the memory farthest from the core that the launch moves anything by way of, and its intensity."""
    found = launch.intensities
    return next(((name, found[name]) for name in reversed(memories) if name in found), ("nothing", 1.0))
