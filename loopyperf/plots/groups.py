"""When groups start and finish: the staircase of Dao, section 4."""

from collections.abc import Mapping, Sequence

from loopyperf.pipeline import GroupTimes
from loopyperf.plots.figures import Axes, Figure, axes, figure_of, legend_above, line_styles, ticker


def plot_groups(groups: Mapping[int, GroupTimes] | Sequence[GroupTimes], *, ax: Axes | None = None) -> Figure:
    """Return a figure with a bar for each group, from its start to its finish, in cycles.

    *groups* are the times of each, as :func:`loopyperf.pipeline.group_times` returns them for one core, or by its
    number. Shares of a group's instructions that were asked for are points on its
    bar: where they lie close together, it went quickly. The data are those of Dao et al., Fig. 5 to 8.
    """
    groups = groups if isinstance(groups, Mapping) else {each.group: each for each in groups}
    ax = axes(ax)
    styles = line_styles()
    bar, point = next(styles)["color"], next(styles)["color"]
    starts = [float(each.start) for each in groups.values()]
    ax.barh(
        list(groups),
        [float(each.finish) - start for each, start in zip(groups.values(), starts, strict=True)],
        left=starts,
        height=1,
        color=bar,
        label="start to finish",
    )
    reached = [(float(time), number) for number, each in groups.items() for time in each.milestones]
    if reached:
        at, numbers = zip(*reached, strict=True)
        ax.plot(at, numbers, "o", color=point, markersize=2, label="shares of its instructions issued")
        legend_above(ax)
    ax.set(xlabel="time (cycles)", ylabel="group")
    ax.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    ax.set_xlim(left=0)
    ax.invert_yaxis()
    return figure_of(ax)
