"""Shared parts of all plots: axes, styles and the legend."""

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import TypedDict

import numpy as np

from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.units import UNBROKEN, unbroken

try:
    from matplotlib import style as style
    from matplotlib import ticker as ticker
    from matplotlib.artist import Artist as Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
except ImportError as error:
    raise LoopyperfError(
        f"plots need matplotlib, which cannot be imported ({error}): pip install 'loopyperf[plots]'"
    ) from error

SIZE = 6.4, 4.0
"""width of a new figure, and its height without the legend, in inches"""
BESIDE = 1.25
"""ratio of the width of axes with labels to that without, before the layout is known"""
NARROW = 4.0
"""width of axes in inches, e.g. in one column of a page, up to which names are printed smaller"""
LETTERS = 6
"""characters in a line of a name per inch of the axes' width, so that two columns of a legend fit"""
MARKERS = "osD^vP<X>"
"""markers; their number and that of matplotlib's colors have no common divisor, so that 90 series differ"""
MARKER_SIZES = 7.0, 5.0
"""sizes of the first and of the last series' markers in points: markers at one point surround each other"""


class Style(TypedDict):
    """The color and marker of a series."""

    color: str
    marker: str
    markersize: float


def check_drawn(value: object, kind: type, whence: str) -> None:
    """Raise :class:`ParameterError` if *value* is not a *kind*; the message names its source, *whence*."""
    if not isinstance(value, kind):
        raise ParameterError(f"expected {kind.__name__} from {whence}, got {type(value).__name__}")


def axes(ax: Axes | None) -> Axes:
    """Return *ax*, or the axes of a new figure that is not registered with pyplot."""
    return Figure(figsize=SIZE, layout="constrained").subplots() if ax is None else ax


def figure_of(ax: Axes) -> Figure:
    """Return the figure that contains *ax*, directly or in a subfigure."""
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def ink(ax: Axes) -> str:
    """Return the color of the labels of *ax*: black on a light background, white on a dark one."""
    return str(ax.xaxis.label.get_color())


def styles(series: int) -> list[Style]:
    """Return the styles of a number of *series*, in the order in which they are drawn."""
    return [
        Style(color=f"C{number}", marker=MARKERS[number % len(MARKERS)], markersize=float(size))
        for number, size in enumerate(np.linspace(*MARKER_SIZES, series))
    ]


def width_of(ax: Axes) -> float:
    """Return the approximate width of *ax* with its labels, in inches."""
    return BESIDE * ax.get_window_extent().width / figure_of(ax).dpi


def font_size(ax: Axes) -> str:
    """Return the font size of names in *ax*."""
    return "small" if width_of(ax) > NARROW else "x-small"


def in_lines(ax: Axes, names: Iterable[str]) -> list[str]:
    """Return *names* wrapped for *ax*; numbers stay with their units."""
    letters = max(LETTERS, int(LETTERS * width_of(ax)))
    return [fill(unbroken(name), letters).replace(UNBROKEN, " ") for name in names]


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Label the rows 0, 1, ... of *ax* with *names*, the first on top."""
    ax.set_yticks(range(len(names)), in_lines(ax, names), fontsize=font_size(ax))
    ax.invert_yaxis()


def note(ax: Axes, words: str) -> None:
    """Add *words* to the legend of *ax* as an entry without a marker."""
    ax.plot([], [], linestyle="none", label=words)


def with_legend(ax: Axes, *, grows: bool) -> Figure:
    """Return the figure of *ax* with a legend above the axes, in as many columns as fit.

    If it *grows*, the height of the legend is added to that of the figure.
    """
    figure = figure_of(ax)
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return figure

    def drawn(columns: int) -> Legend:
        legend = ax.legend(
            handles,
            in_lines(ax, labels),
            # Anchored at the right end, because row names on the left leave room above them.
            loc="lower right",
            bbox_to_anchor=(1, 1),
            ncols=columns,
            columnspacing=1,
            handlelength=2.4,
            frameon=False,
            fontsize=font_size(ax),
        )
        for text in legend.get_texts():
            # In names of kernels and launches, $ must not start math.
            text.set_parse_math(False)
        return legend

    room = width_of(ax) * figure.dpi
    legend = drawn(max(1, int(room / drawn(1).get_window_extent().width)))
    if grows:
        figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)
    return figure
