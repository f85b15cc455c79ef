"""Time as whole numbers of ticks, so that two moments are equal exactly where they should be.

A tick is the largest part of a cycle of which all latencies are whole numbers: with λ = 0.375 and 1/IL = 0.25, an
eighth of a cycle. A float stands for the decimal number that it is written as, 0.1 for a tenth. Where that part is so
small that the run would not fit into 62 bits, as with latencies that were computed, the tick is the smallest power of
two of a cycle that lets it fit, and latencies are rounded to it: for a run of a million cycles by 1e-13 cycles.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, lcm

from loopyperf.device.lambdas import Cycles
from loopyperf.errors import SimulationError

BITS = 60
"""of a moment: two less than would fit, since a sum of a moment and some latencies is to fit too"""
NEVER = 1 << 62
"""ticks: more than any run has"""


@dataclass(frozen=True, slots=True)
class Clock:
    """The length of a tick."""

    ticks_per_cycle: int
    """so many that latencies are whole numbers of ticks, where the run fits"""

    def ticks(self, cycles: Cycles) -> int:
        """Return *cycles* to the nearest number of ticks, at least one unless they are none."""
        return max(1 if cycles else 0, round(rational(cycles) * self.ticks_per_cycle))

    def cycles(self, ticks: int) -> Fraction:
        """Return so many ticks in cycles."""
        return Fraction(ticks, self.ticks_per_cycle)


def clock_for(durations: Iterable[Cycles], horizon: Cycles) -> Clock:
    """Return the clock for a run of at most *horizon* cycles in which things take *durations*.

    Raises :class:`SimulationError` for a run that is too long to be told in ticks.
    """
    parts = lcm(*(rational(each).denominator for each in durations))
    longest = max(1, ceil(horizon))
    if parts * longest < 1 << BITS:
        return Clock(parts)
    if longest >= 1 << BITS:
        raise SimulationError(f"a run of up to {float(horizon):.3g} cycles is too long to be simulated")
    return Clock(1 << (BITS - longest.bit_length()))


@lru_cache(maxsize=1 << 10, typed=True)
def rational(cycles: Cycles) -> Fraction:
    """Return *cycles* as a fraction: a float as the shortest decimal number that is written for it."""
    return Fraction(repr(float(cycles))) if isinstance(cycles, float) else Fraction(cycles)
