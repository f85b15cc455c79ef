"""Eight chains of arithmetic side by side in each work-item: 16 rounds of 2 steps on each value, by kind and type.

The throughput form: steps of different values do not wait for each other, and a processor's compiler may make vector
instructions of them. Sums over a chain alone (the paper's class of arithmetic operations) say too little of that: the
more independent a kernel's operations are, the less each takes.

Counts in each work-item: 256 steps, 8 multiplications for the first values, 7 additions, a store.
``_steps_of_arithmetic.py`` has the steps.
"""

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._rounds_of_arithmetic import configuration, fits
from ._steps_of_arithmetic import FLOATS

NAME = "independent arithmetic"

VALUES, STEPS = 8, 2
"""values of a work-item; steps of each in a round"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each kind and type, in groups of 256 if the device can hold them."""
    return [configuration(arithmetic, VALUES, STEPS) for arithmetic in FLOATS if fits(limits)]
