"""Names of level lines, at their right ends: moved apart so far that none covers another, or a line."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backend_bases import RendererBase
from matplotlib.font_manager import FontProperties
from matplotlib.text import Annotation
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from loopyperf.plots.figures import POINTS, PRINTS, SHORTEST, Axes, figure_of, in_lines, ink

PRINT, LETTER, _ = PRINTS[1]
SHARE = 0.4
"""of the axes' width, at most, that names take before they go on in the next line"""
GAP = 8.0
"""points from the end of a line to its name"""
EDGE = 2.0
"""pixels between names and the frame"""


def names_in_lines(ax: Axes, names: Sequence[str]) -> tuple[list[str], float]:
    """Return *names* in lines that are short enough for *ax*, and what share of its width is to be kept for them."""
    width = ax.get_position().width * figure_of(ax).get_figwidth()
    lines = [in_lines(name, max(SHORTEST, int(width * SHARE / LETTER))) for name in names]
    longest = max((_width(line) for each in lines for line in each), default=0.0)
    share = (longest + 2 * GAP) / POINTS / width if longest else 0.0
    return ["\n".join(each) for each in lines], min(0.6, share)


def _width(line: str) -> float:
    """Return how wide *line* is in the print of names, in points."""
    return float(text_to_path.get_text_width_height_descent(line, FontProperties(size=PRINT), ismath=False)[0])


def name_levels(ax: Axes, levels: Mapping[str, float], end: float) -> dict[str, Annotation]:
    """Write the name of each of *levels*, heights of lines that reach up to *end* along x, to the right of it.

    Return what was written, by name.

    Both are in the units of the data. Where names have no room beside each other's lines, they are moved up and down,
    no farther than needed, and a thin line leads to each. Names stand in the order of their heights.
    """
    ordered = sorted(levels.items(), key=lambda item: item[1])
    names = {
        name: ax.annotate(
            name,
            (end, height),
            xytext=(GAP, 0),
            textcoords="offset points",
            va="center",
            fontsize=PRINT,
            arrowprops={"arrowstyle": "-", "color": ink(ax), "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0,
                        "relpos": (0, 0.5)},
        )
        for name, height in ordered
    }  # fmt: skip
    for each in names.values():
        each.set_in_layout(False)
    ax.add_artist(_Spread(list(names.values())))
    return names


def spread(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> NDArray[np.float64]:
    """Return the middles of pieces of these *sizes* from *low* to *high*, none over another, in the order given.

    *wanted* are where they would be best, in ascending order: the sum of the squares of what each is moved by is the
    least there is. Where they do not all have room, the last ones reach beyond *high*.
    """
    if not len(wanted):
        return np.array([])
    half = np.asarray(sizes, np.float64) / 2
    below = np.concatenate([[0.0], np.cumsum(half[1:] + half[:-1])])
    first = cast("NDArray[np.float64]", isotonic_regression(np.asarray(wanted, np.float64) - below).x)
    return np.clip(first, low + half[0], max(low + half[0], high - half[-1] - below[-1])) + below


class _Spread(Artist):
    """Moves names apart when they are about to be drawn: only then is it known how tall axes and letters are."""

    def __init__(self, names: Sequence[Annotation]) -> None:
        super().__init__()
        self.names = names
        self.set_zorder(0)
        self.set_in_layout(False)

    def draw(self, renderer: RendererBase) -> None:
        ax = self.axes
        if not isinstance(ax, Axes) or not self.names:
            return
        inside = ax.get_window_extent(renderer)
        at = [float(ax.transData.transform(each.xy)[1]) for each in self.names]
        sizes = [each.get_window_extent(renderer).height for each in self.names]
        places = spread(at, sizes, inside.y0 + EDGE, inside.y1 - EDGE)
        scale = POINTS / figure_of(ax).dpi
        for each, own, place in zip(self.names, at, places, strict=True):
            each.set_position((GAP, (place - own) * scale))
