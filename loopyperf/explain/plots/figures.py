"""What all pictures share: where they are drawn, and where names and legends have room."""

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
"""inches"""
PRINTS = (("small", 0.068, 0.17), ("x-small", 0.057, 0.14), ("xx-small", 0.048, 0.12))
"""sizes of print, each with the inches of a letter, and of a line"""
MARK = 7
"""letters that the mark before an entry of a legend takes, with the space around it"""
SHORTEST = 10
"""letters of a line of a name, whatever the width is"""
LETTER = 0.09
"""inches of a letter of what stands below the axes"""
POINTS = 72
"""of an inch"""
LONG = 8
"""entries of a legend from which on it is printed smaller"""
TALL = 0.3
"""of the figure's height: a legend that would be taller is printed smallest"""
NARROW = 4.0
"""inches: one column of a page"""
ROWS = (0.4, 0.55, 0.55)
"""shares of the width that the names of rows have, in each print"""
BESIDE = 1.25
"""times: how wide axes are with what stands beside them, before the layout is known"""


def check_drawn(value: object, kind: type, whence: str) -> None:
    """Raise :class:`ParameterError` for a *value* that is not of the *kind* that is drawn, and say *whence* one is."""
    if not isinstance(value, kind):
        raise ParameterError(f"what is drawn is {kind.__name__}, from {whence}; received {type(value).__name__}")


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


def ink(ax: Axes) -> str:
    """Return the colour of what is written on *ax*: black on a light ground, white on a dark one."""
    return to_hex(ax.xaxis.label.get_color())


def width_of(ax: Axes) -> float:
    """Return about how wide *ax* is with the names beside it, in inches."""
    return float(ax.get_position().width * figure_of(ax).get_figwidth() * BESIDE)


class _NameWrapper(TextWrapper):
    """Breaks names where a reader would: after an underscore or a hyphen, too."""

    wordsep_re = re.compile(r"([ \t\n]+|(?<=[_-])(?=\w))")


