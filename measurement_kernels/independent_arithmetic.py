"""Eight independent chains of arithmetic per work-item: 16 rounds of 2 steps on each value, by kind and type.

This measures throughput: steps of different values are independent, and a processor's compiler may combine them into
vector instructions. Sums over a single chain (the paper's class of arithmetic operations) do not show this: the more
independent operations a kernel has, the less time each takes.

Counts per work-item: 256 steps, 8 multiplications for the initial values, 7 additions, a store.
``_steps_of_arithmetic.py`` has the steps.
"""

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._rounds_of_arithmetic import configuration, fits
from ._steps_of_arithmetic import FLOATS

NAME = "independent arithmetic"

VALUES, STEPS = 8, 2
"""values per work-item, and steps on each per round"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each kind and type in groups of 256, if the device supports them."""
    return [configuration(arithmetic, VALUES, STEPS) for arithmetic in FLOATS if fits(limits)]
