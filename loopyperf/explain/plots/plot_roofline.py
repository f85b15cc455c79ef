"""Plot rooflines: the bandwidths and peaks of devices, and the launches of kernels below them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import inf
from typing import cast

from loopyperf.display import called
from loopyperf.errors import ParameterError
from loopyperf.explain.plots.figures import (
    MARKERS,
    NARROW,
    Artist,
    Axes,
    Figure,
    Style,
    axes,
    check_drawn,
    ink,
    note,
    styles,
    width_of,
    with_legend,
)
from loopyperf.explain.roofline_chart import MULTIPLY_ADDS, LaunchUnderRoofs, Roofline
from loopyperf.units import duration, in_percent, number_of, prefixed

MARGIN = 4.0
"""factor by which the axes extend beyond the launches and the ridge points"""
DASHES = ("-", "--", "-.", ":", (0, (8, 2, 1, 2, 1, 2)))
"""line styles of memories, and in the same order of peaks"""
WIDTHS = 1.2, 0.7
"""line widths of memories and of peaks, in points"""
CLASSICAL = MULTIPLY_ADDS.format("f32")
"""the peak that is always drawn for each of several devices"""
Rooflines = Roofline | Sequence[Roofline] | Mapping[str, Roofline]
Measured = Mapping[str, float] | Mapping[str, Mapping[str, float]]


def plot_roofline(roofline: Rooflines, *, measured: Measured | None = None, ax: Axes | None = None) -> Figure:
    """Plot performance (y, flop/s) against arithmetic intensity (x, flop/B) on logarithmic axes.

    Slopes are bandwidths of memories, and horizontal lines are peaks of multiply-adds, special functions and issue, all
    from the device parameters at the clock under load. Each launch has one marker per memory, at its intensity for that
    memory and at the performance predicted by :attr:`Roofline.model`. The marker of the memory that bounds the launch
    is filled, or else that of the memory farthest from the core; the others are hollow. A line leads from it to the
    attainable performance: its roof, or less if its bound, such as the number of requests, has no roof. A launch
    without a prediction is hollow and lies at its attainable performance. Launches without floating-point operations
    are not shown.

    *roofline* is one roofline, a sequence, or a mapping from names for the legend. Each of several rooflines has a
    color, and if they have several launches, each launch has a marker. Several devices have roofs in the color of their
    first roofline: the peak of f32 multiply-adds and the peaks that bound a launch. The legend of narrow axes has no
    values.

    *measured* maps launch names to the seconds of all their executions; for several rooflines, it maps their names to
    such mappings. Measured launches are crosses.

    :raises ParameterError: *roofline* is not a roofline, or *measured* has an unknown launch or a time <= 0.

    See :func:`loopyperf.explain.roofline_chart.roofline`. Source: Williams et al., Roofline, 2009; with points for
    several memories, Yang et al., Hierarchical Roofline Analysis for GPUs, 2020.
    """
    drawn = axes(ax)
    draw_roofline(drawn, roofline, measured)
    return with_legend(drawn, grows=ax is None)


def draw_roofline(ax: Axes, roofline: Rooflines, measured: Measured | None = None) -> dict[Artist, str]:
    """Draw what :func:`plot_roofline` plots, without the legend, and return the values of each mark in words."""
    charted = _by_name(roofline)
    times = _measured_of(charted, measured or {})
    points = [
        _Point(number, name, each, launch, times.get(name, {}).get(launch.name))
        for number, (name, each) in enumerate(charted.items())
        for launch in each.launches
        if launch.flops
    ]
    ax.set(xscale="log", yscale="log", xlabel="intensity (flop/B)", ylabel="performance (flop/s)")
    every = list(_distinct_roofs(list(charted.values())))
    _set_limits(ax, every, points)
    words = _draw_roofs(ax, every) | _draw_points(ax, points)
    if hidden := sum(len(each.launches) for each in charted.values()) - len(points):
        note(ax, f"not shown: {number_of(hidden, 'launch')} without floating-point operations")
    return words


# {{{ arguments


def _by_name(given: Rooflines) -> dict[str, Roofline]:
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


def _measured_of(charted: Mapping[str, Roofline], measured: Measured) -> Mapping[str, Mapping[str, float]]:
    """Return the checked times of each roofline's launches; raises :class:`ParameterError` if they are invalid."""
    given = cast("Mapping[str, Mapping[str, float]]", {"": measured} if list(charted) == [""] else measured)
    for name, times in given.items():
        if name not in charted or not isinstance(times, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError(f"measured must map each of {', '.join(charted)} to seconds by launch, got {name!r}")
        launches = [launch.name for launch in charted[name].launches]
        for launch, seconds in times.items():
            if launch not in launches:
                raise ParameterError(f"unknown launch {launch!r} in measured; launches: {', '.join(launches)}")
            if not 0 < seconds < inf:
                raise ParameterError(f"measured time of launch {launch!r} must be above 0 s, got {seconds!r}")
    return given


# }}}


# {{{ roofs


@dataclass(frozen=True, slots=True)
class _Roofs:
    """The drawn roofs of one device."""

    device: str
    """display name of the device; empty if there is only one"""
    color: str
    """color of the lines; empty for that of text"""
    bandwidths: Mapping[str, float]
    """bandwidths by memory, in B/s"""
    peaks: Mapping[str, float]
    """peaks in flop/s; equal ones share a name"""


def _distinct_roofs(every: Sequence[Roofline]) -> Iterator[_Roofs]:
    """Yield the roofs of each device once."""
    first: list[tuple[int, Roofline]] = []
    for number, each in enumerate(every):
        if all((each.device, each.bandwidths, each.peaks) != (r.device, r.bandwidths, r.peaks) for _, r in first):
            first.append((number, each))
    drawn = {CLASSICAL, *(launch.roof for each in every for launch in each.launches)}
    for number, each in first:
        shown = {name: peak for name, peak in each.peaks.items() if name in drawn}
        if len(first) == 1:
            yield _Roofs("", "", each.bandwidths, _merged(each.peaks))
        else:
            yield _Roofs(each.device, f"C{number}", each.bandwidths, _merged(shown or each.peaks))


def _merged(peaks: Mapping[str, float]) -> dict[str, float]:
    """Return *peaks* with those of equal displayed height under one name."""
    names: dict[str, list[str]] = {}
    for name, peak in peaks.items():
        names.setdefault(prefixed(peak, "flop/s"), []).append(name)
    return {" and ".join(each): peaks[each[0]] for each in names.values()}


def _draw_roofs(ax: Axes, every: Sequence[_Roofs]) -> dict[Artist, str]:
    """Draw the roofs within the limits of *ax*, and return the name and height of each in words."""
    left, right = ax.get_xlim()
    is_narrow = width_of(ax) <= NARROW
    memories = dict(zip(dict.fromkeys(name for roofs in every for name in roofs.bandwidths), cycle(DASHES)))
    peaks = dict(zip(dict.fromkeys(name for roofs in every for name in roofs.peaks), cycle(DASHES)))
    words: dict[Artist, str] = {}
    for roofs in every:
        highest = max(roofs.peaks.values(), default=ax.get_ylim()[1])
        start = highest / max(roofs.bandwidths.values(), default=highest / left)
        lines = [
            (name, prefixed(each, "B/s"), [left, highest / each], [left * each, highest], memories[name], WIDTHS[0])
            for name, each in roofs.bandwidths.items()
        ] + [
            (name, prefixed(each, "flop/s"), [start * each / highest, right], [each, each], peaks[name], WIDTHS[1])
            for name, each in roofs.peaks.items()
        ]
        for name, amount, across, up, dash, width in lines:
            (line,) = ax.plot(across, up, color=roofs.color or ink(ax), linestyle=dash, linewidth=width, zorder=1)
            words[line] = f"{name}, {amount}{roofs.device and f', {roofs.device}'}"
            if not roofs.device:
                line.set_label(name if is_narrow else words[line])
    if len(every) > 1:
        for dashes, width in zip((memories, peaks), WIDTHS, strict=True):
            for name, dash in dashes.items():
                ax.plot([], [], color=ink(ax), linestyle=dash, linewidth=width, label=name)
    return words


# }}}


# {{{ launches


@dataclass(frozen=True, slots=True)
class _Point:
    """A launch in a roofline chart."""

    number: int
    """index of its roofline"""
    of: str
    """legend name of its roofline; empty if there is only one"""
    roofline: Roofline
    """its roofline"""
    launch: LaunchUnderRoofs
    """the launch"""
    measured: float | None
    """measured seconds of all its executions, if known"""

    @property
    def intensity(self) -> float:
        """Return the intensity (flop/B) for the memory that bounds it, or else for that farthest from the core."""
        found = self.launch.intensities
        memories = (self.launch.memory, *reversed(list(self.roofline.bandwidths)))
        return next((found[name] for name in memories if name in found), 1.0)

    @property
    def heights(self) -> list[float]:
        """Return the predicted, attainable and measured performance, in flop/s."""
        measured = [] if self.measured is None else [self.launch.flops / self.measured]
        return [self.launch.performance, self.launch.attainable, *measured]

    @property
    def reached(self) -> str:
        """Return the share of the attainable performance and the bound, for the legend."""
        share = self.launch.share
        return f"bound by {self.launch.bound}" if share is None else f"{in_percent(share)} of {self.launch.bound}"

    @property
    def words(self) -> str:
        """Return its values in words."""
        launch, alone = self.launch, len(self.roofline.launches) == 1
        name = self.of if self.of and alone else f"{self.of}: {launch.name}" if self.of else launch.name
        bound = f"{prefixed(launch.attainable, 'flop/s')} at most, {duration(launch.seconds)} at least"
        reached = f"{prefixed(launch.performance, 'flop/s')}, {launch.share_in_words}"
        by_model = f"; {duration(launch.predicted)} by {self.roofline.model}, {reached}" if launch.predicted else ""
        intensities = ", ".join(f"{each:.3g} flop/B by {memory}" for memory, each in launch.intensities.items())
        return f"{name}: {bound}{by_model}; {intensities or 'no memory traffic'}; bound: {launch.bound}"


def _set_limits(ax: Axes, every: Sequence[_Roofs], points: Sequence[_Point]) -> None:
    """Set limits that include all launches, ridge points and peaks."""
    heights = [up for point in points for up in point.heights]
    peaks = [peak for roofs in every for peak in roofs.peaks.values()]
    highest = max([*peaks, *heights], default=1.0)
    ridges = [
        max(roofs.peaks.values(), default=highest) / each for roofs in every for each in roofs.bandwidths.values()
    ]
    across = [each for point in points for each in (point.intensity, *point.launch.intensities.values())]
    ax.set_xlim(min([*ridges, *across], default=1.0) / MARGIN, max([*ridges, *across], default=1.0) * MARGIN)
    ax.set_ylim(min([*peaks, *heights], default=1.0) / MARGIN, highest * MARGIN)


def _draw_points(ax: Axes, points: Sequence[_Point]) -> dict[Artist, str]:
    """Draw the launches with legend entries, and return the values of each in words."""
    words: dict[Artist, str] = {}
    for point, style, label in _styled(ax, points):
        for mark in _draw_point(ax, point, style, label, names_memories=len(points) == 1):
            words[mark] = point.words
    if len(points) > 1 and any(len(point.launch.intensities) > 1 for point in points):
        ax.plot([], [], "o", color="grey", fillstyle="none", label="at other memories")
    if any(point.launch.predicted for point in points):
        ax.plot([], [], color="grey", linewidth=1, label="to attainable")
    if any(point.measured for point in points):
        ax.plot([], [], "x", color="grey", label="measured")
    return words


def _styled(ax: Axes, points: Sequence[_Point]) -> Iterator[tuple[_Point, Style, str | None]]:
    """Yield each launch with its style and legend entry; several launches of several rooflines share entries."""
    rooflines = {point.number: point.of for point in points}
    markers = dict(zip(dict.fromkeys(point.launch.name for point in points), cycle(MARKERS)))
    shares_entries = "" not in rooflines.values() and len(rooflines) < len(points)
    if shares_entries:
        for number, name in rooflines.items():
            ax.plot([], [], color=f"C{number}", linewidth=3, label=name)
        for name, marker in markers.items():
            ax.plot([], [], marker, color="grey", label=name)
    for point, style in zip(points, styles(len(points)), strict=True):
        if point.of:
            style["color"] = f"C{point.number}"
        if shares_entries:
            style["marker"] = markers[point.launch.name]
        reached = "" if width_of(ax) <= NARROW else f": {point.reached}"
        yield point, style, None if shares_entries else f"{point.of or point.launch.name}{reached}"


def _draw_point(ax: Axes, point: _Point, style: Style, label: str | None, *, names_memories: bool) -> Iterator[Artist]:
    """Draw the marks of *point* and yield them; if it *names_memories*, those of other memories are in the legend."""
    at, launch = point.intensity, point.launch
    others = {memory: each for memory, each in launch.intensities.items() if each != at}
    height, color = launch.performance, style["color"]
    yield from ax.plot(sorted([at, *others.values()]), [height] * (1 + len(others)), ":", color=color, linewidth=1)
    yield from ax.plot([at, at], [height, launch.attainable], color=color, linewidth=1, marker="_", markevery=[1])
    for marker, (memory, each) in zip(cycle(MARKERS[1:]), others.items()):
        hollow: Style = {**style, "marker": marker} if names_memories else style
        name = f"at {memory}" if names_memories else None
        yield from ax.plot([each], [height], **hollow, fillstyle="none", linestyle="none", label=name, zorder=3)
    fill = "none" if launch.predicted is None else "full"
    yield from ax.plot([at], [height], **style, fillstyle=fill, linestyle="none", label=label, zorder=3)
    if point.measured is not None:
        yield from ax.plot([at], [launch.flops / point.measured], "x", color=color, linestyle="none", zorder=4)


# }}}
