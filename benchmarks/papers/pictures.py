"""Plots of the papers' figures from simulated rows, with one panel for each panel of the papers."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import cycle
from typing import Any

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopyperf.explain.plots import styles, with_legend
from loopyperf.pipeline import GroupTimes
from loopyperf.pipeline.profiling import CAUSES, Profile

Row = dict[str, Any]
Points = Sequence[tuple[float, float]]
"""points of (resident warps per core, performance)"""
PANEL = 4.2, 3.2
"""inches"""
SHADES = "0.4", "0.65"
"""two alternating grays, because separating lines would hide short instructions"""


# {{{ kinds of plots


def plot_over_occupancy(
    lines: Mapping[str, Points],
    *,
    ylabel: str,
    xlabel: str = "resident warps per core",
    ax: Axes | None = None,
    measured: Mapping[str, Points] | None = None,
    bounds: Mapping[str, float] | None = None,
) -> Figure:
    """Plot performance (y) against the resident warps per core (x), with one line for each of *lines*.

    It draws on *ax*, or on a new figure. Later lines are thinner, so that all of several coinciding lines are visible.
    *measured* points are hollow, with the color and the marker of the line with the same name. *bounds* are horizontal
    dashed lines.
    """
    ax = Figure(figsize=(6.4, 4.4), layout="constrained").subplots() if ax is None else ax
    for (name, line), style in zip(lines.items(), styles(len(lines)), strict=True):
        ax.plot(*zip(*sorted(line), strict=True), **style, linewidth=style["markersize"] / 3, label=name)
        if points := (measured or {}).get(name):
            ax.plot(*zip(*sorted(points), strict=True), **style, linestyle="none", fillstyle="none")
    if measured:
        ax.plot([], [], "o", color="grey", fillstyle="none", label="measured")
    for (name, bound), dash in zip((bounds or {}).items(), cycle(("--", ":", "-."))):
        ax.axhline(bound, color="black", linestyle=dash, linewidth=1, label=name)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,g}"))
    return with_legend(ax, grows=False)


def plot_groups(groups: Mapping[int, GroupTimes], *, ax: Axes) -> Figure:
    """Plot a bar for each group (y, its number), from its start to its finish (x, cycles), with its milestones."""
    starts = [float(each.start) for each in groups.values()]
    lengths = [float(each.finish - each.start) for each in groups.values()]
    ax.barh(list(groups), lengths, left=starts, height=0.9, label="start to finish")
    reached = [(float(time), number) for number, each in groups.items() for time in each.milestones]
    label = "shares of its instructions issued"
    ax.plot(*zip(*reached, strict=True), ".", color="black", markersize=3, label=label)
    ax.set(xlabel="time (cycles)", ylabel="group")
    ax.yaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlim(left=0)
    ax.margins(y=0)
    ax.invert_yaxis()
    return with_legend(ax, grows=False)


def plot_profile(profile: Profile, *, ax: Axes) -> Figure:
    """Plot the timeline of a core (x, cycles), as Lemeire, Fig. 8 and 9.

    The upper part has a row for each warp: areas are its stalls, and ticks its issues. The lower part has a row for
    each subsystem: areas are the times in which it is in use.
    """
    warps = {warp: row for row, warp in enumerate(sorted({issue.warp for issue in profile.issues}))}
    rows = {name: len(warps) + place for place, name in enumerate(profile.scenario.subsystems)}
    clock = profile.scenario.clock
    for number, cause in enumerate(CAUSES):
        waits = [(issue.warp, wait) for issue in profile.issues for wait in issue.waits if wait.cause == cause]
        for warp, wait in waits:
            span = float(clock.cycles(wait.begin)), float(clock.cycles(wait.end - wait.begin))
            ax.broken_barh([span], (warps[warp] - 0.4, 0.8), facecolor=f"C{number}", linewidth=0)
        if waits:
            ax.barh([], [], color=f"C{number}", label=cause)
    for name, row in rows.items():
        used = [issue for issue in profile.issues if issue.instruction.subsystem == name]
        for number, issue in enumerate(used):
            span = float(issue.time), float(issue.free_again - issue.time)
            ax.broken_barh([span], (row - 0.4, 0.8), facecolor=SHADES[number % 2], linewidth=0)
    at, places = [float(issue.time) for issue in profile.issues], [warps[issue.warp] for issue in profile.issues]
    ax.plot(at, places, "|", color="black", markersize=4, markeredgewidth=0.7, label="issue")
    ax.axhline(len(warps) - 0.5, color="black", linewidth=0.8)
    ax.set_yticks([*warps.values(), *rows.values()], [*(f"warp {warp}" for warp in warps), *rows], fontsize="small")
    ax.set(xlabel="time (cycles)", xlim=(0, float(profile.cycles)), ylim=(len(warps) + len(rows) - 0.5, -0.5))
    return with_legend(ax, grows=False)


# }}}


def by(rows: Iterable[Row], *columns: str) -> dict[str, list[Row]]:
    """Return the rows grouped by the values in *columns*."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[", ".join(str(row[column]) for column in columns)].append(row)
    return found


