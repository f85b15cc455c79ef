"""A nearly empty device: one group of 256 work-items, with a chain of additions or with loads from a first-level cache.

Only the group's own eight warps hide latencies, and only one core is busy. The unified model has no property for the
occupancy of a core or device, and the linear model is not fitted to this class. It is measured for models that have
one. ``dependent_arithmetic.py`` and ``cached_loads.py`` have the kernels.
"""

from dataclasses import replace

from loopyperf.measurement.environment import Configuration, DeviceLimits, doubling

from ._rounds_of_arithmetic import configuration, fits
from ._steps_of_arithmetic import FLOATS
from .cached_loads import ROWS, ladder
from .cached_loads import configurations as cached_loads
from .dependent_arithmetic import STEPS

NAME = "low occupancy"

MOST = 2**16
"""maximum number of rounds"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return chains of additions in each type, and cached loads, if the device supports groups of 256."""
    rounds = tuple({"groups": 1, "rounds": n} for n in doubling(at_least=16, multiple_of=1, at_most=MOST))
    additions = [arithmetic for arithmetic in FLOATS if arithmetic.name.endswith("add") and fits(limits)]
    chains = [replace(configuration(arithmetic, 1, STEPS), sizes=rounds) for arithmetic in additions]
    loads = [
        replace(one, label=f"cached loads, {one.label}", sizes=ladder(1, ROWS[0]), further=())
        for one in cached_loads(limits)
    ]
    return [replace(one, steps=2, stride=3, beyond="occupancy") for one in (*chains, *loads)]
