"""What is simulated: graphs, latencies, an execution configuration, and how the core issues.

Time as whole numbers of ticks, so that two moments are equal exactly where they should be.

A tick is the largest part of a cycle of which all latencies are whole numbers: with λ = 0.375 and 1/IL = 0.25, an
eighth of a cycle. A float stands for the decimal number that it is written as, 0.1 for a tenth. Where that part is so
small that the run would not fit into 62 bits, as with latencies that were computed, the tick is the smallest power of
two of a cycle that lets it fit, and latencies are rounded to it: for a run of a million cycles by 1e-13 cycles.
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
from loopyperf.pipeline.expression_code import coded_graph
from loopyperf.pipeline.timed_graph import TimedGraph
from loopyperf.units import Word

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


# {{{ which warp issues where several could: policies as data, so that one loop serves all of them
#
# A policy says for how long the warp that issued last goes on while it can, and in which order the others are asked
# once it cannot. Where it still can when its time is over, the others are asked from the one that has waited longest.
#
# ========================  ==============  ============  ===========================================================
# policy                    goes on for     then          source
# ========================  ==============  ============  ===========================================================
# ``round-robin``           0               longest wait  Lemeire, section 2.5 (the default)
# ``greedy-then-oldest``    while it can    oldest        Lemeire, section 2.5
# ``greedy-then-youngest``  while it can    youngest      Huerta et al., Analyzing Modern NVIDIA GPU Cores, section
#                                                         5.1.2, as observed from Turing on; where the compiler tells a
#                                                         warp to yield is not modelled
# ``oldest-first``          0               oldest        ours: the oldest warp always
# ``quantum``               32 cycles       oldest        Dao, section 4: "a round-robin scheduling policy when the
#                                                         active warp has executed for a certain number of cycles. If
#                                                         a warp blocks, the scheduler selects the first warp that is
#                                                         ready-to-run from the work-group with the lowest ID"
# ========================  ==============  ============  ===========================================================
#
# A warp has waited since it last issued; one that has not yet issued, since it began. The oldest warp is the first one
# of the group that began first, the youngest the last one of the group that began last. So no two warps are equal, and
# equal inputs give equal traces.


class Order(Word):
    """In which order warps are asked whether they can issue."""

    LONGEST_WAIT = "longest wait"
    OLDEST = "oldest"
    YOUNGEST = "youngest"


QUANTUM = 32
"""cycles; Dao measured that there is a quantum, not how long it is: another one is ``Scheduler("oldest", cycles)``"""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A policy."""

    order: Order
    """in which warps are asked whether they can issue"""
    goes_on: Cycles = 0
    """cycles for which the warp that issued last is asked first"""

    def __post_init__(self) -> None:
        if self.order not in tuple(Order):
            raise SimulationError(f"no order of warps {self.order!r}: there are {_names(Order)}")
        if not self.goes_on >= 0:
            raise SimulationError(f"a warp goes on for 0 cycles or more, received {self.goes_on}")

    @property
    def by_age(self) -> int:
        """Return 1 where the oldest warp is asked first, -1 where the youngest is, 0 where age does not count."""
        return {Order.LONGEST_WAIT: 0, Order.OLDEST: 1, Order.YOUNGEST: -1}[self.order]


SCHEDULERS: Mapping[Policy, Scheduler] = {
    Policy.ROUND_ROBIN: Scheduler(Order.LONGEST_WAIT),
    Policy.GREEDY_THEN_OLDEST: Scheduler(Order.OLDEST, inf),
    Policy.GREEDY_THEN_YOUNGEST: Scheduler(Order.YOUNGEST, inf),
    Policy.OLDEST_FIRST: Scheduler(Order.OLDEST),
    Policy.QUANTUM: Scheduler(Order.OLDEST, QUANTUM),
}


def scheduler_named(scheduler: str | Scheduler) -> Scheduler:
    """Return the policy of that name, or the one that is given.

    Raises :class:`SimulationError` for a name that is none, which lists those that are.
    """
    if isinstance(scheduler, Scheduler):
        return scheduler
    try:
        return SCHEDULERS[Policy(scheduler)]
    except ValueError:
        raise SimulationError(f"no scheduler {scheduler!r}: there are {_names(Policy)}") from None


def _names(there_are: type[Word]) -> str:
    return ", ".join(map(repr, there_are))


# }}}


# {{{ scenario


