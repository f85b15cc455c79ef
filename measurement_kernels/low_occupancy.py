"""A device nearly empty: one group of 32 work-items, and one for each core, with a chain of additions or cached loads.

DOC
"""

from dataclasses import replace

from loopyperf.measurement.configuration import Configuration, Limits, doubling

from ._rounds_of_arithmetic import configuration
from ._steps_of_arithmetic import FLOATS
from .cached_loads import configurations as cached_loads
from .cached_loads import ladder

NAME = "low occupancy"

STEPS = 16
MOST = 2**16
"""rounds"""


def configurations(limits: Limits) -> list[Configuration]:
    """Return chains of additions in each type, and loads from a first-level cache, as far as the device can hold them."""
    chains = [
        replace(
            configuration(arithmetic, 1, STEPS),
            sizes=tuple({"groups": 1, "rounds": n} for n in doubling(at_least=16, multiple_of=1, at_most=MOST)),
        )
        for arithmetic in FLOATS
        if arithmetic.name.endswith("add")
    ]
    loads = [replace(one, label=f"loads, {one.label}", sizes=ladder(1, 16), further=()) for one in cached_loads(limits)]
    found = [*chains, *loads] if limits.group_size >= 256 else []
    return [replace(one, label=f"one group, {one.label}", steps=2, stride=3, beyond="occupancy") for one in found]
