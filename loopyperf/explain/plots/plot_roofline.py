"""Plot rooflines: the bandwidths and peaks of devices, and the launches of kernels below them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import inf, isclose, log
from typing import Literal, cast

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backend_bases import RendererBase
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Annotation
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from loopyperf.display import called
from loopyperf.errors import ParameterError
from loopyperf.explain.plots.figures import (
    DASHES,
    HALVES,
    NARROW,
    POINTS,
    PRINTS,
    SHORTEST,
    Axes,
    Dash,
    Figure,
    PointStyle,
    axes,
    check_drawn,
    figure_of,
    hollow,
    in_lines,
    ink,
    legend_above,
    legend_entry,
    line_weights,
    point_styles,
    width_of,
)
from loopyperf.explain.roofline_chart import MULTIPLY_ADDS, LaunchUnderRoofs, Roofline
from loopyperf.units import in_percent, number_of, prefixed

SHARE = 0.4
"""maximum share of the axes' width for names; longer names are wrapped"""
GAP = 8.0
"""distance from the end of a line to its name, in points"""
EDGE = 2.0
"""distance between names and the frame, in pixels"""


def names_in_lines(ax: Axes, names: Sequence[str]) -> tuple[list[str], float]:
    """Return *names* wrapped for *ax*, and the share of its width that they need."""
    width = ax.get_position().width * figure_of(ax).get_figwidth()
    lines = [in_lines(name, max(SHORTEST, int(width * SHARE / LETTER))) for name in names]
    longest = max((_width(line) for each in lines for line in each), default=0.0)
    share = (longest + 2 * GAP) / POINTS / width if longest else 0.0
    return ["\n".join(each) for each in lines], min(0.6, share)


def _width(line: str) -> float:
    """Return the width of *line* in the font of names, in points."""
    return float(text_to_path.get_text_width_height_descent(line, FontProperties(size=PRINT), ismath=False)[0])


def name_levels(ax: Axes, levels: Mapping[str, float], end: float) -> dict[str, Annotation]:
    """Label horizontal lines at heights *levels*, which end at x = *end*, on the right; return the labels by name.

    Heights and *end* are in data units. Labels that would overlap are moved up or down as little as necessary, in the
    order of their heights, with a thin line to each.
    """
    ordered = sorted(levels.items(), key=lambda item: item[1])
    names = {
        name: ax.annotate(
            name,
            (end, height),
            xytext=(GAP, 0),
            textcoords="offset points",
            va="center",
            fontsize=PRINT,
            arrowprops={"arrowstyle": "-", "color": ink(ax), "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0,
                        "relpos": (0, 0.5)},
        )
        for name, height in ordered
    }  # fmt: skip
    for each in names.values():
        each.set_in_layout(False)
    ax.add_artist(_Spread(list(names.values())))
    return names


