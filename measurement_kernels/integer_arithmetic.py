"""Integer multiplications and additions, in one chain and in eight independent ones: x ← x·x + p modulo 2³².

The paper has no property for integers, because compilers simplify index arithmetic, and the linear model is not fitted
to this class. It is measured for models that count integers. ``_steps_of_arithmetic.py`` has the steps: a square cannot
be folded, so each step is a multiplication and an addition.

Counts per work-item: 256 steps; stores of stride 1.
"""

from dataclasses import replace

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._rounds_of_arithmetic import configuration, fits
from ._steps_of_arithmetic import INTEGERS

NAME = "integer arithmetic"

FORMS = {"dependent": (1, 16), "independent": (8, 2)}
"""values per work-item, and steps on each per round"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return both forms in groups of 256, if the device supports them."""
    found: list[Configuration] = []
    for form, (values, steps) in FORMS.items() if fits(limits) else ():
        for arithmetic in INTEGERS:
            one = configuration(arithmetic, values, steps)
            found.append(replace(one, label=f"{form}, {one.label}", beyond="integer arithmetic"))
    return found
