"""Chains of arithmetic, each step waiting for the one before: 16 rounds of 16 steps on one value, by kind and type.

The latency form: what an operation takes where nothing else is under way in its work-item. On a GPU with many warps
other warps fill the gaps, and it comes near the throughput; on a processor nothing does.

Counts in each work-item: 256 steps, a multiplication for the first value, a store. ``_steps_of_arithmetic.py`` has
the steps.
"""

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._rounds_of_arithmetic import configuration, fits
from ._steps_of_arithmetic import FLOATS

NAME = "dependent arithmetic"

STEPS = 16
"""in a round"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each kind and type, in groups of 256 if the device can hold them."""
    return [configuration(arithmetic, 1, STEPS) for arithmetic in FLOATS if fits(limits)]
