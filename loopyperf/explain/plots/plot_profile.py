"""The execution profile as a timeline: what each warp waits for, and how each subsystem fills."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import ceil

from loopyperf.errors import ParameterError
from loopyperf.explain.plots.figures import (
    BESIDE,
    LETTER,
    POINTS,
    PRINTS,
    SHADES,
    AreaStyle,
    Axes,
    Figure,
    area_styles,
    axes,
    check_drawn,
    figure_of,
    ink,
    legend_above,
    ticker,
    width_of,
)
from loopyperf.pipeline.profiling import CAUSES, Issue, Profile
from loopyperf.units import in_percent, number_of

LEGEND = 0.42
"""inches above the axes, which are taken of their height"""
MOST = 0.5
"""of the height: what the rows of subsystems take of it"""
LABELS = 16
"""warps that are numbered beside their rows, at most"""
TIGHT = ((PRINTS[1][0], PRINTS[1][2]), (PRINTS[2][0], 0.1))
"""prints of names that take one line each, with the inches of that"""
NUMBER = re.compile(r" \d+$")
Band = tuple[str, ...]
"""subsystems that share a name beside their rows"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the middles of rows are, from the top, and how tall they are: those of warps 1 each, from -0.5 on."""

    warps: Mapping[int, int]
    subsystems: Mapping[str, tuple[float, float]]
    """name -> middle, height"""
    end: float
    """of the last row"""
    inches: float
    """of a warp's row, about"""
    names: Mapping[float, str]
    """middle -> what stands beside it"""
    print: str
    """size of the names"""


def timeline_rows(ax: Axes, warps: Sequence[int], fills: Mapping[str, Fraction]) -> Rows:
    """Return the rows of *warps*, and below them those of subsystems, which are filled by *fills* of the time.

    Where the subsystems have no room for a name each in their half, those that differ by their number have one
    together, and their rows are in the room of one.
    """
    height = max(ax.get_position().height * figure_of(ax).get_figheight() - LEGEND, LEGEND)
    bands, size, line = _bands(list(fills), height * (MOST if warps else 1.0))
    share = _share(len(warps), len(bands), line / height)
    tall = len(warps) * share / (1 - share) / len(bands) if warps and bands else 1.0
    middles = [len(warps) - 0.5 + (place + 0.5) * tall for place in range(len(bands))]
    placed = list(zip(middles, bands, strict=True))
    inches = height * (1 - share) / len(warps) if warps else line
    # Names that have room by a hair, in the arithmetic of floats, have room.
    every = ceil(line * len(bands) / (height * share) - 1e-9) if share else 1
    of_warps = {at: f"warp {warps[at]}" for at in _named_warps(len(warps), line / inches)}
    return Rows(
        warps={warp: row for row, warp in enumerate(warps)},
        subsystems={name: place for middle, band in placed for name, place in _within(band, middle, tall).items()},
        end=len(warps) - 0.5 + len(bands) * tall,
        inches=inches,
        names=of_warps | {at: f"{band_name(band)}, {_full(band, fills)}" for at, band in placed[::every]},
        print=size,
    )


def bands_of(names: Sequence[str]) -> list[Band]:
    """Return *names* in their order, those beside each other that differ by their number together."""
    return [tuple(each) for _, each in groupby(names, lambda name: NUMBER.sub("", name))]


def band_name(band: Band) -> str:
    """Return what *band* is called: the name of one, "4 × alu" of four."""
    return band[0] if len(band) == 1 else f"{len(band)} × {NUMBER.sub('', band[0])}"


def _bands(names: Sequence[str], height: float) -> tuple[list[Band], str, float]:
    """Return which subsystems have one name in so many inches of *height*, its print, and the inches of its line."""
    choices = [(bands, size, line) for bands in ([(name,) for name in names], bands_of(names)) for size, line in TIGHT]
    return next((choice for choice in choices if len(choice[0]) * choice[2] <= height + 1e-9), choices[-1])


