"""The execution profile as a timeline: what each warp waits for, and how each subsystem fills."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

from loopyperf.errors import ParameterError
from loopyperf.pipeline.profile import CAUSES, Issue, Profile
from loopyperf.plots.figures import AreaStyle, Axes, Figure, area_styles, axes, figure_of, ink, legend_above

WINDOW = 500
"""cycles that are drawn, unless others are asked for"""
LABELS = 16
"""warps that are numbered beside their rows, at most"""
TAKEN = ("subsystem taken", "by the next instruction")
Spans = dict[tuple[int, str], list[tuple[float, float]]]
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
    subsystems = {name: len(rows) + number for number, name in enumerate(profile.scenario.subsystems)}
    if is_in_order:
        _draw_warps(ax, profile, seen, rows)
    _draw_subsystems(ax, seen, subsystems)
    step = -(-len(rows) // LABELS) or 1
    ticks = {row: f"warp {warp}" for warp, row in islice(rows.items(), 0, None, step)}
    ticks |= {row: f"{name}, {float(profile.fill[name]):.0%} full" for name, row in subsystems.items()}
    ax.set_yticks(list(ticks), list(ticks.values()), fontsize="small")
    if rows:
        ax.axhline(len(rows) - 0.5, color=ink(ax), linewidth=0.8)
    ax.set(xlabel="time (cycles)", xlim=(begin, last), ylim=(len(rows) + len(subsystems) - 0.5, -0.5))
    legend_above(ax)
    return figure_of(ax)


def _overlaps(profile: Profile, issue: Issue, begin: float, end: float) -> bool:
    """Return whether *issue*, or what it waited for, is seen."""
    clock = profile.scenario.clock
    first = clock.cycles(issue.waits[0].begin) if issue.waits else issue.time
    return first < end and issue.free_again > begin


def _draw_warps(ax: Axes, profile: Profile, seen: list[Issue], rows: Mapping[int, int]) -> None:
    clock = profile.scenario.clock
    spans: Spans = defaultdict(list)
    for issue in seen:
        for wait in issue.waits:
            start, length = float(clock.cycles(wait.begin)), float(clock.cycles(wait.end - wait.begin))
            spans[rows[issue.warp], wait.cause].append((start, length))
    styles: dict[str, AreaStyle] = dict(zip(CAUSES, area_styles(), strict=False))
    _draw(ax, spans, styles)
    times, places = [float(issue.time) for issue in seen], [rows[issue.warp] for issue in seen]
    ax.plot(times, places, "|", color=ink(ax), markersize=5, label="issue")


def _draw_subsystems(ax: Axes, seen: list[Issue], rows: Mapping[str, int]) -> None:
    spans: Spans = defaultdict(list)
    number: dict[str, int] = defaultdict(int)
    for issue in seen:
        name, length = issue.instruction.subsystem, float(issue.free_again - issue.time)
        spans[rows[name], TAKEN[number[name] % 2]].append((float(issue.time), length))
        number[name] += 1
    # Two greys by turns: lines between short instructions would be all that is seen of them.
    _draw(ax, spans, {TAKEN[0]: AreaStyle(facecolor="0.35", hatch=""), TAKEN[1]: AreaStyle(facecolor="0.65", hatch="")})


def _draw(ax: Axes, spans: Spans, styles: Mapping[str, AreaStyle]) -> None:
    """Draw each row's areas, and name each sort of them once, in the order of *styles*."""
    named: set[str] = set()
    for sort, style in styles.items():
        for (row, found), pieces in spans.items():
            if found == sort:
                label = None if sort in named else sort
                ax.broken_barh(pieces, (row - 0.4, 0.8), **style, linewidth=0, label=label)
                named.add(sort)
