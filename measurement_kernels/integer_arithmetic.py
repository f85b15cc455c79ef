"""Integer multiplications and additions, in a chain and eight side by side: x ← x·x + p modulo 2³².

DOC
"""

from dataclasses import replace

from loopyperf.measurement.configuration import Configuration, Limits

from ._rounds_of_arithmetic import configuration, fits
from ._steps_of_arithmetic import INTEGERS

NAME = "integer arithmetic"

FORMS = {"dependent": (1, 16), "independent": (8, 2)}
"""values of a work-item, and steps of each in a round"""


def configurations(limits: Limits) -> list[Configuration]:
    """Return both forms, in groups of 256 if the device can hold them."""
    found: list[Configuration] = []
    for form, (values, steps) in FORMS.items() if fits(limits) else ():
        for arithmetic in INTEGERS:
            one = configuration(arithmetic, values, steps)
            found.append(replace(one, label=f"{form}, {one.label}"))
    return found
