"""How long a warp instruction takes on a pipeline: its issue and its completion latency.

λ, the issue latency, is the time until the pipeline takes the next instruction (its inverse throughput); Λ, the
completion latency, the time until the result may be used (Lemeire, sections 1 and 3.1.3).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from loopyperf.errors import GraphError

Cycles = int | float | Fraction


@dataclass(frozen=True, slots=True)
class Lambdas:
    """The two latencies of a warp instruction, in cycles."""

    issue: Cycles
    """λ: until the pipeline takes another one"""
    completion: Cycles
    """Λ: until what waits for the result may issue"""

    def __post_init__(self) -> None:
        for name, cycles in (("issue", self.issue), ("completion", self.completion)):
            if not isfinite(cycles) or cycles < 0:
                raise GraphError(f"the {name} latency is {cycles}: it must be a number of cycles, 0 or more")

    def with_conflicts(self, degree: Cycles) -> "Lambdas":
        """Return the latencies where *degree* further accesses of the same banks are served one after the other.

        Λ' = Λ + D·λ and λ' = (1 + D)·λ (Lemeire, section 6.3).
        """
        return Lambdas((1 + degree) * self.issue, self.completion + degree * self.issue)