@dataclass(frozen=True)
class Scenario:
    """All that decides how long a core takes."""

    programs: tuple[TimedGraph, ...]
    """that warps execute, each once"""
    order: tuple[int, ...]
    """the programs of the warps of the first groups, one after the other; the next groups are as these again"""
    execution: Execution
    """how many warps and groups there are"""
    scheduler: Scheduler
    """which warp issues where several could"""
    issue_limit: Cycles | None = None
    """IL: issues in a cycle; None for no limit"""

    def __post_init__(self) -> None:
        if self.issue_limit is not None and not self.issue_limit > 0:
            raise SimulationError(f"the issue limit is {self.issue_limit}: it is to be above 0, in issues a cycle")
        warps = self.execution.warps_per_group
        if not self.order or (len(self.order) > 1 and len(self.order) % warps):
            raise SimulationError(
                f"{len(self.order)} graphs for groups of {warps} warps: give one for all warps, or one for each warp "
                "of one or more groups"
            )
        for each in self.programs:
            _check_order(each.graph)

    @classmethod
    def of(
        cls,
        graphs: Idg | Sequence[Idg],
        timing: Timing,
        execution: Execution,
        scheduler: Scheduler,
        issue_limit: Cycles | None = None,
    ) -> "Scenario":
        """Return what is simulated of warps that execute *graphs*: one for all, or one for each.

        Raises :class:`GraphError` for a subsystem that the *timing* does not tell of.
        """
        every = [graphs] if isinstance(graphs, Idg) else graphs
        distinct: list[Idg] = []
        for graph in every:
            if graph not in distinct:
                distinct.append(graph)
        programs = (TimedGraph(coded_graph(graph), tuple(latencies(graph.instructions, timing))) for graph in distinct)
        return cls(tuple(programs), tuple(map(distinct.index, every)), execution, scheduler, issue_limit)

    @property
    def graphs(self) -> tuple[Idg, ...]:
        """Return the graphs of the programs."""
        return tuple(each.graph for each in self.programs)

    @cached_property
    def latencies(self) -> tuple[tuple[Lambdas, ...], ...]:
        """Return for each program when its instructions are complete for their warp: stores, λ after their issue."""
        return tuple(tuple(latencies(each.graph.instructions, each.lambdas)) for each in self.programs)

    @cached_property
    def subsystems(self) -> tuple[str, ...]:
        """Return the subsystems that the instructions run on, in the order in which they first do.

        Those that a core has in several partitions, as ``alu 0`` and ``alu 1``, are beside each other.
        """
        found = tuple(dict.fromkeys(each.subsystem for graph in self.graphs for each in graph.instructions))
        first: dict[str, int] = {}
        for place, name in enumerate(found):
            first.setdefault(_without_number(name), place)
        return tuple(sorted(found, key=lambda name: (first[_without_number(name)], len(name), name)))

    @property
    def gap(self) -> Fraction | None:
        """Return 1/IL, the cycles between two issues at least; None where there is no limit."""
        is_limited = self.issue_limit is not None and isfinite(self.issue_limit)
        return 1 / rational(self.issue_limit) if is_limited and self.issue_limit else None

    @cached_property
    def clock(self) -> Clock:
        """Return the clock that tells all times of the run."""
        every = {each for found in self.latencies for each in found}
        durations: set[Cycles] = {cycles for each in every for cycles in (each.issue, each.completion)}
        durations |= set() if self.gap is None else {self.gap}
        durations |= {self.scheduler.goes_on} if isfinite(self.scheduler.goes_on) else set()
        # At worst one instruction after the other issues, is complete, and lets the next one through. One under a
        # condition on data is executed more often than the graph says, though no more than what is beside it.
        executions = (each.executions * len(graph.instructions) for graph in self.graphs for each in graph.instructions)
        warps = self.execution.total_warps
        one = max((rational(each) for each in durations), default=Fraction(1))
        return clock_for(durations, 3 * one * warps * max(1, ceil(max(executions, default=1))))

    def goes_on(self, clock: Clock) -> int:
        """Return for how many ticks the warp that issued last is asked first."""
        cycles = self.scheduler.goes_on
        return clock.ticks(cycles) if 0 < cycles < inf else (0 if cycles == 0 else NEVER)


def _check_order(graph: Idg) -> None:
    """Raise :class:`GraphError` where an instruction waits for one that comes later in the same pass."""
    if graph.backwards:
        edge = graph.backwards[0]
        raise GraphError(
            f"instruction {edge.target} waits for {edge.source}, which comes later in the program: number the "
            "instructions in an order in which each comes after those that it waits for"
        )


def _without_number(subsystem: str) -> str:
    """Return the name of *subsystem* without the number of the partition that it is in, if any."""
    return re.sub(r" \d+$", "", subsystem)


# }}}
