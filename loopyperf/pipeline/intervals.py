"""The intervals of GPUMech: instructions issued one after the other, then a stall for a result from memory.

As in Lemeire, section 2.5, as docs/errata.md reads it (GPUMech): the warp issues one instruction a cycle, and
waits for nothing but results from memory, Λ after their issue. Memory instructions take none of these cycles and are
not counted. An interval ends where an instruction waits for such a result; the end of the program waits for all of
them. No instruction waits for a store. Barriers are instructions like others.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import MEMORY, Timing, latencies
from loopyperf.pipeline.core import ABLE, PLACE, TIME, VACATED, Repeat, run
from loopyperf.pipeline.simulator import TRACED_LIMIT, alone

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


def intervals(
    graph: Idg, timing: Timing, memory: Collection[str] = MEMORY, limit: int = TRACED_LIMIT
) -> tuple[Interval, ...]:
    """Return the intervals of one warp, their stalls in cycles, each in the order in which it occurs first.

    *timing* tells the latencies of the subsystems in *memory* and may lack others, or is those of the instructions that
    run on them, in order. Raises :class:`GraphError` where it lacks one, and where a loop comes to no steady state
    within *limit* instructions.
    """
    is_memory = [instruction.subsystem in memory for instruction in graph.instructions]
    asked = [each for each, is_one in zip(graph.instructions, is_memory, strict=True) if is_one]
    requests = iter(latencies(asked, timing))
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
    """How often so many instructions come before a stall so long."""

    def __init__(self, rows: Sequence[tuple[int, int]]) -> None:
        """Begin without any; *rows* are the stall before each issue, and how many instructions it counts as."""
        self.rows = rows
        self.number: Counter[tuple[int, int]] = Counter()
        self.since = 0
        """instructions since the last stall"""

    def add(self, first: int, end: int, repeats: Sequence[Repeat]) -> None:
        """Add the rows from *first* on and before *end*; those that are in *repeats* happened more than once."""
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
        """Add what *repeat* stands for: each time has the stalls of the second one, as they all begin alike."""
        number, since = self.number, self.since
        self.number = Counter()
        self.add(repeat.first, repeat.end, within)
        if not self.number:
            self.since = since + repeat.times * (self.since - since)
        for stall, often in self.number.items():
            number[stall] += repeat.times * often
        self.number = number

    def end(self, stall: int) -> None:
        """End an interval with a *stall*, which may take no time."""
        if self.since or stall:
            self.number[self.since, stall] += 1
        self.since = 0
