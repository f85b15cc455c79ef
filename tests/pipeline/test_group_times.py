"""Start and finish times of groups against hand computation."""

import pytest
from hypothesis import given, settings

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import SimulationError
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution, group_times, simulate
from tests.pipeline.random_scenarios import executions, graphs, lambdas, limits, policies

CHAIN = Idg.from_edges(["alu"] * 4, [(0, 1), (1, 2), (2, 3)])


def test_waiting_groups_start_when_others_finish() -> None:
    # Two groups at a time: group 0 issues at 0, 5, 10, 15 and completes at 20; 1 is one cycle later; 2 follows 0, 3
    # follows 1.
    found = group_times(simulate(CHAIN, {"alu": Lambdas(1, 5)}, Execution(1, 2, 4)))
    assert [(each.start, each.finish) for each in found] == [(0, 20), (1, 21), (20, 40), (21, 41)]


def test_milestones_are_shares_of_the_instructions_of_a_group() -> None:
    # A group of two warps issues 8 instructions, at 0 1, 5 6, 10 11 and 15 16
    (found,) = group_times(simulate(CHAIN, {"alu": Lambdas(1, 5)}, Execution(2, 1, 1)), (0.25, 0.5, 1))
    assert found.milestones == (1, 6, 16)


def test_store_at_the_end_is_complete_when_its_pipeline_is_free() -> None:
    graph = Idg.from_edges(["alu", "store"], [(0, 1)])
    (found,) = group_times(simulate(graph, {"alu": Lambdas(1, 5), "store": Lambdas(3, 90)}, Execution(1, 1, 1)))
    assert found.finish == 5 + 3


def test_milestone_of_zero_is_refused() -> None:
    simulation = simulate(CHAIN, {"alu": Lambdas(1, 5)}, Execution(1, 1, 1))
    with pytest.raises(SimulationError, match="got 0"):
        group_times(simulation, (0,))


@settings(max_examples=60)
@given(graphs(), lambdas, executions, policies, limits)
def test_last_group_finishes_with_the_core(graph, timing, execution, policy, limit) -> None:
    simulation = simulate(graph, timing, execution, scheduler=policy, issue_limit=limit)
    found = group_times(simulation, (0.5,))
    assert simulation.exact_cycles == max((each.finish for each in found), default=0)
    assert all(each.start <= each.milestones[0] <= each.finish for each in found)
