"""What holds for every graph, policy and limit."""

from collections import Counter
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from random_scenarios import executions, graphs, lambdas, limits, orders, policies

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.idg.metrics import warp_latency
from loopyperf.pipeline import Execution, Profile, profile_of, simulate


@settings(max_examples=200)
@given(graphs(), lambdas, st.integers(1, 4), policies, limits, orders)
def test_run_takes_no_less_than_one_warp_alone_and_the_busiest_subsystem(
    graph: Idg, timing: dict[str, Lambdas], groups: int, policy: str, limit: Any, order: Any
) -> None:
    execution = Execution(2, groups, groups)
    cycles = simulate(graph, timing, execution, scheduler=policy, issue_limit=limit, issue_order=order).exact_cycles
    flat = graph.unrolled()
    number = Counter(each.subsystem for each in flat.instructions)
    busiest = max((each * Fraction(str(timing[name].issue)) for name, each in number.items()), default=Fraction(0))
    assert cycles >= execution.concurrent_warps * busiest
    if order == "in_order":
        # In the order of dataflow others may delay a warp to its advantage: list schedules have such anomalies.
        alone = simulate(graph, timing, Execution(1, 1, 1), scheduler=policy)
        assert cycles >= alone.exact_cycles
        assert alone.exact_cycles == warp_latency(graph, timing).cycles


@settings(max_examples=100)
@given(graphs(), lambdas, executions, policies, limits, orders)
def test_profile_tells_all_of_the_time(
    graph: Idg, timing: dict[str, Lambdas], execution: Execution, policy: str, limit: Any, order: Any
) -> None:
    simulation = simulate(graph, timing, execution, scheduler=policy, issue_limit=limit, issue_order=order)
    found = profile_of(simulation)
    assert found.cycles == simulation.exact_cycles
    assert len(found.issues) == simulation.instructions
    for name in simulation.scenario.subsystems:
        taken = sum(_taken(found, name), Fraction(0))
        assert all(share >= 0 for share in found.idle[name].values())
        # By the issues themselves: λ of each, all of which are over when everything is complete
        assert found.fill[name] == (taken / found.cycles if found.cycles else 1 - sum(found.idle[name].values()))


def _taken(found: Profile, name: str) -> list[Fraction]:
    return [each.free_again - each.time for each in found.issues if each.instruction.subsystem == name]


@settings(max_examples=50)
@given(graphs(), lambdas, executions, policies, limits, orders)
def test_equal_inputs_give_equal_traces(
    graph: Idg, timing: dict[str, Lambdas], execution: Execution, policy: str, limit: Any, order: Any
) -> None:
    one, other = (
        profile_of(simulate(graph, timing, execution, scheduler=policy, issue_limit=limit, issue_order=order))
        for _ in range(2)
    )
    assert one.issues == other.issues


@settings(max_examples=50)
@given(graphs(), lambdas, executions, policies, limits)
def test_no_issue_waits_for_nothing(
    graph: Idg, timing: dict[str, Lambdas], execution: Execution, policy: str, limit: Any
) -> None:
    """Every warp's time is told without a hole, from when its group began to its last issue."""
    found = profile_of(simulate(graph, timing, execution, scheduler=policy, issue_limit=limit))
    last: dict[int, Fraction] = {}
    for issue in found.issues:
        moment = last.get(issue.warp)
        for wait in issue.waits:
            begin = found.scenario.clock.cycles(wait.begin)
            assert moment is None or moment == begin
            moment = found.scenario.clock.cycles(wait.end)
        assert moment is None or moment == issue.time
        last[issue.warp] = issue.time
