"""What tells lines, points and areas apart: never their colour alone, and on a light ground as on a dark one."""

from collections.abc import Iterator, Sequence
from itertools import count, cycle
from typing import Literal, TypedDict

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


def points_of(style: PointStyle) -> PointStyle:
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
