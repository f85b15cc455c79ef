"""When groups start and finish: the staircase of Dao, section 4."""

from collections.abc import Mapping, Sequence

from loopyperf.pipeline import GroupTimes
from loopyperf.plots.figures import POINTS, Axes, Figure, axes, figure_of, ink, legend_above, ticker
from loopyperf.plots.styles import COLORS

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
