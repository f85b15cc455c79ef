"""Which pipelines execute two kinds of instructions, and how many a core issues in a cycle.

Lemeire, section 4.2, with equations 44 and 45 corrected: β instructions of the first kind and one of the second, on a
full core, take each warp's share of a round

    one pipeline                    β·λ₁ + λ₂
    two pipelines                   max(β·λ₁, λ₂)
    two, and an issue limit IL      max(β·λ₁, λ₂, (β + 1)/IL)

So over β there is a straight line, or a level stretch and then a line. What the compiler puts around the second kind is
of the first, and moves the line up; hence only its slope is compared: with λ₁, measured on its own, it tells that
pipeline and issue are equally fast, or which of them is slower.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loopyperf.measurement.microbenchmarks.estimated import Estimated
from loopyperf.measurement.microbenchmarks.robust_fit import Values, robust_fit
from loopyperf.measurement.microbenchmarks.straight_line import straight_line

BETTER = 0.5
"""a level stretch is there if it makes the deviations smaller by this factor, and makes out two points or more"""
STRAIGHT = 0.03
"""largest relative deviation of a line"""
SLOWER = 1.05
"""an issue limit is seen if the slope is so many times λ₁"""


@dataclass(frozen=True, slots=True)
class Mix:
    """What a mix tells."""

    slope: Estimated
    """cycles of a core for one more instruction of the first kind"""
    separate: bool | None
    """whether two pipelines execute the two kinds; None where the times tell neither"""
    residual: float
    """largest relative deviation of a time"""

    def issue_limit(self, issue: Estimated) -> Estimated | None:
        """Return the instructions that a core issues in a cycle, where that slows them down more than their *issue* λ₁.

        None where it does not: then the limit is only known to be 1/λ₁ or more.
        """
        error = float(np.hypot(self.slope.error, issue.error))
        if not self.separate or self.slope.value < SLOWER * issue.value + 3 * error:
            return None
        return Estimated(1 / self.slope.value, self.slope.error / self.slope.value**2)


def instruction_mix(betas: Sequence[int], cycles: Sequence[float]) -> Mix:
    """Return what the *cycles* of a core for a round of one warp tell, over *betas*.

    Raises :class:`MeasurementError` for fewer than three of them, or a time that is not above 0.
    """
    line = straight_line(betas, cycles)
    places, values = np.array(betas, float), np.array(cycles, float)

    def deviations(shape: Values) -> Values:
        level, intercept, slope = shape
        return np.maximum(level, intercept + slope * places) / values - 1

    shape = robust_fit(deviations, [np.array([values.min(), line.intercept.value, line.slope.value])])
    level, intercept, slope = shape
    rising = places[intercept + slope * places > level]
    residual = float(np.abs(deviations(shape)).max())
    if residual < BETTER * line.residual and len(places) - len(rising) >= 2 <= len(rising) and slope > 0:
        spread = float(np.std(deviations(shape)) * values.max() / max(np.ptp(rising), 1))
        return Mix(Estimated(float(slope), spread), True, residual)
    return Mix(line.slope, False if line.residual < STRAIGHT else None, line.residual)