def spread(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> NDArray[np.float64]:
    """Return the centers of intervals of the given *sizes* between *low* and *high*, in order and without overlap.

    *wanted* are the preferred centers in ascending order; the sum of squared displacements is minimal. If the intervals
    do not fit, the last ones extend beyond *high*.
    """
    if not len(wanted):
        return np.array([])
    half = np.asarray(sizes, np.float64) / 2
    below = np.concatenate([[0.0], np.cumsum(half[1:] + half[:-1])])
    first = cast("NDArray[np.float64]", isotonic_regression(np.asarray(wanted, np.float64) - below).x)
    return np.clip(first, low + half[0], max(low + half[0], high - half[-1] - below[-1])) + below


class _Spread(Artist):
    """Separates names when they are drawn, because the heights of axes and text are unknown before."""

    def __init__(self, names: Sequence[Annotation]) -> None:
        super().__init__()
        self.names = names
        self.set_zorder(0)
        self.set_in_layout(False)

    def draw(self, renderer: RendererBase) -> None:
        ax = self.axes
        if not isinstance(ax, Axes) or not self.names:
            return
        inside = ax.get_window_extent(renderer)
        at = [float(ax.transData.transform(each.xy)[1]) for each in self.names]
        sizes = [each.get_window_extent(renderer).height for each in self.names]
        places = spread(at, sizes, inside.y0 + EDGE, inside.y1 - EDGE)
        scale = POINTS / figure_of(ax).dpi
        for each, own, place in zip(self.names, at, places, strict=True):
            each.set_position((GAP, (place - own) * scale))


MARGIN = 4.0
"""factor by which the axes extend beyond the launches and the ridge points"""
BEYOND = 1.5
"""factor by which peak lines extend beyond the rightmost point"""
CLASSICAL = MULTIPLY_ADDS.format("f32")
"""the peak that is always drawn for each of several devices"""
UNBROKEN_HYPHEN = "\N{NON-BREAKING HYPHEN}"
"""hyphen for device names, so that they are not wrapped"""
Kind = Literal["memory", "peak", "launch"]


def mark_of(kind: Kind, number: int) -> str:
    """Return the id (``Artist.get_gid``) of the artists of a memory, of peaks with the same height, or of a launch.

    The *number* is the index in :attr:`Roofline.bandwidths`, among the distinct heights of :attr:`Roofline.peaks`, or
    in :attr:`Roofline.launches`; numbers continue over several devices or rooflines.
    """
    return f"{kind}-{number}"


@dataclass(frozen=True, slots=True)
class DeviceRoofs:
    """The drawn roofs of one device."""

    device: str
    """display name of the device"""
    bandwidths: Mapping[str, float]
    """bandwidths by memory, in B/s"""
    peaks: Mapping[str, float]
    """drawn peaks by name, in flop/s"""
    is_alone: bool
    """whether it is the only device in the chart"""
    memories_before: int
    """number of memories of preceding devices"""
    levels_before: int
    """number of distinct peaks of preceding devices"""

    @property
    def highest(self) -> float | None:
        """Return the highest peak in flop/s; None if there are no peaks."""
        return max(self.peaks.values(), default=None)

    @property
    def levels(self) -> dict[str, list[str]]:
        """Return the names of the peaks by displayed height; peaks of equal height share one label."""
        found: dict[str, list[str]] = {}
        for name, peak in self.peaks.items():
            found.setdefault(prefixed(peak, "flop/s"), []).append(name)
        return found

    def memory_mark(self, number: int) -> str:
        """Return the id of memory *number* of this device."""
        return mark_of("memory", self.memories_before + number)

    def level_mark(self, number: int) -> str:
        """Return the id of peak *number* of this device."""
        return mark_of("peak", self.levels_before + number)

    def words(self) -> dict[str, str]:
        """Return the name and height of each roof, by id."""
        where = "" if self.is_alone else f", {self.device}"
        memories = {
            self.memory_mark(number): f"{memory}, {prefixed(bandwidth, 'B/s')}{where}"
            for number, (memory, bandwidth) in enumerate(self.bandwidths.items())
        }
        return memories | {
            self.level_mark(number): f"{' and '.join(names)}, {height}{where}"
            for number, (height, names) in enumerate(self.levels.items())
        }

    def level_names(self, *, is_narrow: bool) -> dict[str, str]:
        """Return the label of each peak, by id.

        In a narrow chart, labels have no numbers, and with several devices there are no labels.
        """
        names = {self.level_mark(number): " and ".join(each) for number, each in enumerate(self.levels.values())}
        if not self.is_alone:
            device = self.device.replace("-", UNBROKEN_HYPHEN)
            return {} if is_narrow else {mark: f"{name}, {device}" for mark, name in names.items()}
        words = self.words()
        return names if is_narrow else {mark: words[mark] for mark in names}


def roofs_of(rooflines: Iterable[Roofline]) -> list[DeviceRoofs]:
    """Return the roofs to draw, once for each device.

    For several devices, only the peak of f32 multiply-adds and peaks that bound a launch are drawn.
    """
    every = list(rooflines)
    distinct: list[Roofline] = []
    for each in every:
        if not any(_have_the_same_roofs(each, known) for known in distinct):
            distinct.append(each)
    binding = {launch.roof for each in every for launch in each.launches}
    found: list[DeviceRoofs] = []
    for each in distinct:
        others = [known.device for known in found if known.device.partition(" (")[0] == each.device]
        is_alone = len(distinct) == 1
        shown = {name: peak for name, peak in each.peaks.items() if name == CLASSICAL or name in binding}
        roofs = DeviceRoofs(
            device=f"{each.device} ({len(others) + 1})" if others else each.device,
            bandwidths=each.bandwidths,
            peaks=each.peaks if is_alone or not shown else shown,
            is_alone=is_alone,
            memories_before=sum(len(known.bandwidths) for known in found),
            levels_before=sum(len(known.levels) for known in found),
        )
        found.append(roofs)
    return found


def _have_the_same_roofs(one: Roofline, other: Roofline) -> bool:
    return (one.device, one.bandwidths, one.peaks) == (other.device, other.bandwidths, other.peaks)


def roofs_in_words(*rooflines: Roofline) -> dict[str, str]:
    """Return the name and height of each roof, e.g. ``"DRAM, 900 GB/s"``, by id (see :func:`mark_of`)."""
    return {mark: words for roofs in roofs_of(rooflines) for mark, words in roofs.words().items()}


def draw_roofs(
    ax: Axes, every: Sequence[DeviceRoofs], across: Sequence[float], up: Sequence[float], below: float
) -> None:
    """Draw the roofs of *every* device, and set limits that include launches at *across* (flop/B) and *up* (flop/s).

    *below* is the share of the height to reserve for names below the lowest launch.
    """
    is_narrow = width_of(ax) <= NARROW
    written = {mark: name for roofs in every for mark, name in roofs.level_names(is_narrow=is_narrow).items()}
    heights = [roofs.peaks[names[0]] for roofs in every for names in roofs.levels.values()][: len(written)]
    names, share = names_in_lines(ax, list(written.values()))
    end = _set_limits(ax, every, across, up, share, below)
    dashes = _dashes(every)
    for number, (roofs, (color, width)) in enumerate(zip(every, line_weights(ink(ax)), strict=False)):
        _draw_device(ax, roofs, dashes, (color, width), end, 1 - 0.01 * number)
    if len(every) > 1:
        for memory, dash in dashes.items():
            ax.plot([], [], color=ink(ax), linewidth=1, linestyle=dash, label=f"memory: {memory}")
    labels = name_levels(ax, dict(zip(names, heights, strict=True)), end)
    for mark, name in zip(written, names, strict=True):
        labels[name].set_gid(mark)


def _dashes(every: Sequence[DeviceRoofs]) -> dict[str, Dash]:
    """Return the dash style of each memory, the same for all devices."""
    memories = dict.fromkeys(memory for roofs in every for memory in roofs.bandwidths)
    return dict(zip(memories, cycle(DASHES)))


def _set_limits(
    ax: Axes, every: Sequence[DeviceRoofs], across: Sequence[float], up: Sequence[float], names: float, below: float
) -> float:
    """Set limits that include all launches and ridge points; return the x-coordinate where peak lines end.

    *names* is the share of the width to reserve for names on the right.
    """
    highest = max((roofs.highest or 0.0 for roofs in every), default=0.0) or 1.0
    ridges = [(roofs.highest or highest) / each for roofs in every for each in roofs.bandwidths.values()]
    everywhere = [*ridges, *across] or [1.0]
    left, end = min(everywhere) / MARGIN, max(everywhere) * BEYOND
    low, high = min([*up, *(peak for roofs in every for peak in roofs.peaks.values())], default=1.0), highest * MARGIN
    room = min(low / MARGIN, low * (low / high) ** (below / (1 - below)))
    ax.set_xlim(left, left * (end / left) ** (1 / (1 - names)))
    ax.set_ylim(room, high)
    return end


def _draw_device(
    ax: Axes, roofs: DeviceRoofs, dashes: Mapping[str, Dash], weight: tuple[str, float], end: float, zorder: float
) -> None:
    (left, _), (_, top), (color, width) = ax.get_xlim(), ax.get_ylim(), weight
    highest, words = roofs.highest or top, roofs.words()
    if not roofs.is_alone:
        ax.plot([], [], color=color, linewidth=width, label=f"roofs of {roofs.device}")
    for number, (memory, bandwidth) in enumerate(roofs.bandwidths.items()):
        gid = roofs.memory_mark(number)
        label = words[gid] if roofs.is_alone else None
        ends = [left, highest / bandwidth], [left * bandwidth, highest]
        (line,) = ax.plot(*ends, color=color, linewidth=width, linestyle=dashes[memory], label=label, zorder=zorder)
        line.set_gid(gid)
    steepest = max(roofs.bandwidths.values(), default=highest / left)
    for number, names in enumerate(roofs.levels.values()):
        for peak in (roofs.peaks[name] for name in names):
            (line,) = ax.plot([peak / steepest, end], [peak, peak], color=color, linewidth=0.6 * width, zorder=zorder)
            line.set_gid(roofs.level_mark(number))


ALIKE = 0.15
"""relative difference up to which markers overlap"""
PRINT, LETTER, LINE = PRINTS[1]
MARKER = 6.0
"""marker size in points; a marker that surrounds another one is larger"""
VISIBLE = 9.0
"""minimum distance from a marker for an arrow, in points"""
APART = 3.0
"""minimum distance of visibly different heights, in points"""
OF_AXES = 0.7
"""estimated share of the axes' height that the legend leaves, before the layout is known"""
MOST_BELOW = 0.45
"""maximum share of the axes' height for names of memories"""
Rooflines = Roofline | Sequence[Roofline] | Mapping[str, Roofline]
Measured = Mapping[str, float] | Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A launch in a roofline chart."""

    roofline: Roofline
    """roofline of the launch"""
    launch: LaunchUnderRoofs
    """the launch"""
    name: str
    """display name"""
    number: int
    """index among all launches of the chart, for :func:`mark_of`"""
    measured: float | None
    """measured seconds of all its executions, if known"""

    @property
    def intensity(self) -> float:
        """Return the intensity (flop/B) for the memory that bounds it, or else for that farthest from the core."""
        found = self.launch.intensities
        if self.launch.memory in found:
            return found[self.launch.memory]
        return next((found[name] for name in reversed(list(self.roofline.bandwidths)) if name in found), 1.0)

    @property
    def roof_height(self) -> float | None:
        """Return the height in flop/s of the roof that bounds it; None if none does."""
        slopes, roof = self.roofline.bandwidths, self.launch.roof
        return slopes[roof] * self.intensity if roof in slopes else self.roofline.peaks.get(roof)

    @property
    def heights(self) -> list[float]:
        """Return the heights of all its markers, in flop/s."""
        measured = [] if self.measured is None else [self.launch.flops / self.measured]
        return [self.launch.performance, self.launch.attainable, *measured]

    @property
    def label(self) -> str:
        """Return its legend label."""
        share = "" if self.launch.share is None else f", {in_percent(self.launch.share)} of attainable"
        return f"{self.name}, bound: {self.launch.bound}{'' if self.launch.roof else ' (no roof)'}{share}"

    def is_at_the_place_of(self, other: "RooflinePoint") -> bool:
        """Return whether its marker overlaps that of *other*."""
        mine, its = (self.intensity, self.launch.performance), (other.intensity, other.launch.performance)
        return all(isclose(one, two, rel_tol=ALIKE) for one, two in zip(mine, its, strict=True))


def plot_roofline(roofline: Rooflines, *, measured: Measured | None = None, ax: Axes | None = None) -> Figure:
    """Plot performance (y, flop/s) against arithmetic intensity (x, flop/B) on logarithmic axes.

    Slopes are bandwidths of memories, and horizontal lines are peaks of multiply-adds, special functions and issue, all
    from the device parameters at the clock under load. Each launch has one marker per memory, at its intensity for that
    memory and at the performance predicted by :attr:`Roofline.model`. The marker of the memory that bounds the launch
    is filled, or else that of the memory farthest from the core; the others are hollow. An arrow leads from it to the
    attainable performance: its roof, or a short bar if its bound, such as the number of requests, allows less than
    any roof. A launch without a prediction is hollow and lies at its attainable performance. For a single launch, the
    memories are labeled. Launches without floating-point operations are not shown.

    *roofline* is one roofline, a sequence, or a mapping from names for the legend. Variants on one device share its
    roofs. Several devices have lines of different widths and shades, each with the peak of f32 multiply-adds and the
    peaks that bound a launch.

    *measured* maps launch names to the seconds of all their executions; for several rooflines, it maps their names to
    such mappings. Measured launches are crosses.

    :raises ParameterError: *roofline* is not a roofline, or *measured* has an unknown launch or a time <= 0.

    See :func:`loopyperf.explain.roofline_chart.roofline`. Source: Williams et al., Roofline, 2009; with points for
    several memories, Yang et al., Hierarchical Roofline Analysis for GPUs, 2020.
    """
    points = drawn_launches(roofline, measured)
    drawn = [each for each in points if each.launch.flops]
    ax = axes(ax)
    ax.set(xscale="log", yscale="log", xlabel="intensity (flop/B)", ylabel="performance (flop/s)")
    across = [each for point in drawn for each in point.launch.intensities.values()]
    below = _room_for_names(ax, drawn[0]) if len(drawn) == 1 else 0.0
    draw_roofs(
        ax,
        roofs_of(rooflines_by_name(roofline).values()),
        across,
        [up for point in drawn for up in point.heights],
        below,
    )
    _draw_points(ax, drawn)
    _note_hidden(ax, len(points), len(drawn))
    legend_above(ax)
    return figure_of(ax)


def _note_hidden(ax: Axes, launches: int, drawn: int) -> None:
    """Add the number of launches that are not drawn to the legend."""
    if not drawn:
        legend_entry(ax, "no launch with floating-point operations")
    elif drawn < launches:
        legend_entry(ax, f"not shown: {number_of(launches - drawn, 'launch')} without floating-point operations")


# {{{ drawn launches


def drawn_launches(roofline: Rooflines, measured: Measured | None = None) -> list[RooflinePoint]:
    """Return the launches of one or several rooflines, with the names and numbers of :func:`plot_roofline`.

    Raises the same :class:`ParameterError`.
    """
    charted = rooflines_by_name(roofline)
    known = _measured_of(charted, measured or {})
    found = [(label, each, launch) for label, each in charted.items() for launch in each.launches]
    points: list[RooflinePoint] = []
    for number, (label, each, launch) in enumerate(found):
        name = f"{label}: {launch.name}" if label and len(each.launches) > 1 else label or launch.name
        points.append(RooflinePoint(each, launch, name, number, known.get(label, {}).get(launch.name)))
    return points


def rooflines_by_name(given: Rooflines) -> dict[str, Roofline]:
    """Return one or several rooflines by legend name; raises :class:`ParameterError` for other types."""
    if isinstance(given, Mapping):
        names, every = list(given), list(given.values())
    else:
        names, every = None, list(given) if isinstance(given, list | tuple) else [cast("Roofline", given)]
    for each in every:
        check_drawn(each, Roofline, "loopyperf.roofline")
    if not every:
        raise ParameterError("no roofline to plot; pass at least one from loopyperf.roofline")
    if isinstance(given, Roofline):
        return {"": given}
    return dict(zip(_names_of(every) if names is None else names, every, strict=True))


def _names_of(every: Sequence[Roofline]) -> list[str]:
    """Return distinct names: kernels, sizes or devices, whichever differ, or else numbers."""
    kernels = [called(each.kernel, each.sizes, each.typical) for each in every]
    if len(set(kernels)) == len({each.kernel for each in every}):
        kernels = [each.kernel for each in every]
    devices = [each.device for each in every]
    both = [f"{name} on {device}" for name, device in zip(kernels, devices, strict=True)]
    alternatives = [devices] if len(set(kernels)) == 1 else [kernels, both]
    numbered = [f"{name}, {number}" for number, name in enumerate(both if len(set(devices)) > 1 else kernels, 1)]
    return next((names for names in alternatives if len(set(names)) == len(names)), numbered)


def _measured_of(charted: Mapping[str, Roofline], measured: Measured) -> dict[str, Mapping[str, float]]:
    """Return the checked times of each roofline's launches; raises :class:`ParameterError` if they are invalid."""
    if list(charted) == [""]:
        given = {"": cast("Mapping[str, float]", measured)}
    else:
        given = cast("Mapping[str, Mapping[str, float]]", measured)
    for name, times in given.items():
        if name not in charted or not isinstance(times, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError(f"measured must map each of {', '.join(charted)} to seconds by launch, got {name!r}")
        _check_measured(charted[name], times)
    return dict(given)


def _check_measured(roofline: Roofline, measured: Mapping[str, float]) -> None:
    names = [launch.name for launch in roofline.launches]
    unknown = next((name for name in measured if name not in names), None)
    if unknown is not None:
        raise ParameterError(f"unknown launch {unknown!r} in measured; launches: {', '.join(names)}")
    wrong = next((name for name, seconds in measured.items() if not 0 < seconds < inf), None)
    if wrong is not None:
        raise ParameterError(f"measured time of launch {wrong!r} must be above 0 s, got {measured[wrong]!r}")


# }}}


# {{{ launches


def _draw_points(ax: Axes, points: Sequence[RooflinePoint]) -> None:
    """Draw the markers, arrows and measured times of *points*, with legend entries."""
    arrows: list[Artist] = []
    for place, (point, style) in enumerate(zip(points, point_styles(HALVES), strict=False)):
        inside = sum(point.is_at_the_place_of(other) for other in points[place + 1 :])
        markersize = MARKER + 4 * min(inside, 4)
        arrow = list(_draw_arrow(ax, point, style["color"], markersize))
        for mark in [*_draw_markers(ax, point, style, markersize), *arrow]:
            mark.set_gid(mark_of("launch", point.number))
        arrows += arrow
    if len(points) == 1:
        _name_memories(ax, points[0])
    known = [(point, point.measured) for point in points if point.measured is not None]
    for number, (point, seconds) in enumerate(known):
        label = None if number else "measured"
        height = point.launch.flops / seconds
        ax.plot([point.intensity], [height], "x", color=ink(ax), linestyle="none", label=label, zorder=4)
    if any(len(point.launch.intensities) > 1 for point in points):
        ax.plot([], [], "o", color="grey", fillstyle="none", label="at other memories")
    if arrows:
        ax.plot(
            [],
            [],
            linestyle="none",
            marker=r"$\uparrow$",
            markersize=8,
            color="grey",
            label="to attainable performance",
        )


def _draw_markers(ax: Axes, point: RooflinePoint, style: PointStyle, markersize: float) -> Iterator[Artist]:
    """Draw the markers of *point* and yield them; that of the bounding memory is filled if its time is predicted."""
    at, height = point.intensity, point.launch.performance
    others = [each for each in point.launch.intensities.values() if each != at]
    ends = [min([at, *others]), max([at, *others])]
    yield from ax.plot(ends, [height, height], color=style["color"], linewidth=1, linestyle=":")
    yield from ax.plot(others, [height] * len(others), **hollow(style), linestyle="none", zorder=3)
    binding = hollow(style) if point.launch.predicted is None else style
    label = point.label
    yield from ax.plot([at], [height], **binding, markersize=markersize, linestyle="none", label=label, zorder=3)


def _draw_arrow(ax: Axes, point: RooflinePoint, color: str, markersize: float) -> Iterator[Artist]:
    """Draw the arrow from *point* to its attainable performance, if it is long enough, and yield its artists."""
    at, launch = point.intensity, point.launch
    if launch.predicted is None or _points_between(ax, launch.performance, launch.attainable) < VISIBLE:
        return
    arrow = FancyArrowPatch(
        (at, launch.performance), (at, launch.attainable), arrowstyle="-|>", mutation_scale=8, color=color, linewidth=1,
        shrinkA=markersize / 2, shrinkB=0, zorder=2.5,
    )  # fmt: skip
    yield ax.add_patch(arrow)
    roof = point.roof_height
    if roof is None or _points_between(ax, launch.attainable, roof) > APART:
        yield from ax.plot([at], [launch.attainable], "_", color=color, markersize=12, markeredgewidth=1.5, zorder=2.5)


def _points_between(ax: Axes, low: float, high: float) -> float:
    """Return the approximate distance of two heights in points; negative if the second is lower."""
    bottom, top = ax.get_ylim()
    return log(high / low) / log(top / bottom) * _height_of(ax) * POINTS


def _height_of(ax: Axes) -> float:
    """Return the approximate height of *ax* in inches, before the layout is known."""
    return float(ax.get_position().height * figure_of(ax).get_figheight() * OF_AXES)


# }}}


# {{{ names of memories


def _memory_names(ax: Axes, launch: LaunchUnderRoofs) -> dict[float, str]:
    """Return the labels by x-coordinate; memories at nearly the same place share a label."""
    left, right = ax.get_xlim()
    close = (right / left) ** (LINE / (ax.get_position().width * figure_of(ax).get_figwidth()))
    names: dict[float, list[str]] = {}
    for memory, intensity in sorted(launch.intensities.items(), key=lambda item: item[1]):
        place = next((at for at in names if intensity < at * close), intensity)
        names.setdefault(place, []).append(memory)
    return {
        place: "all memories" if len(each) == len(launch.intensities) > 2 else " and ".join(each)
        for place, each in names.items()
    }


def _room_for_names(ax: Axes, point: RooflinePoint) -> float:
    """Return the share of the height of *ax* for names of memories below *point*."""
    if point.measured is not None:
        return 0.0
    longest = max(map(len, point.launch.intensities), default=0)
    return min(MOST_BELOW, (longest * LETTER + 2 * MARKER / POINTS) / _height_of(ax))


def _name_memories(ax: Axes, point: RooflinePoint) -> None:
    """Label the markers of *point* with their memories, vertically: below, or above if there is a measured time."""
    is_below, launch = point.measured is None, point.launch
    for place, name in _memory_names(ax, launch).items():
        is_binding = isclose(place, point.intensity, rel_tol=ALIKE)
        ax.annotate(
            name,
            (place, max(point.heights) if is_binding and not is_below else launch.performance),
            xytext=(0, -MARKER if is_below else MARKER),
            textcoords="offset points",
            rotation="vertical",
            ha="center",
            va="top" if is_below else "bottom",
            fontsize=PRINT,
            # A background keeps the name legible on top of a slope.
            bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.5},
        )


# }}}
