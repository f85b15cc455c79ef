"""Shared parts of all plots: axes, styles, and the layout of names and legends."""

import re
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from textwrap import TextWrapper
from typing import Literal, TypedDict

import numpy as np

from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.units import UNBROKEN, unbroken

try:
    from matplotlib import style as style
    from matplotlib import ticker as ticker
    from matplotlib.artist import Artist as Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure
except ImportError as error:
    raise LoopyperfError(
        f"plots need matplotlib, which cannot be imported ({error}): pip install 'loopyperf[plots]'"
    ) from error

WIDTH, HEIGHT = 6.4, 4.0
"""default size of a figure, in inches"""
PRINTS = (("small", 0.068, 0.17), ("x-small", 0.057, 0.14), ("xx-small", 0.048, 0.12))
"""font sizes, each with the width of a character and the height of a line in inches"""
MARK = 7
"""width of a legend marker with its padding, in characters"""
SHORTEST = 10
"""minimum line length of a wrapped name, in characters"""
LETTER = 0.09
"""width of a character of an axis label, in inches"""
POINTS = 72
"""points per inch"""
LONG = 8
"""number of legend entries above which the font is smaller"""
TALL = 0.3
"""share of the figure's height; a taller legend gets the smallest font"""
NARROW = 4.0
"""width of narrow axes in inches, e.g. in one column of a page"""
ROWS = (0.4, 0.55, 0.55)
"""shares of the width for row names, by font size"""
BESIDE = 1.25
"""ratio of the width of axes with labels to that without, before the layout is known"""


def check_drawn(value: object, kind: type, whence: str) -> None:
    """Raise :class:`ParameterError` if *value* is not a *kind*; the message names its source, *whence*."""
    if not isinstance(value, kind):
        raise ParameterError(f"expected {kind.__name__} from {whence}, got {type(value).__name__}")


def axes(ax: Axes | None) -> Axes:
    """Return *ax*, or the axes of a new figure that is not registered with pyplot."""
    if ax is not None:
        return ax
    return Figure(figsize=(WIDTH, HEIGHT), layout="constrained").subplots()


def figure_of(ax: Axes) -> Figure:
    """Return the figure that contains *ax*, directly or in a subfigure."""
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def ink(ax: Axes) -> str:
    """Return the text color of *ax*: black on a light background, white on a dark one."""
    return to_hex(ax.xaxis.label.get_color())


def width_of(ax: Axes) -> float:
    """Return the approximate width of *ax* with its labels, in inches."""
    return float(ax.get_position().width * figure_of(ax).get_figwidth() * BESIDE)


class _NameWrapper(TextWrapper):
    """Wraps names also after underscores and hyphens."""

    wordsep_re = re.compile(r"([ \t\n]+|(?<=[_-])(?=\w))")


