"""Plot performance against occupancy, and the start and finish of groups."""

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
"""points of (resident warps per core, performance)"""
ALIKE = 0.005
"""relative difference up to which two lines look the same"""
THIN = 0.6
"""width of a line between measured points, in points"""


def plot_over_occupancy(
    lines: Mapping[str, Points] | OccupancyComparison,
    *,
    measured: Mapping[str, Points] | None = None,
    bounds: Mapping[str, float] | None = None,
    ylabel: str | None = None,
    xlabel: str = "resident warps per core",
    ax: Axes | None = None,
) -> Figure:
    """Plot performance (y) against the resident warps per core (x), with one line for each of *lines*.

    *lines* maps names to points, and *ylabel* names the performance and its unit. Or *lines* is the result of
    :func:`loopyperf.compare_occupancies`: then there is a line for each model, in runs of the kernel per second. Lines
    that look the same are drawn as one, with all their names, unless they have measured points. *measured* points are
    hollow and have the color of the line with the same name; where a marker repeats, thin dashes join them. *bounds*
    are dashed upper bounds. The layout is that of Fig. 3 of Cornelis and Lemeire, and Fig. 2, 14 and 17 of Lemeire et
    al.

    :raises ParameterError: *lines* are points, and *ylabel* is missing.
    """
    # A user's unit may already have a prefix.
    scale = ticker.EngFormatter() if isinstance(lines, OccupancyComparison) else ticker.StrMethodFormatter("{x:,g}")
    if isinstance(lines, OccupancyComparison):
        lines, ylabel = lines.points, ylabel or "performance (runs/s)"
    if not ylabel:
        raise ParameterError("the points need a unit; pass ylabel, e.g. ylabel='Gflop/s'")
    ax = axes(ax)
    known = measured or {}
    merged = _similar({name: line for name, line in lines.items() if line}, alone=known)
    names = [*merged, *(name for name in known if name not in merged)]
    for name, style in zip(names, line_styles(), strict=False):
        if name in merged:
            ax.plot(*_sorted(lines[name]), **style, markersize=4, label=", ".join(merged[name]))
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
    """Draw *bounds* up to the end of the lines, with their names to the right, where the axis has no ticks."""
    end = ax.get_xlim()[1]
    for bound in bounds.values():
        ax.plot([0, end], [bound, bound], color=ink(ax), linestyle="--", linewidth=1)
    names, share = names_in_lines(ax, list(bounds))
    name_levels(ax, dict(zip(names, bounds.values(), strict=True)), end)
    ax.set_xlim(0, end / (1 - share))
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= end])


def _between_measured(style: LineStyle) -> dict[str, Any]:
    """Return the line style between measured points: none, or thin dashes if their marker was used before."""
    is_first = style["linestyle"] == DASHES[0]
    return {"linestyle": "none"} if is_first else {"linestyle": style["linestyle"], "linewidth": THIN}


def _similar(lines: Mapping[str, Points], alone: Collection[str]) -> dict[str, list[str]]:
    """Return the names of each drawn line by its first name; lines in *alone* are not merged with others."""
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
"""a dark color, on which points of either text color are visible"""
LARGEST = 3.0
"""maximum size of a marker, in points"""
GAP = 0.1
"""gap between bars as a share of a row; used only if it is at least one point, because thinner gaps look uneven"""


def plot_groups(groups: Mapping[int, GroupTimes] | Sequence[GroupTimes], *, ax: Axes | None = None) -> Figure:
    """Plot a bar for each group (y, its number), from its start to its finish (x, cycles).

    *groups* are the times of groups on one core, as :func:`loopyperf.pipeline.group_times` returns them, or a mapping
    from group numbers. Points on a bar are the milestones of a group, shares of its issued instructions; where they are
    close together, the group progressed quickly. The data are those of Dao et al., Fig. 5 to 8. Without groups, there
    are no bars.
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
