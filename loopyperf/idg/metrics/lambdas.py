"""How long instructions take on a pipeline: issue and completion latency, and how they are looked up.

λ, the issue latency, is the time until the pipeline takes the next instruction (its inverse throughput); Λ, the
completion latency, the time until the result may be used (Lemeire, sections 1 and 3.1.3).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, lcm

from loopyperf.errors import GraphError
from loopyperf.idg.program import Instruction

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
                raise GraphError(f"the {name} latency is {cycles}: it is to be a number of cycles, 0 or more")


Timing = Mapping[str, Lambdas] | Callable[[Instruction], Lambdas]
"""the latencies by subsystem (mapper f of Lemeire 3.1.3), or a function of the instruction (its mapper g)"""


def latencies(instructions: Sequence[Instruction], timing: Timing) -> list[Lambdas]:
    """Return the latencies of each instruction, in cycles; a store completes λ after its issue (MODELS.md, section 7).

    Raises :class:`GraphError` for a subsystem that *timing* does not tell of.
    """
    found: list[Lambdas] = []
    for instruction in instructions:
        lambdas = _looked_up(instruction, timing)
        is_store = instruction.kind == "store"
        found.append(Lambdas(lambdas.issue, lambdas.issue) if is_store else lambdas)
    return found


def parts_of_cycle(lambdas: Sequence[Lambdas]) -> int:
    """Return of how many parts a cycle is to be, so that all *lambdas* are whole numbers of them."""
    return lcm(*(Fraction(cycles).denominator for each in lambdas for cycles in (each.issue, each.completion)))


def _looked_up(instruction: Instruction, timing: Timing) -> Lambdas:
    if callable(timing):
        return timing(instruction)
    if instruction.subsystem in timing:
        return timing[instruction.subsystem]
    known = ", ".join(map(repr, timing)) or "none"
    raise GraphError(f"no latencies of subsystem {instruction.subsystem!r}: there are those of {known}")
