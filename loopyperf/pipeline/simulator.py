"""The pipeline model: the run time of a core by simulation.

Inputs are a graph, latencies, an execution configuration, a scheduler and an issue limit; the output is cycles
(Cornelis, section III.D; Lemeire, section 3.2; the rules are those of docs/errata.md):

- An instruction issues at the earliest time at which its predecessors are complete, its subsystem is free (λ after the
  last issue there), and the issue limit allows it (issues are 1/IL apart). Time is continuous and exact.
- It is complete Λ after issue, a store λ after issue. A warp issues in program order.
- A barrier releases a group Λ after its last warp has issued it.
- A waiting group replaces a complete one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from loopyperf.device.lambdas import Cycles
from loopyperf.device.occupancy import Execution
from loopyperf.device.parts import Policy
from loopyperf.errors import GraphError, SimulationError
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import Timing
from loopyperf.pipeline.core import PLACE, TIME, WARP, CoreRun, Ticks, run
from loopyperf.pipeline.scenario import SCHEDULERS, Clock, Scenario, Scheduler, scheduler_named

LIMIT = 100_000_000
"""default limit on the simulated instructions of a single warp: some seconds"""
TRACED_LIMIT = 3_000_000
"""the same with a trace, which takes some hundred bytes per instruction"""


@dataclass(frozen=True)
class Simulation:
    """Result of a simulation."""

    scenario: Scenario
    """simulated scenario"""
    exact_cycles: Fraction
    """cycles until everything is complete"""
    instructions: int
    """instructions issued by all warps"""
    tolerance: float = 0.0
    """relative uncertainty of an extrapolated rate of issues; 0 if the result is exact"""

    @property
    def cycles(self) -> float:
        """Return the cycles until everything is complete."""
        return float(self.exact_cycles)


def simulate(
    graph: Idg | Sequence[Idg],
    timing: Timing,
    execution: Execution,
    *,
    scheduler: str | Scheduler = Policy.ROUND_ROBIN,
    issue_limit: Cycles | None = None,
) -> Simulation:
    """Return the simulation of a core that executes *graph* in all warps of *execution*.

    Several graphs are those of the warps of one or more groups, in order; later groups repeat them. *timing* has the
    latencies in cycles, by subsystem or as a function of the instruction. *scheduler* is a policy or its name
    (:data:`loopyperf.pipeline.scenario.SCHEDULERS`). *issue_limit* is the maximum number of issues per cycle; None for
    no limit. Loops are simulated without unrolling.

    Raises :class:`GraphError` if a latency is missing or not above 0, and :class:`SimulationError` for other invalid
    arguments.
    """
    return simulated(Scenario.of(graph, timing, execution, scheduler_named(scheduler), issue_limit))


def warp_latency(graph: Idg, timing: Timing, limit: int = LIMIT) -> Fraction:
    """Return Λapp, the exact number of cycles that one warp takes alone, for any number of iterations.

        Λapp = Σ(i in I) Λi + Σ(j in J) λj                                          (Lemeire, equation 2)

    I are the instructions on the critical path whose result is waited for; J are those after which only their pipeline
    is. *timing* has the latencies in cycles by subsystem, or those of the instructions in order. An instruction under a
    condition on data executes whenever control reaches it. Raises :class:`GraphError` if a latency is missing, or if a
    loop reaches no steady state within *limit* instructions.
    """
    scenario = alone(graph, timing)
    return scenario.clock.cycles(run(scenario, scenario.clock, limit=limit).finish)


def alone(graph: Idg, timing: Timing) -> Scenario:
    """Return the scenario of a single warp on its core."""
    return Scenario.of(graph, timing, Execution(1, 1, 1), SCHEDULERS[Policy.ROUND_ROBIN])


def simulated(scenario: Scenario, tolerance: float = 0.0, limit: int | None = None) -> Simulation:
    """Return the simulation of *scenario*: exact, or extrapolated at a settled rate if *tolerance* is above 0.

    See :func:`loopyperf.pipeline.core.run`. Raises :class:`GraphError` for a latency that is not above 0.
    """
    for program, latencies in zip(scenario.programs, scenario.latencies, strict=True):
        for instruction, each in zip(program.graph.instructions, latencies, strict=True):
            if not (each.issue > 0 and each.completion > 0):
                raise GraphError(
                    f"latencies of {instruction.kind!r} on {instruction.subsystem!r} must be above 0 cycles, "
                    f"got λ = {each.issue}, Λ = {each.completion}"
                )
    done = run(scenario, scenario.clock, tolerance=tolerance, limit=limit)
    return Simulation(scenario, scenario.clock.cycles(done.finish), done.issued, done.tolerance)


def executed(scenario: Scenario, is_traced: bool) -> CoreRun:
    """Return the run of a core with *scenario*, in ticks of its clock."""
    return run(scenario, scenario.clock, is_traced=is_traced, is_steady_sought=not is_traced)


# {{{ start, milestones and finish of each group of a core (Dao, section 4, figures 5 to 8)


Share = Fraction | float


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """The times of a group, in cycles."""

    group: int
    """number of the group, from 0"""
    start: Fraction
    """issue of its first instruction"""
    milestones: tuple[Fraction, ...]
    """times at which it had issued each of the requested shares of its instructions"""
    finish: Fraction
    """completion of everything that it issued"""


def group_times(simulation: Simulation, shares: Sequence[Share] = ()) -> tuple[GroupTimes, ...]:
    """Return when each group started, when it had issued each of *shares* of its instructions, and when it finished.

    The core of *simulation* is run again with a trace. Groups without instructions are omitted. Raises
    :class:`SimulationError` for a share outside (0, 1].
    """
    wrong = [share for share in shares if not 0 < share <= 1]
    if wrong:
        raise SimulationError(f"shares must be above 0 and at most 1, got {wrong[0]}")
    scenario = simulation.scenario
    trace = executed(scenario, is_traced=True).trace
    latencies = [each for found in scenario.latencies for each in found]
    completions = np.array([scenario.clock.ticks(each.completion) for each in latencies], dtype=np.int64)
    complete = trace[:, TIME] + completions[trace[:, PLACE]]
    group = trace[:, WARP] // scenario.execution.warps_per_group
    members = ((int(number), group == number) for number in np.unique(group))
    return tuple(_times(number, trace[own, TIME], complete[own], scenario.clock, shares) for number, own in members)


def _times(number: int, issued: Ticks, complete: Ticks, clock: Clock, shares: Sequence[Share]) -> GroupTimes:
    reached = (int(issued[ceil(share * len(issued)) - 1]) for share in shares)
    milestones = tuple(clock.cycles(ticks) for ticks in reached)
    return GroupTimes(number, clock.cycles(int(issued[0])), milestones, clock.cycles(int(complete.max())))


# }}}
