"""What the marks of a roofline chart say under the pointer: their values, which the axes only let a reader guess."""

from collections.abc import Iterator

import numpy as np
from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from loopyperf.models.on_device.roofs import LaunchUnderRoofs, Roofline
from loopyperf.plots.figures import Axes
from loopyperf.units import duration, prefixed

Saying = tuple[Artist, str]
"""a mark, and its words"""


def said_of_roofline(ax: Axes, roofline: Roofline) -> dict[Artist, str]:
    """Return what each roof and each launch of *roofline* says that is drawn on *ax*, by its marks."""
    return dict([*_of_slopes(ax, roofline), *_of_levels(ax, roofline), *_of_launches(ax, roofline)])


def _of_slopes(ax: Axes, roofline: Roofline) -> Iterator[Saying]:
    """Yield the memories, whose lines are called by what they say."""
    named = {f"{memory}, {prefixed(each, 'B/s')}" for memory, each in roofline.bandwidths.items()}
    yield from ((line, str(line.get_label())) for line in ax.lines if line.get_label() in named)


def _of_levels(ax: Axes, roofline: Roofline) -> Iterator[Saying]:
    """Yield the peaks: their lines, and the names at the ends of these, which are easier to hit."""
    for height, names in _peaks(roofline).items():
        words = f"{' and '.join(names)}, {height}"
        peaks = {roofline.peaks[name] for name in names}
        lines = (line for line in ax.lines if line.get_linestyle() == "-" and _heights(line) <= peaks)
        yield from ((line, words) for line in lines)
        yield from ((text, words) for text in ax.texts if isinstance(text, Annotation) and text.xy[1] in peaks)


def _peaks(roofline: Roofline) -> dict[str, list[str]]:
    """Return the peaks that look the same together, as the chart names them."""
    found: dict[str, list[str]] = {}
    for name, peak in roofline.peaks.items():
        found.setdefault(prefixed(peak, "flop/s"), []).append(name)
    return found


def _of_launches(ax: Axes, roofline: Roofline) -> Iterator[Saying]:
    """Yield the launches: the point that is in the legend, and what is drawn in its colour at the same height."""
    labelled = {line.get_label(): line for line in ax.lines}
    for launch in roofline.launches:
        point = labelled.get(f"{launch.name}, bound: {launch.bound}") if launch.flops else None
        if point is None:
            continue
        for line in ax.lines:
            if line.get_color() == point.get_color() and _heights(line) == {launch.performance}:
                yield line, _in_words(launch)


def _heights(line: Line2D) -> set[float]:
    return {float(each) for each in np.asarray(line.get_ydata(), np.float64)}


def _in_words(launch: LaunchUnderRoofs) -> str:
    by_way_of = ", ".join(f"{each:.3g} flop/B by {memory}" for memory, each in launch.intensities.items())
    at_most = f"{prefixed(launch.performance, 'flop/s')} at most, {duration(launch.seconds)} at least"
    return f"{launch.name}: {at_most}; {by_way_of or 'nothing moved'}; bound: {launch.bound}"
