"""Periodic behavior is simulated once, and the extrapolated result equals that of the full run exactly."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline import SCHEDULERS, Execution, simulate
from loopyperf.pipeline.scenario import Scenario, scheduler_named
from loopyperf.pipeline.simulator import CoreRun, run
from loopyperf.polyhedral.affine import Affine
from tests.pipeline.random_scenarios import executions, graphs, lambdas, limits, long_graphs, policies

FERMI = {"alu": Lambdas(1, 18), "mem": Lambdas(23, 475), "barrier": Lambdas(2, 40)}


@settings(max_examples=90)
@given(st.data(), lambdas, executions, st.booleans(), policies, limits)
def test_extrapolated_run_equals_the_full_run(
    data: st.DataObject, timing: dict[str, Lambdas], execution: Execution, has_loop: bool, policy: str, limit: object
) -> None:
    number = data.draw(st.sampled_from([1, 1, execution.warps_per_group]))
    warp_graphs = tuple(data.draw(long_graphs() if has_loop else graphs()) for _ in range(number))
    if not has_loop:
        execution = replace(execution, total_groups=execution.total_groups * 15)
    scenario = Scenario.of(warp_graphs, timing, execution, scheduler_named(policy), limit)  # type: ignore[arg-type]
    full = run(scenario, scenario.clock, is_traced=True, is_steady_sought=False)
    short = run(scenario, scenario.clock, is_traced=True)
    assert (full.finish, full.issued, full.busy) == (short.finish, short.issued, short.busy)
    event(f"skipped {'most' if len(short.trace) < full.issued / 2 else 'some' if short.repeats else 'nothing'}")


def test_simulation_cost_does_not_depend_on_the_trip_count() -> None:
    # Equation 1 of Cornelis for 10⁹ dependent instructions in each of 64 warps
    chain = Idg.from_edges(["alu"], [(0, 0, 1)], trips=10**9)
    found = simulate(chain, {"alu": Lambdas(0.25, 6)}, Execution(1, 64, 64))
    assert found.exact_cycles == 6 + (64 * 10**9 - 1) * Fraction(1, 4)
    assert found.instructions == 64 * 10**9


def test_simulation_cost_does_not_depend_on_the_number_of_groups() -> None:
    graph = Idg.from_edges(["alu", "mem", "barrier", "alu"], [(0, 1), (1, 3)])
    found = simulate(graph, FERMI, Execution(4, 3, 3 * 10**7))
    # A group takes 580 cycles: alu until 18, its four mem 23 apart, 475 for the last one, and alu again. Three groups
    # share mem, which is busy for 12·23 < 580 cycles per round, so they start mem in sequence: the last group 2·4·23
    # later.
    assert found.cycles == 10**7 * (18 + 3 * 23 + 475 + 18) + 2 * 4 * 23
    assert found.instructions == 3 * 10**7 * 16


def test_differing_iterations_are_not_skipped() -> None:
    # One more instruction in iteration 70 000
    once = Instruction("mem", subsystem="mem", executions=1, condition=parse("i == 70000"))
    each = Instruction("alu", subsystem="alu", executions=100_000)
    carried = Edge(0, 0, (1,), (Affine.variable("i", -1),))
    used = Edge(1, 0, (1,), (Affine.variable("i", -1),))
    graph = Idg((each, once), (carried, used), (Loop("i", 100_000, (0, 1)),))
    found = simulate(graph, FERMI, Execution(1, 1, 1))
    # The chain of 100 000, and mem in place of one link: it issues with the alu of its iteration
    assert found.exact_cycles == 99_999 * 18 + 475
    assert found.instructions == 100_001


def nested(outer: int, middle: int, inner: int) -> Idg:
    """Return nested loops: alu in the outer one, mem and a summing alu in the inner one, sfu after the inner loop."""
    numbers = [("alu", 1), ("mem", middle * inner), ("alu", middle * inner), ("sfu", middle)]
    instructions = [Instruction(name, subsystem=name, executions=outer * number) for name, number in numbers]
    i, k = map(Affine.variable, "ik")
    edges = (
        Edge.within(1, 2, "ikj"),
        Edge(2, 2, (0, 0, 1), (i, k, Affine.variable("j", -1))),
        Edge(2, 3, (0, 0), (i, k, Affine((), inner - 1))),
    )
    loop = Loop("i", outer, (0, Loop("k", middle, (Loop("j", inner, (1, 2)), 3))))
    return Idg(tuple(instructions), edges, (loop,))


@pytest.mark.parametrize("policy", SCHEDULERS)
@pytest.mark.parametrize("execution", [Execution(1, 1, 1), Execution(2, 3, 7)])
def test_simulation_cost_does_not_depend_on_nested_trip_counts(policy: str, execution: Execution) -> None:
    def of(trips: tuple[int, int, int], limit: int) -> CoreRun:
        scenario = Scenario.of(
            (nested(*trips),), {**FERMI, "sfu": Lambdas(0.25, 6)}, execution, scheduler_named(policy)
        )
        return run(scenario, scenario.clock, limit=limit)

    # 10¹² executions of a warp, at the cost of some thousand; each further iteration takes as long as the previous one.
    found = [of((100, 1000, 10**7 + more), 100_000).finish for more in (0, 1, 2)]
    assert found[2] - found[1] == found[1] - found[0] > 0


def test_time_of_a_nested_sum_follows_from_its_load_latencies() -> None:
    found = simulate(nested(100, 100, 10**6), {**FERMI, "sfu": Lambdas(0.25, 6)}, Execution(1, 1, 1))
    # Each alu waits for its load, and the next load issues after the alu. sfu issues 18 cycles after the last alu of
    # the inner loop, with the next load. The last sfu completes 6 cycles after its issue.
    assert found.instructions == 100 + 100 * 100 * (2 * 10**6 + 1)
    assert found.exact_cycles == 10**10 * 475 + 100 * 100 * 18 + 6


def test_warp_that_issues_without_interruption_is_in_a_steady_state() -> None:
    # Greedy policies execute the first warp almost completely before the second one, except for the cycles that λ
    # leaves.
    chain = Idg.from_edges(["alu"], [], trips=10**9)
    for policy in SCHEDULERS:
        found = simulate(chain, {"alu": Lambdas(2, 18)}, Execution(1, 2, 2), scheduler=policy)
        assert found.exact_cycles == (2 * 10**9 - 1) * 2 + 18
