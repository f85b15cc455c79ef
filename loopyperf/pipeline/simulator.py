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

from loopyperf.device.lambdas import Cycles
from loopyperf.device.occupancy import Execution
from loopyperf.device.parts import Policy
from loopyperf.errors import GraphError
from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.lambdas import Timing
from loopyperf.pipeline.core import Run, run
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.schedulers import SCHEDULERS, Scheduler, scheduler_named

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
    *scheduler* is a policy or the name of one (:data:`loopyperf.pipeline.schedulers.SCHEDULERS`), *issue_limit* the
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


def simulated(scenario: Scenario) -> Simulation:
    """Return how long a core takes with *scenario*.

    Raises :class:`GraphError` for a latency that is not above 0.
    """
    for program, latencies in zip(scenario.programs, scenario.latencies, strict=True):
        for instruction, each in zip(program.graph.instructions, latencies, strict=True):
            if not (each.issue > 0 and each.completion > 0):
                raise GraphError(
                    f"{instruction.kind!r} on {instruction.subsystem!r} has the latencies λ = {each.issue}, "
                    f"Λ = {each.completion}: each is to be a number of cycles above 0"
                )
    done = executed(scenario, is_traced=False)
    return Simulation(scenario, scenario.clock.cycles(done.finish), done.issued)


def executed(scenario: Scenario, is_traced: bool) -> Run:
    """Return what a core does with *scenario*, in ticks of its clock."""
    return run(scenario, scenario.clock, is_traced=is_traced, is_steady_sought=not is_traced)
