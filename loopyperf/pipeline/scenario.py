"""What is simulated: graphs, latencies, an execution configuration, a scheduler and an issue limit.

Times are whole numbers of ticks, so that equal times compare equal.

A tick is the largest fraction of a cycle of which all latencies are multiples: with λ = 0.375 and 1/IL = 0.25, it is an
eighth of a cycle. A float stands for its shortest decimal form: 0.1 is a tenth. If ticks are so short that the run
would not fit into 62 bits, as for computed latencies, the tick is the smallest power of two of a cycle that fits, and
latencies are rounded to it: for a run of a million cycles by 1e-13 cycles.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, inf, isfinite, lcm

from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.device.occupancy import Execution
from loopyperf.device.parts import Policy
from loopyperf.errors import GraphError, SimulationError
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import Timing, latencies
from loopyperf.pipeline.timed_graph import TimedGraph
from loopyperf.units import Word

BITS = 60
"""bits of a time: two less than available, because the sum of a time and some latencies has to fit too"""
NEVER = 1 << 62
"""a time later than any run, in ticks"""


@dataclass(frozen=True, slots=True)
class Clock:
    """The length of a tick."""

    ticks_per_cycle: int
    """number by which latencies become whole ticks, if the run fits"""

    def ticks(self, cycles: Cycles) -> int:
        """Return *cycles* rounded to ticks; at least one tick unless *cycles* is 0."""
        return max(1 if cycles else 0, round(rational(cycles) * self.ticks_per_cycle))

    def cycles(self, ticks: int) -> Fraction:
        """Return *ticks* in cycles."""
        return Fraction(ticks, self.ticks_per_cycle)


def clock_for(durations: Iterable[Cycles], horizon: Cycles) -> Clock:
    """Return the clock for a run of at most *horizon* cycles with latencies *durations*.

    Raises :class:`SimulationError` if the run is too long for ticks of any length.
    """
    parts = lcm(*(rational(duration).denominator for duration in durations))
    longest = max(1, ceil(horizon))
    if parts * longest < 1 << BITS:
        return Clock(parts)
    if longest >= 1 << BITS:
        raise SimulationError(f"a run of up to {float(horizon):.3g} cycles is too long to simulate; use smaller sizes")
    return Clock(1 << (BITS - longest.bit_length()))


@lru_cache(maxsize=1 << 10, typed=True)
def rational(cycles: Cycles) -> Fraction:
    """Return *cycles* as a fraction; a float stands for its shortest decimal form."""
    return Fraction(repr(float(cycles))) if isinstance(cycles, float) else Fraction(cycles)


# {{{ warp schedulers: policies as data, so that one loop implements all of them
#
# A policy specifies for how long the warp that issued last keeps priority while it can issue, and the order in which
# the others are considered once it cannot. If it still can when its time is up, the others are considered from the one
# that has waited longest.
#
# ========================  ==============  ============  ===========================================================
# policy                    priority for    then          source
# ========================  ==============  ============  ===========================================================
# ``round-robin``           0               longest wait  Lemeire, section 2.5 (the default)
# ``greedy-then-oldest``    while it can    oldest        Lemeire, section 2.5
# ``greedy-then-youngest``  while it can    youngest      Huerta et al., Analyzing Modern NVIDIA GPU Cores, section
#                                                         5.1.2, as observed from Turing on; yield hints of the compiler
#                                                         are not modeled
# ``oldest-first``          0               oldest        ours: always the oldest warp
# ``quantum``               32 cycles       oldest        Dao, section 4: "a round-robin scheduling policy when the
#                                                         active warp has executed for a certain number of cycles. If
#                                                         a warp blocks, the scheduler selects the first warp that is
#                                                         ready-to-run from the work-group with the lowest ID"
# ========================  ==============  ============  ===========================================================
#
# A warp waits from its last issue, or from its start before its first issue. The oldest warp is the first one of the
# group that started first; the youngest is the last one of the group that started last. So the order of warps is
# unique, and equal inputs give equal traces.


class Order(Word):
    """The order in which the scheduler considers warps."""

    LONGEST_WAIT = "longest wait"
    OLDEST = "oldest"
    YOUNGEST = "youngest"


QUANTUM = 32
"""cycles; Dao measured that there is a quantum, not its length; for another one use ``Scheduler("oldest", cycles)``"""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A warp scheduling policy."""

    order: Order
    """order in which warps are considered"""
    goes_on: Cycles = 0
    """cycles for which the warp that issued last has priority"""

    def __post_init__(self) -> None:
        if self.order not in tuple(Order):
            raise SimulationError(f"unknown order {self.order!r}; expected one of {_names(Order)}")
        if not self.goes_on >= 0:
            raise SimulationError(f"goes_on must be at least 0 cycles, got {self.goes_on}")

    @property
    def by_age(self) -> int:
        """Return 1 if the oldest warp has priority, -1 if the youngest has, 0 if age does not matter."""
        return {Order.LONGEST_WAIT: 0, Order.OLDEST: 1, Order.YOUNGEST: -1}[self.order]


SCHEDULERS: Mapping[Policy, Scheduler] = {
    Policy.ROUND_ROBIN: Scheduler(Order.LONGEST_WAIT),
    Policy.GREEDY_THEN_OLDEST: Scheduler(Order.OLDEST, inf),
    Policy.GREEDY_THEN_YOUNGEST: Scheduler(Order.YOUNGEST, inf),
    Policy.OLDEST_FIRST: Scheduler(Order.OLDEST),
    Policy.QUANTUM: Scheduler(Order.OLDEST, QUANTUM),
}


