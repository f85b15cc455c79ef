"""Chains of dependent arithmetic: 16 rounds of 16 steps on one value, by kind and type.

This measures latency: the time of an operation when nothing else of its work-item is in flight. On a GPU with many
warps, other warps fill the gaps and the time approaches that of maximum throughput; on a processor nothing does.

Counts per work-item: 256 steps, a multiplication for the initial value, a store. ``_steps_of_arithmetic.py`` has the
steps.
"""

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._rounds_of_arithmetic import configuration, fits
from ._steps_of_arithmetic import FLOATS

NAME = "dependent arithmetic"

STEPS = 16
"""steps of a round"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each kind and type in groups of 256, if the device supports them."""
    return [configuration(arithmetic, 1, STEPS) for arithmetic in FLOATS if fits(limits)]
