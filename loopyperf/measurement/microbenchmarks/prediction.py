"""How well the latencies that were found predict a kernel that they were not found from: the iterative barrier kernel.

Lemeire, section 6.2: multiply-adds of one chain with a barrier after each, at several divisions of a core's warps into
groups. The pipeline model simulates it with the two latencies of both instructions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.graph import Idg
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.microbenchmarks.core import Core
from loopyperf.measurement.microbenchmarks.instructions import BARRIER, Latencies
from loopyperf.measurement.microbenchmarks.pace import Pace, paces
from loopyperf.pipeline import Execution, simulate

KERNEL = "iterative barrier"
KINDS = {"alu": "fma f32", "barrier": BARRIER}
"""subsystems of the graph, and the instructions that they execute"""
PARTS = 100
"""of a cycle, at most: the simulator is exact, and its clock has as many ticks as all latencies need"""
PASSES = 64
"""that are simulated, and twice as many: their difference has no beginning and no end in it"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted and measured cycles of a multiply-add and its barrier, for each division of the warps."""

    predicted: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def error(self) -> float:
        """Return the mean of the absolute errors, as shares of what was measured."""
        errors = [abs(p - m) / m for p, m in zip(self.predicted, self.measured, strict=True)]
        return sum(errors) / len(errors)


def iterative_barrier(recording: Recording, core: Core, found: Sequence[Latencies]) -> Prediction | None:
    """Return the prediction of the iterative barrier kernel; None where it or one of the latencies is missing."""
    known = {each.name: each for each in found}
    timing = {part: lambdas for part, name in KINDS.items() if (lambdas := _lambdas(known, name)) is not None}
    taken = paces(recording, KERNEL)
    if not taken or set(timing) != set(KINDS):
        return None
    predicted = tuple(_simulated(pace, core, timing) for pace in taken)
    return Prediction(predicted, tuple(core.cycles_each(pace) for pace in taken))


def _lambdas(known: Mapping[str, Latencies], name: str) -> Lambdas | None:
    latencies = known.get(name)
    if latencies is None or latencies.issue is None or latencies.completion is None:
        return None
    return Lambdas(_simple(latencies.issue.value), _simple(latencies.completion.value))


def _simple(cycles: float) -> Fraction:
    return Fraction(cycles).limit_denominator(PARTS)


def _simulated(pace: Pace, core: Core, timing: Mapping[str, Lambdas]) -> float:
    warps = core.warps_of_group(pace)
    groups = core.warps(pace) // warps
    few, many = (
        simulate(
            Idg.from_edges(["alu", "barrier"], [(0, 1), (1, 0, 1)], trips=trips),
            timing,
            Execution(warps, groups, groups),
        ).cycles
        for trips in (PASSES, 2 * PASSES)
    )
    return (many - few) / PASSES