def _share(warps: int, bands: int, line: float) -> float:
    """Return which part of the height the subsystems have: rows as tall as those of warps, or as a *line* of print."""
    if not (warps and bands):
        return float(bands > 0)
    return min(MOST, max(bands * line, bands / (bands + warps)))


def _within(band: Band, middle: float, tall: float) -> dict[str, tuple[float, float]]:
    height = tall / len(band)
    return {name: (middle - tall / 2 + (place + 0.5) * height, height) for place, name in enumerate(band)}


def _named_warps(warps: int, line: float) -> range:
    """Return the rows that a name stands beside, which is as tall as *line* of them; none reaches below the last."""
    every = max(-(-warps // LABELS), ceil(line))
    return range(0, max(min(1, warps), int(warps + 0.5 - line / 2)), every)


def _full(band: Band, fills: Mapping[str, Fraction]) -> str:
    found = sorted(float(fills[name]) for name in band)
    least, most = in_percent(found[0]), in_percent(found[-1])
    return f"{least} full" if least == most else f"{least} to {most} full"


WINDOW = 500
"""cycles that are drawn, unless others are asked for"""
MARKERS = 1.5, 5.0
"""points: how tall the tick of an issue is, at least and at most"""
FILLED = 0.8
"""of the height of a row"""
APART = 3
"""letters between numbers along the axis"""
SHORT = 60
"""letters of a list of subsystems that are not used, at most"""
TAKEN = ("subsystem taken", "by the next instruction")
Row = tuple[float, float]
"""middle, height"""
Spans = dict[tuple[Row, str], list[tuple[float, float]]]
"""row and what it shows -> begin and length, in cycles"""


def plot_profile(
    profile: Profile, *, begin: float | None = None, end: float | None = None, ax: Axes | None = None
) -> Figure:
    """Return the timeline of a core (x, cycles) from *begin* to *end*.

    Where neither is stated, it is the middle of the run, :data:`WINDOW` cycles of it; without *end* as many from
    *begin*, and without *begin* all up to *end*.

    Above, in half of the height at least, a row for each warp: areas are what it waits for
    (:data:`loopyperf.pipeline.profiling.CAUSES`), ticks are its issues. Below, a row for each subsystem that is used in
    this window: areas are the time in which it is taken; beside its name stands its fill, over the whole run. Where
    names have no room, such as "alu 0" to "alu 3" have one, and warps are named by steps; the legend begins with what
    is not used. The layout is that of Lemeire, Fig. 8 and 9.

    :raises ParameterError: *profile* is none, or the window has no length, or begins before 0.
    """
    check_drawn(profile, Profile, "loopyperf.pipeline.profile_of, or a launch of loopyperf.trace")
    begin, last = _window(float(profile.cycles), begin, end)
    if not 0 <= begin < last and profile.issues:
        raise ParameterError(
            f"the window is from {begin} to {last} cycles of {float(profile.cycles):g}: let it begin within, and last"
        )
    ax = axes(ax)
    seen = [issue for issue in profile.issues if _overlaps(profile, issue, begin, last)]
    used = {issue.instruction.subsystem for issue in seen if issue.time < last and issue.free_again > begin}
    fills = {name: profile.fill[name] for name in profile.scenario.subsystems if name in used}
    rows = timeline_rows(ax, sorted({issue.warp for issue in seen}), fills)
    _draw_warps(ax, _waits(profile, seen, rows, begin, last), seen, rows)
    _draw_subsystems(ax, [issue for issue in seen if issue.instruction.subsystem in used], rows)
    ax.set_yticks(list(rows.names), list(rows.names.values()), fontsize=rows.print)
    if rows.warps:
        ax.axhline(len(rows.warps) - 0.5, color=ink(ax), linewidth=0.8)
    ax.set(xlabel="time (cycles)", xlim=(begin, last), ylim=(rows.end, -0.5))
    _number(ax, last)
    legend_above(ax, _unused([name for name in profile.scenario.subsystems if name not in used]))
    return figure_of(ax)


def _number(ax: Axes, last: float) -> None:
    """Write round numbers of cycles, up to *last*, below *ax*: as many as have room, and in full."""
    number = max(1, int(width_of(ax) / BESIDE / LETTER / (len(f"{last:.0f}") + APART)))
    # A number at the right end would be cut where nobody leaves room for half of it.
    ax.xaxis.set_major_locator(ticker.MaxNLocator(number, steps=[1, 2, 5, 10], integer=True, prune="upper"))
    ax.ticklabel_format(axis="x", style="plain", useOffset=False)


def _window(cycles: float, begin: float | None, end: float | None) -> tuple[float, float]:
    """Return from when to when a run of so many *cycles* is drawn: what is stated, or else the middle."""
    if begin is None:
        begin = max(0.0, (cycles - WINDOW) // 2) if end is None else 0.0
    return begin, min(cycles, begin + WINDOW) if end is None else end


def _overlaps(profile: Profile, issue: Issue, begin: float, end: float) -> bool:
    """Return whether *issue*, or what it waited for, is seen."""
    clock = profile.scenario.clock
    first = clock.cycles(issue.waits[0].begin) if issue.waits else issue.time
    return first < end and issue.free_again > begin


def _waits(profile: Profile, seen: Sequence[Issue], rows: Rows, begin: float, end: float) -> Spans:
    """Return what warps wait for between *begin* and *end*."""
    clock = profile.scenario.clock
    spans: Spans = defaultdict(list)
    for issue in seen:
        for wait in issue.waits:
            start, until = float(clock.cycles(wait.begin)), float(clock.cycles(wait.end))
            if start < end and until > begin:
                spans[(rows.warps[issue.warp], 1.0), wait.cause].append((start, until - start))
    return spans


def _draw_warps(ax: Axes, waits: Spans, seen: Sequence[Issue], rows: Rows) -> None:
    styles: dict[str, AreaStyle] = dict(zip(CAUSES, area_styles(), strict=False))
    _draw(ax, waits, styles)
    times, places = [float(issue.time) for issue in seen], [rows.warps[issue.warp] for issue in seen]
    least, most = MARKERS
    size = min(most, max(least, FILLED * POINTS * rows.inches))
    ax.plot(times, places, "|", color=ink(ax), markersize=size, markeredgewidth=max(0.5, size / 5))
    ax.plot([], [], "|", color=ink(ax), markersize=most, label="issue")


def _draw_subsystems(ax: Axes, seen: Sequence[Issue], rows: Rows) -> None:
    spans: Spans = defaultdict(list)
    number: dict[str, int] = defaultdict(int)
    for issue in seen:
        name, length = issue.instruction.subsystem, float(issue.free_again - issue.time)
        spans[rows.subsystems[name], TAKEN[number[name] % 2]].append((float(issue.time), length))
        number[name] += 1
    # Two greys by turns: lines between short instructions would be all that is seen of them.
    greys = (AreaStyle(facecolor=shade, hatch="", edgecolor="white") for shade in SHADES)
    _draw(ax, spans, dict(zip(TAKEN, greys, strict=True)))


def _draw(ax: Axes, spans: Spans, styles: Mapping[str, AreaStyle]) -> None:
    """Draw each row's areas, and name each sort of them once, in the order of *styles*."""
    named: set[str] = set()
    for sort, style in styles.items():
        for ((middle, height), found), pieces in spans.items():
            if found == sort:
                label = None if sort in named else sort
                place = middle - FILLED * height / 2, FILLED * height
                ax.broken_barh(pieces, place, **style, linewidth=0, label=label)
                named.add(sort)


def _unused(names: Sequence[str]) -> str:
    """Return which subsystems have no row; only how many, where their names would be long."""
    listed = ", ".join(band_name(band) for band in bands_of(names))
    return f"not used: {listed if len(listed) <= SHORT else number_of(len(names), 'subsystem')}" if names else ""
