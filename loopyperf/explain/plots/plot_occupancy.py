"""Performance against occupancy: whether more warps at once would help, and from how many on they do not."""

from collections.abc import Collection, Mapping, Sequence
from math import isclose
from typing import Any

from loopyperf.errors import ParameterError
from loopyperf.explain.plots.figures import (
    COLORS,
    DASHES,
    POINTS,
    Axes,
    Figure,
    LineStyle,
    axes,
    figure_of,
    hollow,
    ink,
    legend_above,
    line_styles,
    ticker,
)
from loopyperf.explain.plots.plot_roofline import name_levels, names_in_lines
from loopyperf.pipeline import GroupTimes
from loopyperf.predict.compare import OccupancyComparison

Points = Sequence[tuple[float, float]]
"""concurrent warps of a core, performance"""
ALIKE = 0.005
"""relative difference of lines that look the same"""
THIN = 0.6
"""points that a line between measured points is wide"""


def plot_over_occupancy(
    lines: Mapping[str, Points] | OccupancyComparison,
    *,
    measured: Mapping[str, Points] | None = None,
    bounds: Mapping[str, float] | None = None,
    ylabel: str | None = None,
    xlabel: str = "concurrent warps of a core",
    ax: Axes | None = None,
) -> Figure:
    """Return a figure with a line for each of *lines*: performance (y) over the warps that are on a core at once (x).

    *lines* are points by name, or what :func:`loopyperf.compare_occupancies` returns: then they are of each model, and
    performance is told in runs of the kernel in a second. Else *ylabel* must name the performance and its unit. Lines
    that cannot be told apart are one, with all their names, unless there are measured points of them. What was
    *measured* is drawn as hollow points, in the colour of the line of the same name; where their marker comes a
    second time, thin dashes join them. *bounds*, what cannot be exceeded, are dashed. The layout is that of Fig. 3 of
    Cornelis and Lemeire, and Fig. 2, 14 and 17 of Lemeire et al.

    :raises ParameterError: *lines* are points, and no *ylabel* says of what.
    """
    # Units of one's own may have a prefix already.
    scale = ticker.EngFormatter() if isinstance(lines, OccupancyComparison) else ticker.StrMethodFormatter("{x:,g}")
    if isinstance(lines, OccupancyComparison):
        lines, ylabel = lines.points, ylabel or "performance (runs/s)"
    if not ylabel:
        raise ParameterError("points have no unit: say in ylabel what they are, for example ylabel='Gflop/s'")
    ax = axes(ax)
    known = measured or {}
    alike = _similar({name: line for name, line in lines.items() if line}, alone=known)
    names = [*alike, *(name for name in known if name not in alike)]
    for name, style in zip(names, line_styles(), strict=False):
        if name in alike:
            ax.plot(*_sorted(lines[name]), **style, markersize=4, label=", ".join(alike[name]))
        if known.get(name):
            label = None if lines.get(name) else f"{name}, measured"
            ax.plot(*_sorted(known[name]), **hollow(style), **_between_measured(style), label=label)
    if any(lines.get(name) for name in known):
        ax.plot([], [], "o", color="grey", fillstyle="none", label="measured")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    ax.set_xlim(left=0)
    if bounds:
        _draw_bounds(ax, bounds)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(scale)
    legend_above(ax)
    return figure_of(ax)


def _draw_bounds(ax: Axes, bounds: Mapping[str, float]) -> None:
    """Draw *bounds* up to where the lines end, with their names beyond, and a scale that ends there, too."""
    end = ax.get_xlim()[1]
    for bound in bounds.values():
        ax.plot([0, end], [bound, bound], color=ink(ax), linestyle="--", linewidth=1)
    names, share = names_in_lines(ax, list(bounds))
    name_levels(ax, dict(zip(names, bounds.values(), strict=True)), end)
    ax.set_xlim(0, end / (1 - share))
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= end])


def _between_measured(style: LineStyle) -> dict[str, Any]:
    """Return how measured points are joined: not at all; where their marker was used before, thinly, in own dashes."""
    is_first = style["linestyle"] == DASHES[0]
    return {"linestyle": "none"} if is_first else {"linestyle": style["linestyle"], "linewidth": THIN}


def _similar(lines: Mapping[str, Points], alone: Collection[str]) -> dict[str, list[str]]:
    """Return the first name of each line that is drawn -> all names of it; those *alone* are each a line of its own."""
    found: dict[str, list[str]] = {}
    for name, line in lines.items():
        drawn = (each for each in found if name not in alone and each not in alone and _is_similar(lines[each], line))
        found.setdefault(next(drawn, name), []).append(name)
    return found


def _is_similar(one: Points, other: Points) -> bool:
    first, second = sorted(one), sorted(other)
    return len(first) == len(second) and all(
        warps == others and isclose(found, seen, rel_tol=ALIKE)
        for (warps, found), (others, seen) in zip(first, second, strict=True)
    )


def _sorted(points: Points) -> tuple[list[float], list[float]]:
    ordered = sorted(points)
    return [warps for warps, _ in ordered], [found for _, found in ordered]


BAR = COLORS[5]
"""a dark one, on which points of either ink are seen"""
LARGEST = 3.0
"""points that a mark is wide where bars have room for it"""
GAP = 0.1
"""share of a row that is left free between bars, where it is a point at least: thinner gaps show at some rows only"""


def plot_groups(groups: Mapping[int, GroupTimes] | Sequence[GroupTimes], *, ax: Axes | None = None) -> Figure:
    """Return a figure with a bar for each group (y, its number), from its start to its finish (x, cycles).

    *groups* are the times of each, as :func:`loopyperf.pipeline.simulator` returns them for one core, or by its
    number. Shares of a group's instructions that were asked for are points on its
    bar: where they lie close together, it went quickly. The data are those of Dao et al., Fig. 5 to 8.
    Nothing is refused: without groups there is no bar.
    """
    groups = groups if isinstance(groups, Mapping) else {each.group: each for each in groups}
    ax = axes(ax)
    starts = [float(each.start) for each in groups.values()]
    room = POINTS * figure_of(ax).get_figheight() * ax.get_position().height / max(len(groups), 1)
    ax.barh(
        list(groups),
        [float(each.finish) - start for each, start in zip(groups.values(), starts, strict=True)],
        left=starts,
        height=1 - GAP if room * GAP >= 1 else 1,
        color=BAR,
        label="start to finish",
    )
    reached = [(float(time), number) for number, each in groups.items() for time in each.milestones]
    if reached:
        at, numbers = zip(*reached, strict=True)
        mark = min(LARGEST, room / 2)
        ax.plot(at, numbers, "o", color=ink(ax), markersize=mark, label="shares of its instructions issued")
        legend_above(ax)
    ax.set(xlabel="time (cycles)", ylabel="group")
    ax.yaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlim(left=0)
    if groups:
        ax.set_ylim(max(groups) + 0.5, min(groups) - 0.5)
    return figure_of(ax)
