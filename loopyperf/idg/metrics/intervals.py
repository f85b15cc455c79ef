"""The intervals of GPUMech: instructions issued one after the other, then a stall for a result from memory.

As in Lemeire, section 2.5, as docs/errata.md reads it (GPUMech): the warp issues one instruction a cycle, and
waits for nothing but results from memory, Λ after their issue. Memory instructions take none of these cycles and are
not counted. An interval ends where an instruction waits for such a result; the end of the program waits for all of
them. Nobody waits for a store. Barriers are instructions like others.
"""

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.lambdas import Timing, latencies, parts_of_cycle
from loopyperf.idg.metrics.mix import MEMORY
from loopyperf.idg.metrics.one_warp import Rule
from loopyperf.idg.metrics.rolled_run import LIMIT, run_rolled

ISSUE = "issue"
"""the one pipeline, which takes an instruction a cycle"""


@dataclass(frozen=True, slots=True)
class Interval:
    """Instructions that issue without a stall, and the stall after them."""

    instructions: float
    """Iᵢ: without memory instructions; 0 where one of these waits for another one"""
    stall: Fraction
    """Sᵢ, in cycles"""
    number: float
    """how many such intervals there are"""


def intervals(graph: Idg, timing: Timing, memory: Collection[str] = MEMORY, limit: int = LIMIT) -> tuple[Interval, ...]:
    """Return the intervals of one warp, their stalls in cycles, each in the order in which it occurs first.

    *timing* tells the latencies of the subsystems in *memory*, and is not asked for others. Raises
    :class:`GraphError` where it does not, and where a loop comes to no steady state within *limit* instructions.
    """
    is_memory = [instruction.subsystem in memory for instruction in graph.instructions]
    requests = latencies([each for each, asked in zip(graph.instructions, is_memory, strict=True) if asked], timing)
    parts, request = parts_of_cycle(requests), iter(requests)
    rules = [
        _request(next(request), parts, graph.instructions[place].kind) if asked else Rule(ISSUE, parts, parts)
        for place, asked in enumerate(is_memory)
    ]
    warp = run_rolled(graph, rules, limit)
    stalls, last = dict(warp.stalls), (warp.since, max(0, warp.end[0] - warp.free()))
    if last != (0, 0):
        stalls[last] = stalls.get(last, 0) + 1
    return tuple(Interval(number, Fraction(stall, parts), often) for (number, stall), often in stalls.items())


def _request(lambdas: Lambdas, parts: int, kind: str) -> Rule:
    completion = 0 if kind == "store" else int(Fraction(lambdas.completion) * parts)
    return Rule(ISSUE, 0, completion, is_counted=False)
