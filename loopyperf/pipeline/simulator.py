"""The pipeline model: how long a core takes, by mimicking what it does.

A graph, latencies, an execution configuration, a scheduler and an issue limit go in; cycles come out (Cornelis, section
III.D; Lemeire, section 3.2; the rules are those of docs/errata.md):

- An instruction issues at the first moment when its predecessors are complete, its subsystem is free (λ of what issued
  there last has passed), and the issue limit allows (issues are 1/IL apart). Time is continuous and exact.
- It is complete Λ later, a store λ later. A warp issues in the order of its program, or in any that the graph allows.
- A barrier releases a group Λ after its last warp has issued it.
- A group that is complete is replaced by a waiting one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from loopyperf.device.facts import Policy
from loopyperf.device.lambdas import Cycles
from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.lambdas import Timing
from loopyperf.pipeline.core import Run, run
from loopyperf.pipeline.dataflow import run_dataflow
from loopyperf.pipeline.execution import Execution
from loopyperf.pipeline.scenario import IssueOrder, Scenario, warp_graphs
from loopyperf.pipeline.schedulers import Scheduler, scheduler_named


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
    issue_order: IssueOrder = "in_order",
) -> Simulation:
    """Return how many cycles a core takes to execute *graph* in all warps of *execution*.

    Several graphs are those of the warps of one or more groups one after the other, where they differ; the next groups
    are as these again. *timing* tells the latencies in cycles, by subsystem or by a function of the instruction;
    *scheduler* is a policy or the name of one (:data:`loopyperf.pipeline.schedulers.SCHEDULERS`), *issue_limit* the
    number of issues in a cycle, None for no limit.

    Raises :class:`GraphError` where the timing tells nothing of a subsystem or tells a latency that is not above 0, and
    :class:`SimulationError` for what else makes no sense. Loops are run as they are rolled up, except that in the order
    of dataflow an instruction of any pass may be next: there the graph is unrolled, and may be too large.
    """
    return simulated(
        Scenario(warp_graphs(graph), timing, execution, scheduler_named(scheduler), issue_limit, issue_order)
    )


def simulated(scenario: Scenario) -> Simulation:
    """Return how long a core takes with *scenario*."""
    done = executed(scenario, is_traced=False)
    return Simulation(scenario, scenario.clock.cycles(done.finish), done.issued)


def executed(scenario: Scenario, is_traced: bool) -> Run:
    """Return what a core does with *scenario*, in ticks of its clock."""
    if scenario.issue_order == "dataflow":
        return run_dataflow(scenario, scenario.clock)
    return run(scenario, scenario.clock, is_traced)
