"""What repeats is done once, and the result is that of the run in full, exactly."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline import SCHEDULERS, Execution, simulate
from loopyperf.pipeline.core import CoreRun, run
from loopyperf.pipeline.scenario import Scenario, scheduler_named
from loopyperf.polyhedral.affine import Affine
from tests.pipeline.random_scenarios import executions, graphs, lambdas, limits, long_graphs, policies

FERMI = {"alu": Lambdas(1, 18), "mem": Lambdas(23, 475), "barrier": Lambdas(2, 40)}


@settings(max_examples=90)
@given(st.data(), lambdas, executions, st.booleans(), policies, limits)
def test_run_that_skips_ends_as_the_one_in_full(
    data: st.DataObject, timing: dict[str, Lambdas], execution: Execution, has_loop: bool, policy: str, limit: object
) -> None:
    number = data.draw(st.sampled_from([1, 1, execution.warps_per_group]))
    kinds = tuple(data.draw(long_graphs() if has_loop else graphs()) for _ in range(number))
    if not has_loop:
        execution = replace(execution, total_groups=execution.total_groups * 15)
    scenario = Scenario.of(kinds, timing, execution, scheduler_named(policy), limit)  # type: ignore[arg-type]
    full = run(scenario, scenario.clock, is_traced=True, is_steady_sought=False)
    short = run(scenario, scenario.clock, is_traced=True)
    assert (full.finish, full.issued, full.busy) == (short.finish, short.issued, short.busy)
    event(f"skipped {'most' if len(short.trace) < full.issued / 2 else 'some' if short.repeats else 'nothing'}")


def test_length_of_a_loop_does_not_cost_time() -> None:
    # Equation 1 of Cornelis for 10⁹ dependent instructions of each of 64 warps
    chain = Idg.from_edges(["alu"], [(0, 0, 1)], trips=10**9)
    found = simulate(chain, {"alu": Lambdas(0.25, 6)}, Execution(1, 64, 64))
    assert found.exact_cycles == 6 + (64 * 10**9 - 1) * Fraction(1, 4)
    assert found.instructions == 64 * 10**9


def test_number_of_groups_does_not_cost_time() -> None:
    graph = Idg.from_edges(["alu", "mem", "barrier", "alu"], [(0, 1), (1, 3)])
    found = simulate(graph, FERMI, Execution(4, 3, 3 * 10**7))
    # A group: alu until 18, its four mem 23 apart, the last one's 475, alu again. Three groups share mem, which takes
    # 12·23 < 580 of each such time, and so begin it one after the other: the last of them 2·4·23 later.
    assert found.cycles == 10**7 * (18 + 3 * 23 + 475 + 18) + 2 * 4 * 23
    assert found.instructions == 3 * 10**7 * 16


def test_passes_that_differ_are_not_skipped() -> None:
    # An instruction more in pass 70 000, and a loop inside that grows by one each 2 passes
    once = Instruction("mem", subsystem="mem", executions=1, condition=parse("i == 70000"))
    each = Instruction("alu", subsystem="alu", executions=100_000)
    carried = Edge(0, 0, (1,), (Affine.variable("i", -1),))
    used = Edge(1, 0, (1,), (Affine.variable("i", -1),))
    graph = Idg((each, once), (carried, used), (Loop("i", 100_000, (0, 1)),))
    found = simulate(graph, FERMI, Execution(1, 1, 1))
    # the chain of 100 000, and mem in place of one link: it issues with the alu of its pass
    assert found.exact_cycles == 99_999 * 18 + 475
    assert found.instructions == 100_001


def nested(around: int, middle: int, inside: int) -> Idg:
    """Return three nested loops: alu in the outer one, mem and alu that sums up inside, and sfu that takes the sum."""
    numbers = [("alu", 1), ("mem", middle * inside), ("alu", middle * inside), ("sfu", middle)]
    instructions = [Instruction(name, subsystem=name, executions=around * number) for name, number in numbers]
    i, k = map(Affine.variable, "ik")
    edges = (
        Edge.within(1, 2, "ikj"),
        Edge(2, 2, (0, 0, 1), (i, k, Affine.variable("j", -1))),
        Edge(2, 3, (0, 0), (i, k, Affine((), inside - 1))),
    )
    loop = Loop("i", around, (0, Loop("k", middle, (Loop("j", inside, (1, 2)), 3))))
    return Idg(tuple(instructions), edges, (loop,))


@pytest.mark.parametrize("policy", SCHEDULERS)
@pytest.mark.parametrize("execution", [Execution(1, 1, 1), Execution(2, 3, 7)])
def test_loops_in_loops_do_not_cost_time(policy: str, execution: Execution) -> None:
    def of(trips: tuple[int, int, int], limit: int) -> CoreRun:
        scenario = Scenario.of(
            (nested(*trips),), {**FERMI, "sfu": Lambdas(0.25, 6)}, execution, scheduler_named(policy)
        )
        return run(scenario, scenario.clock, limit=limit)

    # 10¹² executions of a warp, at the price of some thousand; each further iteration takes as long as the one before.
    found = [of((100, 1000, 10**7 + more), 100_000).finish for more in (0, 1, 2)]
    assert found[2] - found[1] == found[1] - found[0] > 0


def test_sum_in_loops_takes_what_each_of_its_loads_takes() -> None:
    found = simulate(nested(100, 100, 10**6), {**FERMI, "sfu": Lambdas(0.25, 6)}, Execution(1, 1, 1))
    # Each alu waits for its load, and the next load for its turn after the alu. 18 after the last alu of a loop sfu
    # issues, with the next load; but at the end of the loop around alu, 1 earlier than it.
    assert found.instructions == 100 + 100 * 100 * (2 * 10**6 + 1)
    assert found.exact_cycles == 10**10 * 475 + 100 * 100 * 18 + 6


def test_a_warp_that_goes_on_for_ever_is_in_a_steady_state() -> None:
    # Greedy: the first warp does all of its work before the second one gets a turn, but for what λ leaves.
    chain = Idg.from_edges(["alu"], [], trips=10**9)
    for policy in SCHEDULERS:
        found = simulate(chain, {"alu": Lambdas(2, 18)}, Execution(1, 2, 2), scheduler=policy)
        assert found.exact_cycles == (2 * 10**9 - 1) * 2 + 18
