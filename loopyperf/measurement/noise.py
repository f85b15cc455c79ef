"""How much the times of a device differ though it does the same, told by a kernel that is timed again and again.

A shared processor is slower while its neighbours work, a GPU once it has become warm: phases of milliseconds to
minutes, in which every run is slow and no minimum helps. The *yardstick* is a short kernel that always does the same.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from loopyperf.measurement.records import Measurement

USUAL = 25
"""percentile of the yardstick's times that is usual: a device may be slow for most of a campaign"""
WITHIN = (16, 84)
"""percentiles a standard deviation below and above the median, of what is distributed normally"""


def usual(seconds: Sequence[float]) -> float:
    """Return the seconds that the yardstick takes on a device that nothing slows down, from all that it took."""
    return float(np.percentile(seconds, USUAL))


def noise_floor(seconds: Sequence[float]) -> float | None:
    """Return the standard deviation of the yardstick's *seconds*, relative to their median; None for less than two.

    By quantiles, which a few outliers do not change: no model predicts times better than they repeat.
    """
    if len(seconds) < 2:
        return None
    low, middle, high = np.percentile(seconds, [WITHIN[0], 50, WITHIN[1]])
    return float((high - low) / 2 / middle)


def yardstick_times(measurements: Iterable[Measurement]) -> tuple[float, ...]:
    """Return the seconds of each time that the yardstick was taken, at the size that it was taken at last."""
    taken = [each for each in measurements if each.kind == "yardstick"]
    return tuple(min(each.samples) for each in taken if each.sizes == taken[-1].sizes)


def around(measurements: Iterable[Measurement]) -> tuple[float, ...]:
    """Return the seconds of the yardstick around each of *measurements*, the longer of before and after.

    Of the takes that stand, these tell how much what is fitted differs for the device's sake: what was measured in a
    slow phase and then again is not among them.
    """
    return tuple(each.yardstick for each in measurements if each.yardstick is not None)
