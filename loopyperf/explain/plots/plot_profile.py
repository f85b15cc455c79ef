"""Plot an execution profile as a timeline: the stalls of each warp, and the use of each subsystem."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from loopyperf.errors import ParameterError
from loopyperf.explain.plots.figures import Axes, Figure, axes, check_drawn, font_size, ink, with_legend
from loopyperf.pipeline.profiling import CAUSES, Issue, Profile
from loopyperf.pipeline.scenario import without_partition
from loopyperf.units import in_percent

WINDOW = 500
"""default number of drawn cycles"""
LABELS = 8
"""maximum number of labeled warps"""
FILLED = 0.8
"""share of a row's height that areas take"""
SHADES = {"subsystem in use": "0.4", "by the next instruction": "0.65"}
"""two alternating grays, because separating lines would hide short instructions"""
Row = tuple[float, float]
"""middle, height"""


def plot_profile(
    profile: Profile, *, begin: float | None = None, end: float | None = None, ax: Axes | None = None
) -> Figure:
    """Plot the timeline of a core (x, cycles) from *begin* to *end*.

    By default, it shows :data:`WINDOW` cycles in the middle of the run; with only *begin*, as many cycles from there;
    with only *end*, everything up to it.

    The upper part has a row for each warp: areas are its stalls (:data:`loopyperf.pipeline.profiling.CAUSES`), and
    ticks its issues. The lower part has a row for each subsystem that is used in the window: areas are the times in
    which it is in use, and its label has its utilization over the whole run. Equal subsystems such as "alu 0" to
    "alu 3" share one label. The layout is that of Lemeire, Fig. 8 and 9.

    :raises ParameterError: *profile* is not a profile, or the window is empty or starts before 0.
    """
    check_drawn(profile, Profile, "loopyperf.pipeline.profile_of, or a launch of loopyperf.trace")
    begin, end = _window(float(profile.cycles), begin, end)
    if not 0 <= begin < end and profile.issues:
        raise ParameterError(
            f"invalid window from {begin} to {end} cycles; choose begin < end within {float(profile.cycles):g} cycles"
        )
    drawn = axes(ax)
    seen = [issue for issue in profile.issues if _first(profile, issue) < end and issue.free_again > begin]
    warps = {warp: row for row, warp in enumerate(sorted({issue.warp for issue in seen}))}
    every = -(-len(warps) // LABELS)
    names = {float(row): f"warp {warp}" for warp, row in warps.items() if row % every == 0}
    used = {issue.instruction.subsystem for issue in seen if issue.time < end and issue.free_again > begin}
    alike: dict[str, list[str]] = defaultdict(list)
    for name in profile.scenario.subsystems:
        if name in used:
            alike[without_partition(name)].append(name)
    height = max(1.0, len(warps) / len(alike)) if alike else 1.0
    rows: dict[str, Row] = {}
    top = len(warps) - 0.5
    for name, each in alike.items():
        names[top + height / 2] = _label(name, each, profile)
        rows |= {one: (top + (place + 0.5) * height / len(each), height / len(each)) for place, one in enumerate(each)}
        top += height
    _draw_warps(drawn, profile, seen, warps)
    _draw_subsystems(drawn, [issue for issue in seen if issue.instruction.subsystem in rows], rows)
    drawn.axhline(len(warps) - 0.5, color=ink(drawn), linewidth=0.8)
    drawn.set_yticks(list(names), list(names.values()), fontsize=font_size(drawn))
    drawn.set(xlabel="time (cycles)", xlim=(begin, end), ylim=(top, -0.5))
    drawn.ticklabel_format(axis="x", style="plain", useOffset=False)
    return with_legend(drawn, grows=ax is None)


def _window(cycles: float, begin: float | None, end: float | None) -> tuple[float, float]:
    """Return the start and end of the window in a run of *cycles*, by default its middle."""
    if begin is None:
        begin = max(0.0, (cycles - WINDOW) // 2) if end is None else 0.0
    return begin, min(cycles, begin + WINDOW) if end is None else end


def _first(profile: Profile, issue: Issue) -> float:
    """Return the cycle at which *issue*, or the first of its stalls, begins."""
    return float(profile.scenario.clock.cycles(issue.waits[0].begin) if issue.waits else issue.time)


def _label(name: str, alike: Sequence[str], profile: Profile) -> str:
    """Return the label of equal subsystems, e.g. "4 × alu, 10 % to 20 % busy"."""
    fills = sorted(float(profile.fill[each]) for each in alike)
    shares = dict.fromkeys((in_percent(fills[0]), in_percent(fills[-1])))
    return f"{alike[0] if len(alike) == 1 else f'{len(alike)} × {name}'}, {' to '.join(shares)} busy"


def _draw_warps(ax: Axes, profile: Profile, seen: Sequence[Issue], rows: Mapping[int, int]) -> None:
    """Draw the stalls and the issues of warps."""
    clock = profile.scenario.clock
    spans: dict[tuple[str, Row], list[tuple[float, float]]] = defaultdict(list)
    for issue in seen:
        for wait in issue.waits:
            span = float(clock.cycles(wait.begin)), float(clock.cycles(wait.end - wait.begin))
            spans[wait.cause, (rows[issue.warp], 1.0)].append(span)
    _draw(ax, spans, {cause: f"C{number}" for number, cause in enumerate(CAUSES)})
    at, places = [float(issue.time) for issue in seen], [rows[issue.warp] for issue in seen]
    ax.plot(at, places, "|", color=ink(ax), markersize=4, markeredgewidth=0.7, label="issue")


def _draw_subsystems(ax: Axes, seen: Sequence[Issue], rows: Mapping[str, Row]) -> None:
    """Draw the times in which subsystems are in use."""
    spans: dict[tuple[str, Row], list[tuple[float, float]]] = defaultdict(list)
    number: dict[str, int] = defaultdict(int)
    for issue in seen:
        name = issue.instruction.subsystem
        label = list(SHADES)[number[name] % 2]
        spans[label, rows[name]].append((float(issue.time), float(issue.free_again - issue.time)))
        number[name] += 1
    _draw(ax, spans, SHADES)


def _draw(ax: Axes, spans: Mapping[tuple[str, Row], Sequence[tuple[float, float]]], colors: Mapping[str, str]) -> None:
    """Draw spans of (start, length) by label and row, and label each color once, in the order of *colors*."""
    named: set[str] = set()
    for (label, (middle, height)), pieces in sorted(spans.items(), key=lambda item: list(colors).index(item[0][0])):
        place = middle - FILLED * height / 2, FILLED * height
        shown = None if label in named else label
        ax.broken_barh(pieces, place, facecolor=colors[label], linewidth=0, label=shown)
        named.add(label)
