"""The intervals of GPUMech: instructions issued without a stall, followed by a stall for a memory result.

As in Lemeire, section 2.5, in the reading of docs/errata.md (GPUMech): the warp issues one instruction per cycle and
waits only for results from memory, which arrive Λ after issue. Memory instructions take no issue cycles and are not
counted. An interval ends when an instruction waits for such a result; the end of the program waits for all of them. No
instruction waits for a store. Barriers are ordinary instructions.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import MEMORY, Timing, latencies
from loopyperf.pipeline.simulator import ABLE, MOST_TRACED_ISSUES, PLACE, TIME, VACATED, Repeat, alone, run

ISSUE = "issue"
"""the only pipeline, which takes one instruction per cycle"""


@dataclass(frozen=True, slots=True)
class Interval:
    """Instructions that issue without a stall, and the stall after them."""

    instructions: float
    """Iᵢ: instructions other than memory instructions; 0 if one memory instruction waits for another"""
    stall: Fraction
    """Sᵢ: stall in cycles"""
    number: float
    """number of such intervals"""


def intervals(
    graph: Idg, timing: Timing, memory: Collection[str] = MEMORY, limit: int = MOST_TRACED_ISSUES
) -> tuple[Interval, ...]:
    """Return the intervals of one warp, in order of first occurrence, with stalls in cycles.

    *timing* has the latencies of the subsystems in *memory* (others may be missing), or of the memory instructions in
    order. Raises :class:`GraphError` if a latency is missing, or if a loop reaches no steady state within *limit*
    instructions.
    """
    is_memory = [instruction.subsystem in memory for instruction in graph.instructions]
    accesses = [each for each, is_one in zip(graph.instructions, is_memory, strict=True) if is_one]
    requests = iter(latencies(accesses, timing))
    lambdas = [Lambdas(0, next(requests).completion) if is_one else Lambdas(1, 1) for is_one in is_memory]
    instructions = tuple(replace(each, subsystem=ISSUE) for each in graph.instructions)
    scenario = alone(Idg(instructions, graph.edges, graph.body), lambdas)
    done = run(scenario, scenario.clock, is_traced=True, limit=limit)
    rows = [(row[TIME], max(row[ABLE], row[VACATED]), not is_memory[row[PLACE]]) for row in done.trace.tolist()]
    found = _Stalls([(time - free, int(is_counted)) for time, free, is_counted in rows])
    found.add(0, len(rows), done.repeats)
    if rows:
        time, _, is_counted = rows[-1]
        found.end(done.finish - time - is_counted * scenario.clock.ticks(1))
    return tuple(Interval(each, scenario.clock.cycles(stall), often) for (each, stall), often in found.number.items())


class _Stalls:
    """Number of intervals for each (instructions, stall)."""

    def __init__(self, rows: Sequence[tuple[int, int]]) -> None:
        """Start without intervals; *rows* has (stall before an issue, number of instructions that it counts as)."""
        self.rows = rows
        self.number: Counter[tuple[int, int]] = Counter()
        self.since = 0
        """instructions since the last stall"""

    def add(self, first: int, end: int, repeats: Sequence[Repeat]) -> None:
        """Add rows *first* to *end* (exclusive); *repeats* states which of them occurred more than once."""
        outermost: list[int] = []
        for place in reversed(range(len(repeats))):
            if not outermost or repeats[place].end <= repeats[outermost[-1]].first:
                outermost.append(place)
        known = 0
        for place in reversed(outermost):
            each, within = repeats[place], repeats[known:place]
            self._add_rows(first, each.first)
            self.add(each.first, each.end, within)
            self._add_again(each, within)
            first, known = each.end, place + 1
        self._add_rows(first, end)

    def _add_rows(self, first: int, end: int) -> None:
        for stall, instructions in self.rows[first:end]:
            if stall > 0:
                self.end(stall)
            self.since += instructions

    def _add_again(self, repeat: Repeat, within: Sequence[Repeat]) -> None:
        """Add the repetitions in *repeat*: each has the stalls of the second one, since all start in the same state."""
        number, since = self.number, self.since
        self.number = Counter()
        self.add(repeat.first, repeat.end, within)
        if not self.number:
            self.since = since + repeat.times * (self.since - since)
        for stall, often in self.number.items():
            number[stall] += repeat.times * often
        self.number = number

    def end(self, stall: int) -> None:
        """End an interval with a *stall* of zero or more ticks."""
        if self.since or stall:
            self.number[self.since, stall] += 1
        self.since = 0
