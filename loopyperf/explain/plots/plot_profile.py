"""Plot an execution profile as a timeline: the stalls of each warp, and the use of each subsystem."""

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
"""height of the legend above the axes, in inches"""
MOST = 0.5
"""maximum share of the height for the rows of subsystems"""
LABELS = 16
"""maximum number of labeled warps"""
TIGHT = ((PRINTS[1][0], PRINTS[1][2]), (PRINTS[2][0], 0.1))
"""font sizes of one-line names, with the line height in inches"""
NUMBER = re.compile(r" \d+$")
Band = tuple[str, ...]
"""subsystems that share one label"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Positions and heights of rows, from the top; rows of warps have height 1 and start at -0.5."""

    warps: Mapping[int, int]
    subsystems: Mapping[str, tuple[float, float]]
    """middle and height by subsystem"""
    end: float
    """lower end of the last row"""
    inches: float
    """approximate height of a warp's row, in inches"""
    names: Mapping[float, str]
    """labels by the middle of their row"""
    print: str
    """font size of the labels"""


def timeline_rows(ax: Axes, warps: Sequence[int], fills: Mapping[str, Fraction]) -> Rows:
    """Return the rows of *warps*, and below them those of the subsystems, whose utilizations are *fills*.

    If there is no room for a label of each subsystem, subsystems that differ only by a number share one label and the
    height of one row.
    """
    height = max(ax.get_position().height * figure_of(ax).get_figheight() - LEGEND, LEGEND)
    bands, size, line = _bands(list(fills), height * (MOST if warps else 1.0))
    share = _share(len(warps), len(bands), line / height)
    tall = len(warps) * share / (1 - share) / len(bands) if warps and bands else 1.0
    middles = [len(warps) - 0.5 + (place + 0.5) * tall for place in range(len(bands))]
    placed = list(zip(middles, bands, strict=True))
    inches = height * (1 - share) / len(warps) if warps else line
    # Tolerate rounding errors for names that just fit.
    every = ceil(line * len(bands) / (height * share) - 1e-9) if share else 1
    of_warps = {at: f"warp {warps[at]}" for at in _named_warps(len(warps), line / inches)}
    return Rows(
        warps={warp: row for row, warp in enumerate(warps)},
        subsystems={name: place for middle, band in placed for name, place in _within(band, middle, tall).items()},
        end=len(warps) - 0.5 + len(bands) * tall,
        inches=inches,
        names=of_warps | {at: f"{band_name(band)}, {_busy(band, fills)}" for at, band in placed[::every]},
        print=size,
    )


def bands_of(names: Sequence[str]) -> list[Band]:
    """Return *names* in order, with adjacent names that differ only by a number as one band."""
    return [tuple(each) for _, each in groupby(names, lambda name: NUMBER.sub("", name))]


def band_name(band: Band) -> str:
    """Return the label of *band*, e.g. "alu 0" for one subsystem and "4 × alu" for four."""
    return band[0] if len(band) == 1 else f"{len(band)} × {NUMBER.sub('', band[0])}"


def _bands(names: Sequence[str], height: float) -> tuple[list[Band], str, float]:
    """Return the bands that fit in *height* inches, their font size, and their line height in inches."""
    choices = [(bands, size, line) for bands in ([(name,) for name in names], bands_of(names)) for size, line in TIGHT]
    return next((choice for choice in choices if len(choice[0]) * choice[2] <= height + 1e-9), choices[-1])


def _share(warps: int, bands: int, line: float) -> float:
    """Return the share of the height for subsystems, with rows as tall as those of warps or as a *line* of text."""
    if not (warps and bands):
        return float(bands > 0)
    return min(MOST, max(bands * line, bands / (bands + warps)))


def _within(band: Band, middle: float, tall: float) -> dict[str, tuple[float, float]]:
    height = tall / len(band)
    return {name: (middle - tall / 2 + (place + 0.5) * height, height) for place, name in enumerate(band)}