def in_lines(name: str, letters: int) -> list[str]:
    """Return *name* wrapped to *letters* characters, at least one line; numbers stay with their units."""
    return [line.replace(UNBROKEN, " ") for line in _NameWrapper(letters).wrap(unbroken(name))] or [""]


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Label the rows 0, 1, ... of *ax* with *names*, wrapped and in a smaller font if necessary."""
    height = ax.get_position().height * figure_of(ax).get_figheight() / max(1, len(names))
    lines: list[list[str]] = []
    for (size, letter, line), share in zip(PRINTS, ROWS, strict=True):
        lines = [in_lines(name, max(12, int(width_of(ax) * share / letter))) for name in names]
        ax.set_yticks(range(len(names)), ["\n".join(each) for each in lines], fontsize=size)
        if max(map(len, lines), default=1) * line <= height:
            return
    room = max(1, int(height / PRINTS[-1][2]))
    short = [each if len(each) <= room else [*each[: room - 1], f"{each[room - 1][:-1]}…"] for each in lines]
    ax.set_yticks(range(len(names)), ["\n".join(each) for each in short], fontsize=PRINTS[-1][0])


def name_along(ax: Axes, name: str) -> None:
    """Label the x-axis of *ax* with *name*, wrapped to its width."""
    ax.set_xlabel("\n".join(in_lines(name, int(width_of(ax) / LETTER))))


def legend_entry(ax: Axes, words: str) -> None:
    """Add *words* to the legend of *ax* as an entry without a marker."""
    ax.plot([], [], linestyle="none", label=words)


def legend_above(ax: Axes, note: str = "") -> None:
    """Draw the legend above *ax*, in as many columns as fit, with *note* as its title; nothing without entries."""
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    size, columns = legend_print(labels, width_of(ax), TALL * figure_of(ax).get_figheight())
    across = int(width_of(ax) / next(letter for name, letter, _ in PRINTS if name == size))
    letters = across // columns - MARK
    # Anchored at the right end, because row names on the left leave room above them.
    ax.legend(
        handles,
        ["\n".join(in_lines(label, max(letters, SHORTEST))) if columns == 1 else label for label in labels],
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=columns,
        frameon=False,
        fontsize=size,
        borderaxespad=0.2,
        columnspacing=1.0,
        # Large enough for hatches and dashes to be recognizable.
        handlelength=2.2,
        handleheight=1.0,
        title="\n".join(in_lines(note, across)),
        title_fontsize=size,
        alignment="left",
    )


def legend_print(labels: Sequence[str], width: float, height: float) -> tuple[str, int]:
    """Return the font size and number of columns of a legend of *width* inches and at most *height* inches."""
    entries = [len(label) + MARK for label in labels]
    first = int(len(labels) > LONG or width < NARROW)
    found = [(size, _columns(entries, int(width / letter)), line) for size, letter, line in PRINTS[first:]]
    fitting = (each for each in found if -(-len(labels) // each[1]) * each[2] <= height)
    size, columns, _ = next(fitting, found[-1])
    return size, columns


def _columns(entries: Sequence[int], letters: int) -> int:
    """Return the number of columns, at least one, in which *entries* (lengths) fit in *letters* characters."""
    for columns in range(len(entries), 1, -1):
        if sum(int(column.max()) for column in np.array_split(entries, columns)) <= letters:
            return columns
    return 1


Fill = Literal["full", "none", "bottom", "left", "top", "right"]
Dash = str | tuple[int, tuple[float, ...]]

# The hues of Okabe and Ito, Color Universal Design (2008), whose yellow, orange and sky blue are too pale on paper. All
# colors here have a contrast of at least 3.2 with white and with the dark background of a report; WCAG 2.1 (1.4.11)
# requires 3. That constrains the lightness, so each color was moved, within 20° of its hue, to maximize the smallest
# distance in CIELAB as seen by people who lack one type of cones (Machado et al., 2009): it is 20, and 16 for the
# original colors. Light and dark colors alternate.
COLORS = ("#1198d9", "#bb3d1a", "#cd7b00", "#247954", "#b57e95", "#5c6792", "#8f9151")
SHADES = ("#6b6b6b", "#8f8f8f")
"""grays of the same contrasts, for alternating areas"""
MARKERS = "osD^vPX<>*d"
FILLS: Sequence[Fill] = ("full", "none", "bottom", "left", "top")
"""fill styles of markers; the next one is used after all markers"""
HALVES: Sequence[Fill] = ("full", "bottom", "left", "top", "right")
"""fill styles if hollow markers have their own meaning"""
DASHES: Sequence[Dash] = ("-", "--", "-.", ":", (0, (8, 2, 1, 2, 1, 2)))
"""dash styles of lines, used in the same way"""
HATCHES = (
    *("", "////", "....", "xxxx", "\\\\\\\\", "oo", "----", "++++", "||||", "**", "//.."),
    *("||||+", "xxoo", "----+", "OO", "//||", "--..", "\\\\--", "||..", "xx", "-O", "*O"),
)
"""hatches of adjacent areas"""


class PointStyle(TypedDict):
    """The style of a marker; no two of the first 55 differ only in color."""

    color: str
    marker: str
    fillstyle: Fill


class LineStyle(PointStyle):
    """The style of a line and its markers; no two of the first 55 differ only in color."""

    linestyle: Dash


class AreaStyle(TypedDict):
    """The style of an area; no two of the first 22 differ only in color."""

    facecolor: str
    hatch: str
    edgecolor: str
    """color of edge and hatching, which contrasts with all face colors"""


def point_styles(fills: Sequence[Fill] = FILLS) -> Iterator[PointStyle]:
    """Yield an endless sequence of marker styles; with :data:`HALVES`, none is hollow."""
    for number, color in zip(count(), cycle(COLORS)):
        turn, place = divmod(number, len(MARKERS))
        yield PointStyle(color=color, marker=MARKERS[place], fillstyle=fills[turn % len(fills)])


def marker_style(style: PointStyle) -> PointStyle:
    """Return the marker style of a line *style*."""
    return PointStyle(color=style["color"], marker=style["marker"], fillstyle=style["fillstyle"])


def hollow(style: PointStyle) -> PointStyle:
    """Return the hollow variant of a marker *style*."""
    return PointStyle(color=style["color"], marker=style["marker"], fillstyle="none")


def line_styles() -> Iterator[LineStyle]:
    """Yield an endless sequence of line styles, without hollow markers."""
    for number, style in enumerate(point_styles(HALVES)):
        yield LineStyle(**style, linestyle=DASHES[number // len(MARKERS) % len(DASHES)])


def area_styles() -> Iterator[AreaStyle]:
    """Yield an endless sequence of area styles."""
    for color, hatch in zip(cycle(COLORS), cycle(HATCHES)):
        yield AreaStyle(facecolor=color, hatch=hatch, edgecolor="white")


def line_weights(ink: str) -> Iterator[tuple[str, float]]:
    """Yield the shade and the width in points of each device's lines: thicker lines are paler, all without hue.

    The first shade is *ink*, the text color.
    """
    for number, shade in zip(count(1), cycle((ink, *SHADES))):
        yield shade, 0.25 + 0.75 * number
