"""Plot performance against occupancy, and the start and finish of groups."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from loopyperf.errors import ParameterError
from loopyperf.explain.plots.figures import Axes, Figure, axes, ink, styles, ticker, with_legend
from loopyperf.pipeline import GroupTimes
from loopyperf.predict.compare import OccupancyComparison

Points = Sequence[tuple[float, float]]
"""points of (resident warps per core, performance)"""
DASHES = "--", ":", "-."
"""line styles of bounds"""


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
    :func:`loopyperf.compare_occupancies`: then there is a line for each model, in runs of the kernel per second. Later
    lines are thinner, so that all of several coinciding lines are visible. *measured* points are hollow, with the color
    and the marker of the line with the same name. *bounds* are horizontal dashed lines. The layout is that of Fig. 3 of
    Cornelis and Lemeire, and Fig. 2, 14 and 17 of Lemeire et al.

    :raises ParameterError: *lines* are points, and *ylabel* is missing.
    """
    # A user's unit may already have a prefix.
    scale = ticker.EngFormatter() if isinstance(lines, OccupancyComparison) else ticker.StrMethodFormatter("{x:,g}")
    if isinstance(lines, OccupancyComparison):
        lines, ylabel = lines.points, ylabel or "performance (runs/s)"
    if not ylabel:
        raise ParameterError("the points need a unit; pass ylabel, e.g. ylabel='Gflop/s'")
    drawn = axes(ax)
    known = measured or {}
    names = [name for name in {**lines, **known} if lines.get(name) or known.get(name)]
    for name, style in zip(names, styles(len(names)), strict=True):
        if line := lines.get(name):
            drawn.plot(*zip(*sorted(line), strict=True), **style, linewidth=style["markersize"] / 3, label=name)
        if points := known.get(name):
            label = None if line else f"{name}, measured"
            drawn.plot(*zip(*sorted(points), strict=True), **style, linestyle="none", fillstyle="none", label=label)
    if any(lines.get(name) for name in known):
        drawn.plot([], [], "o", color="grey", fillstyle="none", label="measured")
    for (name, bound), dash in zip((bounds or {}).items(), cycle(DASHES)):
        drawn.axhline(bound, color=ink(drawn), linestyle=dash, linewidth=1, label=name)
    drawn.set(xlabel=xlabel, ylabel=ylabel)
    drawn.set_xlim(left=0)
    drawn.set_ylim(bottom=0)
    drawn.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    drawn.yaxis.set_major_formatter(scale)
    return with_legend(drawn, grows=ax is None)


def plot_groups(groups: Mapping[int, GroupTimes] | Sequence[GroupTimes], *, ax: Axes | None = None) -> Figure:
    """Plot a bar for each group (y, its number), from its start to its finish (x, cycles).

    *groups* are the times of groups on one core, as :func:`loopyperf.pipeline.group_times` returns them, or a mapping
    from group numbers. Points on a bar are the milestones of a group, shares of its issued instructions; where they are
    close together, the group progressed quickly. The data are those of Dao et al., Fig. 5 to 8. Without groups, there
    are no bars.
    """
    groups = groups if isinstance(groups, Mapping) else {each.group: each for each in groups}
    drawn = axes(ax)
    starts = [float(each.start) for each in groups.values()]
    lengths = [float(each.finish - each.start) for each in groups.values()]
    drawn.barh(list(groups), lengths, left=starts, height=0.9, label="start to finish")
    reached = [(float(time), number) for number, each in groups.items() for time in each.milestones]
    if reached:
        label = "shares of its instructions issued"
        drawn.plot(*zip(*reached, strict=True), ".", color=ink(drawn), markersize=3, label=label)
    drawn.set(xlabel="time (cycles)", ylabel="group")
    drawn.yaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
    drawn.set_xlim(left=0)
    drawn.margins(y=0)
    drawn.invert_yaxis()
    return with_legend(drawn, grows=ax is None)
