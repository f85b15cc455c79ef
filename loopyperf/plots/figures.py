"""What all pictures share: where they are drawn, and what tells their lines apart."""

from collections.abc import Iterator
from itertools import cycle
from typing import TypedDict

from loopyperf.errors import LoopyperfError

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure
except ImportError as error:
    raise LoopyperfError(
        f"plots need matplotlib, which cannot be imported ({error}): pip install 'loopyperf[plots]'"
    ) from error

COLORS = "petroff10"
"""ten colours that people with any colour vision can tell apart (Petroff 2021, arXiv:2107.02270)"""
MARKERS = "osD^vPX<>*"
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "oo", "--", "++", "||", "**")
"""of areas that lie beside each other, so that they differ where all is grey"""
WIDTH, HEIGHT = 6.4, 4.0
"""inches"""
ENTRY = 1.7
"""inches that an entry of a legend takes"""


class AreaStyle(TypedDict):
    """How an area is filled: no two by their colour alone."""

    facecolor: str
    hatch: str


class LineStyle(TypedDict):
    """How a line is drawn: no two by their colour alone."""

    color: str
    marker: str


def axes(ax: Axes | None) -> Axes:
    """Return *ax*, or the axes of a new figure, which belongs to nobody but who asked for it."""
    if ax is not None:
        return ax
    return Figure(figsize=(WIDTH, HEIGHT), layout="constrained").subplots()


def figure_of(ax: Axes) -> Figure:
    """Return the figure that *ax* is in, or the one that its subfigure is in."""
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def line_styles() -> Iterator[LineStyle]:
    """Yield a style for each line, as long as there are any to draw."""
    for color, marker in zip(cycle(mpl.color_sequences[COLORS]), cycle(MARKERS), strict=False):
        yield LineStyle(color=to_hex(color), marker=marker)


def area_styles() -> Iterator[AreaStyle]:
    """Yield a style for each sort of areas, as long as there are any to draw."""
    for color, hatch in zip(cycle(mpl.color_sequences[COLORS]), cycle(HATCHES), strict=False):
        yield AreaStyle(facecolor=to_hex(color), hatch=hatch)


def ink(ax: Axes) -> str:
    """Return the colour of what is written on *ax*: black on a light ground, white on a dark one."""
    return to_hex(ax.xaxis.label.get_color())


def legend_above(ax: Axes) -> None:
    """Say what is what above *ax*, beside no data, in as many columns as there is room for; nothing if nothing is."""
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    figure = figure_of(ax)
    width = ax.get_position().width * figure.get_figwidth()
    longest = max(map(len, labels))
    columns = max(1, min(len(labels), int(width / max(ENTRY / 2, 0.45 + 0.075 * longest))))
    ax.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        frameon=False,
        fontsize="small",
        borderaxespad=0.2,
        columnspacing=1.0,
        handlelength=1.5,
    )