def panels(parts: Mapping[str, Any], columns: int, draw: Callable[..., object]) -> Figure:
    """Return a figure with a panel for each part, *columns* per row, drawn by *draw*, with the title below."""
    lines = -(-len(parts) // columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * lines), layout="constrained")
    for (title, part), ax in zip(parts.items(), figure.subplots(lines, columns, squeeze=False).flat, strict=False):
        draw(part, ax=ax)
        ax.set_xlabel(f"{title}: {ax.get_xlabel()}")
    return figure


def products(rows: Sequence[Row]) -> Figure:
    """Return Fig. 3 of Cornelis and Lemeire."""

    def draw(part: Sequence[Row], ax: Axes) -> None:
        lines = {
            f"{conflicts} conflicts": _points(each, "Gflop/s") for conflicts, each in by(part, "conflicts").items()
        }
        plot_over_occupancy({name.replace("yes ", ""): line for name, line in lines.items()}, ylabel="Gflop/s", ax=ax)

    return panels(by(rows, "gpu", "group"), 2, draw)


def example(rows: Sequence[Row]) -> Figure:
    """Return Fig. 2 and 14 of Lemeire et al."""

    def draw(part: Sequence[Row], ax: Axes) -> None:
        lines = {model: _points(each, "warps/cycle") for model, each in by(part, "model").items()}
        plot_over_occupancy(lines, bounds={"roofline": 0.25}, ylabel="warps per cycle", ax=ax)

    return panels({f"Fig. {name}": part for name, part in by(rows, "figure").items()}, 2, draw)


def rounds(rows: Sequence[Row]) -> Figure:
    """Return Fig. 16 of Lemeire et al., with a third GPU added."""

    def draw(part: Sequence[Row], ax: Axes) -> None:
        lines = {f"groups of {n} warps": _points(each, "computations/cycle") for n, each in by(part, SIZE).items()}
        plot_over_occupancy(lines, ylabel="computations per cycle", ax=ax)

    return panels(by(rows, "gpu"), 3, draw)


def stairs(rows: Sequence[Row]) -> Figure:
    """Return Fig. 5a, 6a, 6b and 8 of Dao et al., for both assumptions about which instructions block a warp."""

    def draw(part: Sequence[Row], ax: Axes) -> None:
        plot_groups({row["group"]: _times(row) for row in part}, ax=ax)

    return panels(by(rows, "figure", "blocks"), 5, draw)


SIZE = "warps of a group"
PICTURES: dict[str, Callable[[Sequence[Row]], Figure]] = {
    "cornelis-3": products,
    "lemeire-2-and-14": example,
    "lemeire-16": rounds,
    "dao-5-to-8": stairs,
}


def _points(rows: Sequence[Row], column: str) -> list[tuple[float, float]]:
    return [(row["warps"], row[column]) for row in rows]


def _times(row: Row) -> GroupTimes:
    moments = tuple(Fraction(moment) for name, moment in row.items() if name.endswith("%"))
    return GroupTimes(row["group"], Fraction(row["start"]), moments, Fraction(row["finish"]))