def _named_warps(warps: int, line: float) -> range:
    """Return the indices of labeled warps, for labels *line* rows tall; no label extends below the last row."""
    every = max(-(-warps // LABELS), ceil(line))
    return range(0, max(min(1, warps), int(warps + 0.5 - line / 2)), every)


def _busy(band: Band, fills: Mapping[str, Fraction]) -> str:
    found = sorted(float(fills[name]) for name in band)
    least, most = in_percent(found[0]), in_percent(found[-1])
    return f"{least} busy" if least == most else f"{least} to {most} busy"


WINDOW = 500
"""default number of drawn cycles"""
MARKERS = 1.5, 5.0
"""minimum and maximum height of an issue's tick, in points"""
FILLED = 0.8
"""share of a row's height that areas take"""
APART = 3
"""characters between numbers along the axis"""
SHORT = 60
"""maximum length of the list of unused subsystems, in characters"""
TAKEN = ("subsystem in use", "by the next instruction")
Row = tuple[float, float]
"""middle, height"""
Spans = dict[tuple[Row, str], list[tuple[float, float]]]
"""(row, label) -> spans of (start, length), in cycles"""


def plot_profile(
    profile: Profile, *, begin: float | None = None, end: float | None = None, ax: Axes | None = None
) -> Figure:
    """Plot the timeline of a core (x, cycles) from *begin* to *end*.

    By default, it shows :data:`WINDOW` cycles in the middle of the run; with only *begin*, as many cycles from there;
    with only *end*, everything up to it.

    The upper part, at least half of the height, has a row for each warp: areas are its stalls
    (:data:`loopyperf.pipeline.profiling.CAUSES`), and ticks its issues. The lower part has a row for each subsystem
    that is used in the window: areas are the times in which it is in use, and its label has its utilization over the
    whole run. If labels do not fit, subsystems such as "alu 0" to "alu 3" share one, and only some warps are labeled.
    The title of the legend lists unused subsystems. The layout is that of Lemeire, Fig. 8 and 9.

    :raises ParameterError: *profile* is not a profile, or the window is empty or starts before 0.
    """
    check_drawn(profile, Profile, "loopyperf.pipeline.profile_of, or a launch of loopyperf.trace")
    begin, last = _window(float(profile.cycles), begin, end)
    if not 0 <= begin < last and profile.issues:
        raise ParameterError(
            f"invalid window from {begin} to {last} cycles; choose begin < end within {float(profile.cycles):g} cycles"
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
    """Label the x-axis with round numbers of cycles up to *last*: as many as fit, without an offset."""
    number = max(1, int(width_of(ax) / BESIDE / LETTER / (len(f"{last:.0f}") + APART)))
    # A number at the right end would be clipped.
    ax.xaxis.set_major_locator(ticker.MaxNLocator(number, steps=[1, 2, 5, 10], integer=True, prune="upper"))
    ax.ticklabel_format(axis="x", style="plain", useOffset=False)


def _window(cycles: float, begin: float | None, end: float | None) -> tuple[float, float]:
    """Return the start and end of the window in a run of *cycles*, by default its middle."""
    if begin is None:
        begin = max(0.0, (cycles - WINDOW) // 2) if end is None else 0.0
    return begin, min(cycles, begin + WINDOW) if end is None else end


def _overlaps(profile: Profile, issue: Issue, begin: float, end: float) -> bool:
    """Return whether *issue* or its stalls overlap the window."""
    clock = profile.scenario.clock
    first = clock.cycles(issue.waits[0].begin) if issue.waits else issue.time
    return first < end and issue.free_again > begin


def _waits(profile: Profile, seen: Sequence[Issue], rows: Rows, begin: float, end: float) -> Spans:
    """Return the stalls of warps between *begin* and *end*."""
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
    # Two alternating grays, because separating lines would hide short instructions.
    greys = (AreaStyle(facecolor=shade, hatch="", edgecolor="white") for shade in SHADES)
    _draw(ax, spans, dict(zip(TAKEN, greys, strict=True)))


def _draw(ax: Axes, spans: Spans, styles: Mapping[str, AreaStyle]) -> None:
    """Draw each row's areas, and label each kind once, in the order of *styles*."""
    named: set[str] = set()
    for sort, style in styles.items():
        for ((middle, height), found), pieces in spans.items():
            if found == sort:
                label = None if sort in named else sort
                place = middle - FILLED * height / 2, FILLED * height
                ax.broken_barh(pieces, place, **style, linewidth=0, label=label)
                named.add(sort)


def _unused(names: Sequence[str]) -> str:
    """Return the names of subsystems without a row, or their number if the list would be long."""
    listed = ", ".join(band_name(band) for band in bands_of(names))
    return f"not used: {listed if len(listed) <= SHORT else number_of(len(names), 'subsystem')}" if names else ""
