"""The pipeline model: how long a core takes, by mimicking what it does.

A graph, latencies, an execution configuration, a scheduler and an issue limit go in; cycles come out (Cornelis, section
III.D; Lemeire, section 3.2; the rules are those of docs/errata.md):

- An instruction issues at the first moment when its predecessors are complete, its subsystem is free (λ of what issued
  there last has passed), and the issue limit allows (issues are 1/IL apart). Time is continuous and exact.
- It is complete Λ later, a store λ later. A warp issues in the order of its program.
- A barrier releases a group Λ after its last warp has issued it.
- A group that is complete is replaced by a waiting one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from loopyperf.device.lambdas import Cycles
from loopyperf.device.occupancy import Execution
from loopyperf.device.parts import Policy
from loopyperf.errors import GraphError, SimulationError
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import Timing
from loopyperf.pipeline.core import PLACE, TIME, WARP, CoreRun, run
from loopyperf.pipeline.scenario import SCHEDULERS, Clock, Scenario, Scheduler, scheduler_named

LIMIT = 100_000_000
"""instructions of a warp alone that are executed one by one, unless another limit is given: some seconds"""
TRACED_LIMIT = 3_000_000
"""the same where each is noted, which takes some hundred bytes"""


@dataclass(frozen=True)
class Simulation:
    """How long a core took."""

    scenario: Scenario
    """what was simulated"""
    exact_cycles: Fraction
    """until all is complete"""
    instructions: int
    """issued by all warps"""
    tolerance: float = 0.0
    """to within which share the rate of issues had settled that it goes on with; 0 where all is exact"""

    @property
    def cycles(self) -> float:
        """Return the cycles until all is complete."""
        return float(self.exact_cycles)


def simulate(
    graph: Idg | Sequence[Idg],
    timing: Timing,
    execution: Execution,
    *,
    scheduler: str | Scheduler = Policy.ROUND_ROBIN,
    issue_limit: Cycles | None = None,
) -> Simulation:
    """Return how many cycles a core takes to execute *graph* in all warps of *execution*.

    Several graphs are those of the warps of one or more groups one after the other, where they differ; the next groups
    are as these again. *timing* tells the latencies in cycles, by subsystem or by a function of the instruction;
    *scheduler* is a policy or the name of one (:data:`loopyperf.pipeline.scenario.SCHEDULERS`), *issue_limit* the
    number of issues in a cycle, None for no limit.

    Raises :class:`GraphError` where the timing tells nothing of a subsystem or tells a latency that is not above 0, and
    :class:`SimulationError` for what else makes no sense. Loops are run as they are rolled up.
    """
    return simulated(Scenario.of(graph, timing, execution, scheduler_named(scheduler), issue_limit))


def warp_latency(graph: Idg, timing: Timing, limit: int = LIMIT) -> Fraction:
    """Return Λapp, how many cycles one warp takes alone: exactly, however often the loops run.

        Λapp = Σ(i in I) Λi + Σ(j in J) λj                                          (Lemeire, equation 2)

    I are the instructions on the critical path whose result is waited for, J those after which only their pipeline is.
    *timing* tells the latencies in cycles, or is those of the instructions in their order. Raises :class:`GraphError`
    where it tells nothing of a subsystem, and where a loop comes to no steady state within *limit* instructions. An
    instruction under a condition on data is executed whenever control reaches it.
    """
    scenario = alone(graph, timing)
    return scenario.clock.cycles(run(scenario, scenario.clock, limit=limit).finish)


def alone(graph: Idg, timing: Timing) -> Scenario:
    """Return one warp alone on its core."""
    return Scenario.of(graph, timing, Execution(1, 1, 1), SCHEDULERS[Policy.ROUND_ROBIN])


def simulated(scenario: Scenario, tolerance: float = 0.0, limit: int | None = None) -> Simulation:
    """Return how long a core takes with *scenario*: exactly, or where issues go on at a rate that has settled so far.

    See :func:`loopyperf.pipeline.core.run`. Raises :class:`GraphError` for a latency that is not above 0.
    """
    for program, latencies in zip(scenario.programs, scenario.latencies, strict=True):
        for instruction, each in zip(program.graph.instructions, latencies, strict=True):
            if not (each.issue > 0 and each.completion > 0):
                raise GraphError(
                    f"{instruction.kind!r} on {instruction.subsystem!r} has the latencies λ = {each.issue}, "
                    f"Λ = {each.completion}: each is to be a number of cycles above 0"
                )
    done = run(scenario, scenario.clock, tolerance=tolerance, limit=limit)
    return Simulation(scenario, scenario.clock.cycles(done.finish), done.issued, done.tolerance)


def executed(scenario: Scenario, is_traced: bool) -> CoreRun:
    """Return what a core does with *scenario*, in ticks of its clock."""
    return run(scenario, scenario.clock, is_traced=is_traced, is_steady_sought=not is_traced)


# {{{ when each group of a core starts, comes along, and finishes (Dao, section 4, figures 5 to 8)


Share = Fraction | float
Ticks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """A group's moments, in cycles."""

    group: int
    """its number, from 0"""
    start: Fraction
    """its first instruction issues"""
    milestones: tuple[Fraction, ...]
    """the shares of its instructions that were asked for have issued"""
    finish: Fraction
    """all that it issued is complete"""


def group_times(simulation: Simulation, shares: Sequence[Share] = ()) -> tuple[GroupTimes, ...]:
    """Return when each group started, when it had issued each of *shares* of its instructions, and when it finished.

    The core of *simulation* is run once more, and each issue noted. Groups that execute nothing are left out. Raises
    :class:`SimulationError` for a share that is not above 0 or above 1.
    """
    wrong = [share for share in shares if not 0 < share <= 1]
    if wrong:
        raise SimulationError(f"a share of a group's instructions is above 0 and at most 1, received {wrong[0]}")
    scenario = simulation.scenario
    trace = executed(scenario, is_traced=True).trace
    complete = trace[:, TIME] + _completions(scenario)[trace[:, PLACE]]
    group = trace[:, WARP] // scenario.execution.warps_per_group
    members = ((int(number), group == number) for number in np.unique(group))
    return tuple(_times(number, trace[own, TIME], complete[own], scenario.clock, shares) for number, own in members)


def _completions(scenario: Scenario) -> Ticks:
    """Return Λ of each place, in ticks; those of several programs one after the other, as in the trace."""
    latencies = [each for found in scenario.latencies for each in found]
    return np.array([scenario.clock.ticks(each.completion) for each in latencies], dtype=np.int64)


def _times(number: int, issued: Ticks, complete: Ticks, clock: Clock, shares: Sequence[Share]) -> GroupTimes:
    reached = (int(issued[ceil(share * len(issued)) - 1]) for share in shares)
    milestones = tuple(clock.cycles(ticks) for ticks in reached)
    return GroupTimes(number, clock.cycles(int(issued[0])), milestones, clock.cycles(int(complete.max())))


# }}}