def scheduler_named(scheduler: str | Scheduler) -> Scheduler:
    """Return the scheduler of that name, or the given one.

    Raises :class:`SimulationError` for an unknown name.
    """
    if isinstance(scheduler, Scheduler):
        return scheduler
    try:
        return SCHEDULERS[Policy(scheduler)]
    except ValueError:
        raise SimulationError(f"unknown scheduler {scheduler!r}; expected one of {_names(Policy)}") from None


def _names(there_are: type[Word]) -> str:
    return ", ".join(map(repr, there_are))


# }}}


# {{{ scenario


@dataclass(frozen=True)
class Scenario:
    """All inputs of a core simulation."""

    programs: tuple[TimedGraph, ...]
    """distinct programs that warps execute"""
    order: tuple[int, ...]
    """programs of the warps of the first groups, in order; later groups repeat them"""
    execution: Execution
    """number of warps and groups"""
    scheduler: Scheduler
    """warp scheduler"""
    issue_limit: Cycles | None = None
    """IL: issues per cycle; None for no limit"""

    def __post_init__(self) -> None:
        if self.issue_limit is not None and not self.issue_limit > 0:
            raise SimulationError(f"issue_limit must be above 0 issues per cycle, got {self.issue_limit}")
        warps = self.execution.warps_per_group
        if not self.order or (len(self.order) > 1 and len(self.order) % warps):
            raise SimulationError(
                f"got {len(self.order)} graphs for groups of {warps} warps; pass one for all warps, "
                "or one per warp of one or more groups"
            )
        for program in self.programs:
            _check_order(program.graph)

    @classmethod
    def of(
        cls,
        graphs: Idg | Sequence[Idg],
        timing: Timing,
        execution: Execution,
        scheduler: Scheduler,
        issue_limit: Cycles | None = None,
    ) -> "Scenario":
        """Return the scenario of warps that execute *graphs*: one for all, or one for each.

        Raises :class:`GraphError` for a subsystem without latencies in *timing*.
        """
        every = [graphs] if isinstance(graphs, Idg) else graphs
        distinct: list[Idg] = []
        for graph in every:
            if graph not in distinct:
                distinct.append(graph)
        programs = (TimedGraph(graph, tuple(latencies(graph.instructions, timing))) for graph in distinct)
        return cls(tuple(programs), tuple(map(distinct.index, every)), execution, scheduler, issue_limit)

    @property
    def graphs(self) -> tuple[Idg, ...]:
        """Return the graphs of the programs."""
        return tuple(program.graph for program in self.programs)

    @cached_property
    def latencies(self) -> tuple[tuple[Lambdas, ...], ...]:
        """Return, for each program, the latencies of its instructions; a store completes λ after its issue."""
        return tuple(tuple(latencies(program.graph.instructions, program.lambdas)) for program in self.programs)

    @cached_property
    def subsystems(self) -> tuple[str, ...]:
        """Return the subsystems of all instructions, in order of first use.

        The partitions of a subsystem, such as ``alu 0`` and ``alu 1``, are adjacent.
        """
        found = tuple(dict.fromkeys(each.subsystem for graph in self.graphs for each in graph.instructions))
        first: dict[str, int] = {}
        for place, name in enumerate(found):
            first.setdefault(without_partition(name), place)
        return tuple(sorted(found, key=lambda name: (first[without_partition(name)], len(name), name)))

    @property
    def gap(self) -> Fraction | None:
        """Return 1/IL, the minimum cycles between two issues; None without a limit."""
        is_limited = self.issue_limit is not None and isfinite(self.issue_limit)
        return 1 / rational(self.issue_limit) if is_limited and self.issue_limit else None

    @cached_property
    def clock(self) -> Clock:
        """Return a clock that can represent all times of the run."""
        every = {each for found in self.latencies for each in found}
        durations: set[Cycles] = {cycles for each in every for cycles in (each.issue, each.completion)}
        durations |= set() if self.gap is None else {self.gap}
        durations |= {self.scheduler.goes_on} if isfinite(self.scheduler.goes_on) else set()
        # In the worst case, instructions execute strictly one after the other. An instruction under a condition on data
        # executes more often than the graph states, but not more often than its neighbors.
        executions = (each.executions * len(graph.instructions) for graph in self.graphs for each in graph.instructions)
        warps = self.execution.total_warps
        one = max((rational(duration) for duration in durations), default=Fraction(1))
        return clock_for(durations, 3 * one * warps * max(1, ceil(max(executions, default=1))))

    def goes_on(self, clock: Clock) -> int:
        """Return the ticks for which the warp that issued last has priority."""
        cycles = self.scheduler.goes_on
        return clock.ticks(cycles) if 0 < cycles < inf else (0 if cycles == 0 else NEVER)


def _check_order(graph: Idg) -> None:
    """Raise :class:`GraphError` if an instruction waits for one that comes later in the same iteration."""
    if graph.backwards:
        edge = graph.backwards[0]
        raise GraphError(
            f"instruction {edge.target} waits for {edge.source}, which comes later in the program; "
            "number each instruction after those that it waits for"
        )


def without_partition(subsystem: str) -> str:
    """Return the name of the pipeline that *subsystem*, such as ``"alu 3"``, is one partition's part of."""
    return re.sub(r" \d+$", "", subsystem)


# }}}
