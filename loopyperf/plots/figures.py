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
WIDTH, HEIGHT = 6.4, 4.0
"""inches"""


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
