"""What the marks of a roofline chart say under the pointer: their values, which the axes only let a reader guess."""

from matplotlib.artist import Artist

from loopyperf.models.on_device.roofs import LaunchUnderRoofs, Roofline
from loopyperf.plots.figures import Axes
from loopyperf.plots.roofline import mark_of, roofs_in_words
from loopyperf.units import duration, prefixed


def said_of_roofline(ax: Axes, roofline: Roofline) -> dict[Artist, str]:
    """Return what each roof and each launch of *roofline* says that is drawn on *ax*, by its marks."""
    launches = {mark_of("launch", number): _in_words(each) for number, each in enumerate(roofline.launches)}
    words = roofs_in_words(roofline) | launches
    return {mark: words[name] for mark in ax.get_children() if (name := mark.get_gid()) is not None and name in words}


def _in_words(launch: LaunchUnderRoofs) -> str:
    by_way_of = ", ".join(f"{each:.3g} flop/B by {memory}" for memory, each in launch.intensities.items())
    at_most = f"{prefixed(launch.performance, 'flop/s')} at most, {duration(launch.seconds)} at least"
    return f"{launch.name}: {at_most}; {by_way_of or 'nothing moved'}; bound: {launch.bound}"