def in_lines(name: str, letters: int) -> list[str]:
    """Return *name* in lines of so many *letters* at most, one at least; a number stays beside its unit."""
    return [line.replace(UNBROKEN, " ") for line in _NameWrapper(letters).wrap(unbroken(name))] or [""]


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Write *names* beside the rows 0, 1 and so on of *ax*: in lines, and in smaller print where these have no room."""
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
    """Write *name* below *ax*, in as many lines as it takes."""
    ax.set_xlabel("\n".join(in_lines(name, int(width_of(ax) / LETTER))))


def legend_entry(ax: Axes, words: str) -> None:
    """Let the legend of *ax* say *words*, which are of the whole picture and of no mark in it."""
    ax.plot([], [], linestyle="none", label=words)


def legend_above(ax: Axes, note: str = "") -> None:
    """Say what is what above *ax*, over no data, in as many columns as there is room for; nothing if nothing is.

    A *note* of the whole picture stands over it.
    """
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    size, columns = legend_print(labels, width_of(ax), TALL * figure_of(ax).get_figheight())
    across = int(width_of(ax) / next(letter for name, letter, _ in PRINTS if name == size))
    letters = across // columns - MARK
    # From the right end, since to the left there may be the names of rows, above which there is room.
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
        # So large that hatches and dashes are recognised.
        handlelength=2.2,
        handleheight=1.0,
        title="\n".join(in_lines(note, across)),
        title_fontsize=size,
        alignment="left",
    )


def legend_print(labels: Sequence[str], width: float, height: float) -> tuple[str, int]:
    """Return the print and the columns of a legend that has a *width* in inches and should have a *height* at most."""
    entries = [len(label) + MARK for label in labels]
    first = int(len(labels) > LONG or width < NARROW)
    found = [(size, _columns(entries, int(width / letter)), line) for size, letter, line in PRINTS[first:]]
    fitting = (each for each in found if -(-len(labels) // each[1]) * each[2] <= height)
    size, columns, _ = next(fitting, found[-1])
    return size, columns


def _columns(entries: Sequence[int], letters: int) -> int:
    """Return in how many columns *entries*, so many letters long each, take no more than *letters*; at least one."""
    for columns in range(len(entries), 1, -1):
        if sum(int(column.max()) for column in np.array_split(entries, columns)) <= letters:
            return columns
    return 1


Fill = Literal["full", "none", "bottom", "left", "top", "right"]
Dash = str | tuple[int, tuple[float, ...]]

# The hues of Okabe and Ito, Color Universal Design (2008), whose yellow, orange and sky blue vanish on paper. Here all
# have a contrast of 3.2 at least with white, on which they lie in print, and with the dark ground of a report, where
# WCAG 2.1 (1.4.11) asks for 3. That leaves little room for lightness, so each was moved, within 20° of its hue, to
# where the nearest two are farthest apart in CIELAB as people see them who lack one sort of cones (Machado et al.
# 2009): 20, of the original ones 16. Light and dark ones take turns.
COLORS = ("#1198d9", "#bb3d1a", "#cd7b00", "#247954", "#b57e95", "#5c6792", "#8f9151")
SHADES = ("#6b6b6b", "#8f8f8f")
"""greys of the same contrasts, for areas that take turns"""
MARKERS = "osD^vPX<>*d"
FILLS: Sequence[Fill] = ("full", "none", "bottom", "left", "top")
"""of a mark: the second when all markers are used up, and so on"""
HALVES: Sequence[Fill] = ("full", "bottom", "left", "top", "right")
"""the same where a hollow mark says something of its own"""
DASHES: Sequence[Dash] = ("-", "--", "-.", ":", (0, (8, 2, 1, 2, 1, 2)))
"""of a line, likewise"""
HATCHES = (
    *("", "////", "....", "xxxx", "\\\\\\\\", "oo", "----", "++++", "||||", "**", "//.."),
    *("||||+", "xxoo", "----+", "OO", "//||", "--..", "\\\\--", "||..", "xx", "-O", "*O"),
)
"""of areas that lie beside each other"""


class PointStyle(TypedDict):
    """How a mark is drawn: no two of 55 by their colour alone."""

    color: str
    marker: str
    fillstyle: Fill


class LineStyle(PointStyle):
    """How a line is drawn, and the marks on it: no two of 55 by their colour alone."""

    linestyle: Dash


class AreaStyle(TypedDict):
    """How an area is filled: no two of 22 by their colour alone."""

    facecolor: str
    hatch: str
    edgecolor: str
    """of the hatching, too, which has the colours' contrast with white on any ground"""


def point_styles(fills: Sequence[Fill] = FILLS) -> Iterator[PointStyle]:
    """Yield a style for each sort of marks, as long as there are any to draw; none is hollow among :data:`HALVES`."""
    for number, color in zip(count(), cycle(COLORS)):
        turn, place = divmod(number, len(MARKERS))
        yield PointStyle(color=color, marker=MARKERS[place], fillstyle=fills[turn % len(fills)])


def marker_style(style: PointStyle) -> PointStyle:
    """Return the style of the marks on a line of *style*, without the line."""
    return PointStyle(color=style["color"], marker=style["marker"], fillstyle=style["fillstyle"])


def hollow(style: PointStyle) -> PointStyle:
    """Return the style of the hollow mark beside one of *style*."""
    return PointStyle(color=style["color"], marker=style["marker"], fillstyle="none")


def line_styles() -> Iterator[LineStyle]:
    """Yield a style for each line, as long as there are any to draw; no marks are hollow."""
    for number, style in enumerate(point_styles(HALVES)):
        yield LineStyle(**style, linestyle=DASHES[number // len(MARKERS) % len(DASHES)])


def area_styles() -> Iterator[AreaStyle]:
    """Yield a style for each sort of areas, as long as there are any to draw."""
    for color, hatch in zip(cycle(COLORS), cycle(HATCHES)):
        yield AreaStyle(facecolor=color, hatch=hatch, edgecolor="white")


def line_weights(ink: str) -> Iterator[tuple[str, float]]:
    """Yield the shade and the width in points of the lines of each device: the thicker, the paler, none in a hue.

    The first are in *ink*, the colour of what is written.
    """
    for number, shade in zip(count(1), cycle((ink, *SHADES))):
        yield shade, 0.25 + 0.75 * number
