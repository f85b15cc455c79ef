"""The execution profile as a timeline: what each warp waits for, and how each subsystem fills."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice
from math import ceil

from loopyperf.errors import ParameterError
from loopyperf.pipeline.profile import CAUSES, Issue, Profile
from loopyperf.plots.figures import PRINTS, AreaStyle, Axes, Figure, area_styles, axes, figure_of, ink, legend_above
from loopyperf.units import in_percent

WINDOW = 500
"""cycles that are drawn, unless others are asked for"""
LABELS = 16
"""warps that are numbered beside their rows, at most"""
PRINT, _, LINE = PRINTS[1]
LEGEND = 3
"""lines above the axes, which take of their height"""
MARKER = 5.0
"""points: the tick of an issue in a row as tall as a name"""
TAKEN = ("subsystem taken", "by the next instruction")
Spans = dict[tuple[float, str], list[tuple[float, float]]]
"""row and what it shows -> begin and length, in cycles"""


def plot_profile(profile: Profile, *, begin: float = 0, end: float | None = None, ax: Axes | None = None) -> Figure:
    """Return the timeline of a core from *begin* to *end* (cycles), by default :data:`WINDOW` cycles.

    Above, a row for each warp: areas are what it waits for (:data:`loopyperf.pipeline.profile.CAUSES`), ticks are its
    issues. Below, a row for each subsystem: areas are the time in which it is taken; beside its name stands its fill,
    over the whole run. In the order of dataflow, instructions of a warp wait beside each other, so that warps have no
    rows. Raises :class:`ParameterError` for a window without a length. The layout is that of Lemeire, Fig. 8 and 9.
    """
    last = min(float(profile.cycles), begin + WINDOW) if end is None else end
    if not 0 <= begin < last and profile.issues:
        raise ParameterError(
            f"the window is from {begin} to {last} cycles of {float(profile.cycles):g}: let it begin within, and last"
        )
    ax = axes(ax)
    is_in_order = profile.scenario.issue_order == "in_order"
    seen = [issue for issue in profile.issues if _overlaps(profile, issue, begin, last)]
    warps = sorted({issue.warp for issue in seen}) if is_in_order else []
    rows = {warp: number for number, warp in enumerate(warps)}
    names = profile.scenario.subsystems
    tall = _height_of_a_name(ax, len(rows), len(names))
    subsystems = {name: len(rows) - 0.5 + (number + 0.5) * tall for number, name in enumerate(names)}
    if is_in_order:
        _draw_warps(ax, profile, seen, rows, 1 / tall)
    _draw_subsystems(ax, seen, subsystems, tall)
    step = max(-(-len(rows) // LABELS), ceil(tall))
    ticks: dict[float, str] = {row: f"warp {warp}" for warp, row in islice(rows.items(), 0, None, step)}
    ticks |= {row: f"{name}, {in_percent(float(profile.fill[name]))} full" for name, row in subsystems.items()}
    ax.set_yticks(list(ticks), list(ticks.values()), fontsize=PRINT)
    if rows:
        ax.axhline(len(rows) - 0.5, color=ink(ax), linewidth=0.8)
    ax.set(xlabel="time (cycles)", xlim=(begin, last), ylim=(len(rows) + len(subsystems) * tall - 0.5, -0.5))
    legend_above(ax)
    return figure_of(ax)


def _height_of_a_name(ax: Axes, warps: int, names: int) -> float:
    """Return how many rows of warps are as tall as a name beside them, 1 at least; *names* are in rows of their own."""
    height = ax.get_position().height * figure_of(ax).get_figheight() - LEGEND * LINE
    # So many rows of warps as there are share what is left of the height by the names.
    return max(1.0, warps * LINE / max(height - names * LINE, LINE))


def _overlaps(profile: Profile, issue: Issue, begin: float, end: float) -> bool:
    """Return whether *issue*, or what it waited for, is seen."""
    clock = profile.scenario.clock
    first = clock.cycles(issue.waits[0].begin) if issue.waits else issue.time
    return first < end and issue.free_again > begin


def _draw_warps(ax: Axes, profile: Profile, seen: list[Issue], rows: Mapping[int, int], size: float) -> None:
    """Draw rows of warps, *size* times as tall as a name."""
    clock = profile.scenario.clock
    spans: Spans = defaultdict(list)
    for issue in seen:
        for wait in issue.waits:
            start, length = float(clock.cycles(wait.begin)), float(clock.cycles(wait.end - wait.begin))
            spans[rows[issue.warp], wait.cause].append((start, length))
    styles: dict[str, AreaStyle] = dict(zip(CAUSES, area_styles(), strict=False))
    _draw(ax, spans, styles)
    times, places = [float(issue.time) for issue in seen], [rows[issue.warp] for issue in seen]
    ax.plot(times, places, "|", color=ink(ax), markersize=max(1.5, MARKER * size), label="issue")


def _draw_subsystems(ax: Axes, seen: list[Issue], rows: Mapping[str, float], height: float) -> None:
    spans: Spans = defaultdict(list)
    number: dict[str, int] = defaultdict(int)
    for issue in seen:
        name, length = issue.instruction.subsystem, float(issue.free_again - issue.time)
        spans[rows[name], TAKEN[number[name] % 2]].append((float(issue.time), length))
        number[name] += 1
    # Two greys by turns: lines between short instructions would be all that is seen of them.
    greys = (AreaStyle(facecolor=shade, hatch="") for shade in ("0.35", "0.65"))
    _draw(ax, spans, dict(zip(TAKEN, greys, strict=True)), height)


def _draw(ax: Axes, spans: Spans, styles: Mapping[str, AreaStyle], height: float = 1.0) -> None:
    """Draw each row's areas, and name each sort of them once, in the order of *styles*."""
    named: set[str] = set()
    for sort, style in styles.items():
        for (row, found), pieces in spans.items():
            if found == sort:
                label = None if sort in named else sort
                ax.broken_barh(pieces, (row - 0.4 * height, 0.8 * height), **style, linewidth=0, label=label)
                named.add(sort)
