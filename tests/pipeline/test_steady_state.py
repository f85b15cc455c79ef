"""What repeats is done once, and the result is that of the run in full, exactly."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import event, given, settings
from hypothesis import strategies as st
from pymbolic import parse
from random_scenarios import executions, graphs, lambdas, limits, long_graphs, policies

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline import Execution, simulate
from loopyperf.pipeline.core import run
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.schedulers import scheduler_named

FERMI = {"alu": Lambdas(1, 18), "mem": Lambdas(23, 475), "barrier": Lambdas(2, 40)}


@settings(max_examples=120)
@given(st.data(), lambdas, executions, st.booleans(), policies, limits)
def test_run_that_skips_ends_as_the_one_in_full(
    data: st.DataObject, timing: dict[str, Lambdas], execution: Execution, has_loop: bool, policy: str, limit: object
) -> None:
    number = data.draw(st.sampled_from([1, 1, execution.warps_per_group]))
    kinds = tuple(data.draw(long_graphs() if has_loop else graphs()) for _ in range(number))
    if not has_loop:
        execution = replace(execution, total_groups=execution.total_groups * 15)
    scenario = Scenario(kinds, timing, execution, scheduler_named(policy), limit)  # type: ignore[arg-type]
    full = run(scenario, scenario.clock, is_traced=True)
    short = run(scenario, scenario.clock, most_in_python=5)
    assert (full.finish, full.issued, full.busy) == (short.finish, short.issued, short.busy)
    event("long" if full.issued > 1000 else "short")


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
    carried = Edge(0, 0, (1,), (parse("i - 1"),))
    used = Edge(1, 0, (1,), (parse("i - 1"),))
    graph = Idg((each, once), (carried, used), (Loop("i", 100_000, (0, 1)),))
    found = simulate(graph, FERMI, Execution(1, 1, 1))
    # the chain of 100 000, and mem in place of one link: it issues with the alu of its pass
    assert found.exact_cycles == 99_999 * 18 + 475
    assert found.instructions == 100_001
