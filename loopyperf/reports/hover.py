"""What the marks of a roofline chart say under the pointer: their values, which the axes only let a reader guess."""

from matplotlib.artist import Artist

from loopyperf.models.on_device.roofs import LaunchUnderRoofs
from loopyperf.plots.figures import Axes
from loopyperf.plots.roofline import Rooflines, launches_of, rooflines_by_name
from loopyperf.plots.roofs import mark_of, roofs_in_words
from loopyperf.units import duration, prefixed


def said_of_roofline(ax: Axes, roofline: Rooflines) -> dict[Artist, str]:
    """Return what each roof and each launch of *roofline* says, one or several, that is drawn on *ax*, by its marks."""
    points = launches_of(roofline)
    words = roofs_in_words(*rooflines_by_name(roofline).values())
    words |= {
        mark_of("launch", point.number): _in_words(point.name, point.launch, point.roofline.model) for point in points
    }
    return {mark: words[name] for mark in ax.get_children() if (name := mark.get_gid()) is not None and name in words}


def _in_words(name: str, launch: LaunchUnderRoofs, model: str) -> str:
    at_most = f"{prefixed(launch.attainable, 'flop/s')} at most, {duration(launch.seconds)} at least"
    predicted = "" if launch.predicted is None else f"; {duration(launch.predicted)} by {model}, {_reached(launch)}"
    by_way_of = ", ".join(f"{each:.3g} flop/B by {memory}" for memory, each in launch.intensities.items())
    return f"{name}: {at_most}{predicted}; {by_way_of or 'nothing moved'}; bound: {launch.bound}"


def _reached(launch: LaunchUnderRoofs) -> str:
    return f"{prefixed(launch.performance, 'flop/s')}, {launch.share_in_words}"
