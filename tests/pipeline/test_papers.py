"""Exact results of the papers and of docs/errata.md."""

from fractions import Fraction

import pytest

from loopyperf.device.device_library import load_device
from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.device.occupancy import occupancy
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution, execution_on, simulate

TABLE_2 = [(1, 18), (0.25, 6), (8, 40), (1, 14), (4, 58), (1.75, 29), (23, 521), (12, 378)]
"""Cornelis, Table II: λ and Λ of fadd, cos, loop and memory, on Fermi and on Pascal"""
EXAMPLE = Idg.from_edges(["comp", "comp", "mem", "comp", "comp", "mem"], [(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)])
"""Lemeire, Fig. 1, with one independent computation"""
TWO_PIPELINES = {"comp": Lambdas(1, 4), "mem": Lambdas(2, 6)}


def warps(number: int) -> Execution:
    return Execution(warps_per_group=1, concurrent_groups=number, total_groups=number)


@pytest.mark.parametrize(("issue", "completion"), TABLE_2)
def test_dependent_instructions_match_equation_1_of_cornelis(issue: Cycles, completion: Cycles) -> None:
    length = 5
    chain = Idg.from_edges(["x"], [(0, 0, 1)], trips=length)
    latency = Fraction(completion), Fraction(issue)
    for number in range(1, 65):
        found = simulate(chain, {"x": Lambdas(issue, completion)}, warps(number))
        assert _equation_1(length, number, *latency) == found.exact_cycles, number


def _equation_1(length: int, number: int, completion: Fraction, issue: Fraction) -> Fraction:
    if number < completion / issue:
        return length * completion + (number - 1) * issue
    return completion + (length * number - 1) * issue


def test_one_warp_of_the_example_kernel_takes_25_cycles() -> None:
    assert simulate(EXAMPLE, TWO_PIPELINES, warps(1)).cycles == 25


def test_two_warps_of_the_example_kernel_take_28_cycles() -> None:
    # comp 0 and 1 of warp 0 at 0 and 2, of warp 1 at 1 and 3; mem ready at 6 and 7, issued at 6 and 8, complete at 12
    # and 14; comp 12, 14; comp 16, 18; mem 20, 22, the last one complete at 28
    assert simulate(EXAMPLE, TWO_PIPELINES, warps(2)).cycles == 28


def test_eight_warps_of_the_design_example_match_hand_computation() -> None:
    # The warps issue their first alu from 0 to 7 and their second from 18 to 25. mem is ready at 36 and its pipeline
    # starts one every 23 cycles: the eighth issues at 36 + 7·23 and completes 475 later. The issue limit, 1, has no
    # effect.
    graph = Idg.from_edges(kinds=["alu", "alu", "mem"], edges=[(0, 1), (1, 2)])
    execution = Execution(warps_per_group=1, concurrent_groups=8, total_groups=8)
    timing = {"alu": Lambdas(1, 18), "mem": Lambdas(23, 475)}
    found = simulate(graph, timing, execution, scheduler="round-robin", issue_limit=1.0)
    assert found.cycles == 36 + 7 * 23 + 475
    assert found.instructions == 24


@pytest.mark.parametrize(
    ("subsystems", "limit", "throughput"),
    [(("alu", "alu"), None, 0.5), (("alu", "sfu"), None, 1), (("alu", "sfu"), 1, 0.8)],
)
def test_instruction_mix_throughput_matches_equations_43_to_45(
    subsystems: tuple[str, str], limit: int | None, throughput: float
) -> None:
    # β = 4 instructions of λ = 1, then one of λ = 4: 4/(4 + 4), min(1/1, 4/4), min(1, 4/4, 4/5·1)
    first, second = subsystems
    mix = Idg.from_edges([first] * 4 + [second], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0, 1)], trips=200)
    heavy = {id(mix.instructions[4])}
    found = simulate(
        mix,
        lambda each: Lambdas(4, 18) if id(each) in heavy else Lambdas(1, 18),
        warps(48),
        issue_limit=limit,
    )
    # The pipelines fill and drain once in 200 rounds of 48 warps.
    assert throughput == pytest.approx(4 * 200 * 48 / found.cycles, rel=0.01)


@pytest.mark.parametrize("number", [1, 2, 4, 32])
def test_iterative_barrier_kernel_waits_for_its_last_warp_in_each_round(number: int) -> None:
    # Lemeire, Fig. 15, on Fermi. Computations issue 1 apart, barriers 2 apart from 18 on, so the last one at 18 +
    # 2·(W − 1); 40 later all warps continue.
    graph = Idg.from_edges(["alu", "barrier"], [(0, 1), (1, 0, 1)], trips=20)
    timing = {"alu": Lambdas(1, 18), "barrier": Lambdas(2, 40)}
    found = simulate(graph, timing, Execution(number, 1, 1))
    assert found.cycles == 20 * (18 + 2 * (number - 1) + 40)


def test_separate_groups_do_not_wait_for_each_other_at_barriers() -> None:
    graph = Idg.from_edges(["alu", "barrier"], [(0, 1), (1, 0, 1)], trips=20)
    timing = {"alu": Lambdas(1, 18), "barrier": Lambdas(2, 40)}
    alone, beside = simulate(graph, timing, Execution(1, 1, 1)), simulate(graph, timing, Execution(1, 4, 4))
    # Each of four warps is 2 cycles behind the previous one and does not catch up: 58 > 4·2
    assert beside.cycles == alone.cycles + 3 * 2


def test_waiting_groups_run_in_sequence() -> None:
    chain = Idg.from_edges(["x"], [(0, 0, 1)], trips=10)
    timing = {"x": Lambdas(1, 18)}
    assert simulate(chain, timing, Execution(1, 1, 7)).cycles == 7 * 180
    # 7 groups, 2 at a time: the even ones run in sequence from 0, the odd ones from 1
    assert simulate(chain, timing, Execution(1, 2, 7)).cycles == 4 * 180


def test_store_completes_when_its_pipeline_is_free() -> None:
    # docs/errata.md: Λ of a store is its λ
    store = Idg.from_edges(["alu", "store"], [(0, 1)])
    assert simulate(store, {"alu": Lambdas(1, 18), "store": Lambdas(23, 475)}, warps(1)).cycles == 18 + 23


def test_execution_is_that_of_the_core_with_most_groups() -> None:
    # Volta: 64 warps of 32 lanes and 65536 registers reside on a core, 8 groups of 8 warps with 32 registers each
    resident = occupancy(load_device("nvidia-titan-v"), work_items=256, registers=32)
    # ⌈100 groups / 14 cores⌉ = 8
    assert Execution(8, 8, 8) == execution_on(resident, groups=100, cores=14)
    assert execution_on(resident, groups=100, cores=80).concurrent_warps == 2 * 8
