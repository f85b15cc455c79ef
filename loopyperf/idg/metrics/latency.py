"""Λapp: how long one warp takes alone, and the instructions that make it so long.

    Λapp = Σ(i in I) Λi + Σ(j in J) λj                                          (Lemeire, equation 2)

The warp executes in the order of the program (:mod:`loopyperf.idg.metrics.one_warp`); it ends when everything is
complete, a store λ after its issue. The critical path, read from its end, leads from each instruction to the one that
it waited for: I are those on it whose result is waited for, J those after which only their pipeline, busy for λ, is. So
the sum is the time, exactly, and equation 2 is no estimate. Where several things are waited for until the same moment,
a result is taken before a pipeline, and a pipeline before the order of the program.

An instruction under a condition on data is taken to be executed whenever control reaches it, as in the unrolled graph.
"""

from dataclasses import dataclass
from fractions import Fraction

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.lambdas import Timing, latencies, parts_of_cycle
from loopyperf.idg.metrics.one_warp import OneWarp, Rule
from loopyperf.idg.metrics.paths import path_lengths
from loopyperf.idg.metrics.rolled_run import LIMIT, run_rolled
from loopyperf.idg.program import placed


@dataclass(frozen=True, slots=True)
class OnPath:
    """An instruction on the critical path, and how much of the time it is."""

    place: int
    """in :attr:`Idg.instructions`"""
    waited_for: int
    """how often its result is waited for: each time counts Λ"""
    overlapped: int
    """how often only its pipeline is waited for: each time counts λ"""
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class Latency:
    """How long one warp takes alone."""

    cycles: Fraction
    """Λapp"""
    path: tuple[OnPath, ...]
    """the critical path, in the order of the program; the cycles of its instructions add up to those of the warp"""


def warp_latency(graph: Idg, timing: Timing, limit: int = LIMIT) -> Latency:
    """Return Λapp in cycles, and the critical path: exactly, however often the loops run.

    *timing* tells the latencies in cycles. Raises :class:`GraphError` where it tells nothing of a subsystem, and where
    a loop comes to no steady state within *limit* instructions. Source: Lemeire, section 2.2; docs/errata.md.
    """
    lambdas = latencies(graph.instructions, timing)
    parts = parts_of_cycle(lambdas)
    warp = run_rolled(graph, [_rule(graph, place, lambdas[place], parts) for place in range(len(lambdas))], limit)
    return Latency(Fraction(warp.end[0], parts), _path(graph, warp, parts))


def _rule(graph: Idg, place: int, lambdas: Lambdas, parts: int) -> Rule:
    instruction = graph.instructions[place]
    issue, completion = int(Fraction(lambdas.issue) * parts), int(Fraction(lambdas.completion) * parts)
    return Rule(instruction.subsystem, issue, completion, is_blocking=instruction.kind == "barrier")


def _path(graph: Idg, warp: OneWarp, parts: int) -> tuple[OnPath, ...]:
    lengths = path_lengths(warp.end[1], "completion")
    found: list[OnPath] = []
    for place, _ in placed(graph.body):
        waited_for, overlapped = lengths[place, "completion"], lengths[place, "issue"]
        rule = warp.rules[place]
        cycles = Fraction(waited_for * rule.completion + overlapped * rule.issue, parts)
        if waited_for or overlapped:
            found.append(OnPath(place, waited_for, overlapped, cycles))
    return tuple(found)
