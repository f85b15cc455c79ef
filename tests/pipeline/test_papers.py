"""Exact results of the papers and of docs/errata.md."""

import csv
from fractions import Fraction
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import paper_figures
import pytest
from papers.staircase import GROUPS, PASSES, Blocking, Precision, Staircase, graph, kernel, staircase

from loopyperf.device.device_library import load_device
from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.device.occupancy import occupancy
from loopyperf.idg import Idg
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.opencl import OpenCLBackend
from loopyperf.measurement.environment import Configuration
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
        mix, lambda each: Lambdas(4, 18) if id(each) in heavy else Lambdas(1, 18), warps(48), issue_limit=limit
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


# {{{ dao et al., section 4: effects of their scheduler on the groups of a core, and cases without an effect

cached_staircase = cache(staircase)


def test_iteration_has_its_additions_and_the_loop_control() -> None:
    # nvcc's loop with a trip count given at run time: two counters, compares and branches (docs/compiler.md, section 2)
    for additions in (1, 2, 3):
        mix = graph(additions, "f64").mix()
        assert mix["add", "f64"] == additions * PASSES
        assert mix["integer", "i32"] + mix["compare", "i32"] + mix["branch", "i32"] == 4 * PASSES


def test_groups_finish_together_if_warps_do_not_block() -> None:
    # Fig. 6a, and its explanation: "warps seldom block and thus run more or less at the same speed"
    assert cached_staircase(1, "f32", "double precision").steepness < 0.02


@pytest.mark.parametrize("additions", [1, 2, 3])
@pytest.mark.parametrize("blocking", ["double precision", "every operand"])
def test_double_precision_makes_a_staircase(additions: int, blocking: Blocking) -> None:
    # Fig. 6b. Six groups of equal work finish about a sixth of the time apart.
    found = cached_staircase(additions, "f64", blocking).finished
    assert list(found) == sorted(found)
    apart = np.diff(found)
    assert min(apart) > 0.13
    assert found[0] < 0.25


@pytest.mark.parametrize("additions", [1, 2, 3])
def test_each_group_progresses_after_the_group_two_before_it_finished(additions: int) -> None:
    # Fig. 7: the third group "does not even start running past the first couple of loop iterations before the first
    # work-group has finished", the fourth "effectively starts executing when the second one finishes", the fifth when
    # the third does. All of them issue their first instruction at about 0.
    times = cached_staircase(additions, "f64", "double precision").times
    last = times[-1].finish
    assert all(each.start < 0.02 * last for each in times)
    for earlier, later in zip(times, times[2:], strict=False):
        assert later.milestones[0] > earlier.finish


def test_round_robin_has_no_staircase() -> None:
    assert cached_staircase(3, "f64", "double precision", "round-robin").steepness < 0.02


def test_more_additions_do_not_make_the_staircase_steeper() -> None:
    # The paper's staircase is "more pronounced" with more additions. By the paper's rule it is less so: an iteration
    # occupies the pipeline for 2·a + 4 cycles and takes a warp 22·a, so that 3.7, 5.5 and 6.6 warps fill it. One
    # addition leaves the least for the second group beside the first.
    one, two, three = (cached_staircase(additions, "f64", "double precision").steepness for additions in (1, 2, 3))
    assert one > max(two, three) + 0.03


def test_blocking_on_every_operand_makes_a_staircase_in_single_precision() -> None:
    # The paper did not observe this: on its device, single-precision operands do not block a warp, which contradicts
    # the paper's text.
    assert cached_staircase(1, "f32", "every operand").steepness > 0.7


def test_waiting_groups_start_when_others_finish() -> None:
    # Fig. 5a, with two groups at once: 32 of 96 start together. Each of the next ones starts when there is room and it
    # has its turn, which is after those of the waiting warps.
    times = cached_staircase(1, "f32", "double precision", "quantum", 2).times
    starts = [float(each.start) for each in times]
    length = float(times[0].finish)
    assert starts[:2] == pytest.approx([0, 0], abs=0.02 * length)
    assert starts[2:] == pytest.approx([float(each.finish) for each in times[:4]], abs=0.02 * length)
    assert all(later.start >= earlier.finish for earlier, later in zip(times, times[2:], strict=False))


def test_groups_are_assigned_to_cores_in_turn() -> None:
    # "the work-group scheduler distributes the first 16 work-groups one-by-one to each of the 16 SMs"
    found: Staircase = cached_staircase(1, "f32", "double precision")
    of_device = found.of_device(cores=16)
    assert sorted(of_device) == list(range(GROUPS))
    assert of_device[0] == of_device[15] == found.times[0]
    assert of_device[95] == found.times[5]


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_kernel_adds(precision: Precision) -> None:
    dtype = {"f32": np.float32, "f64": np.float64}[precision]

    def arguments(rng: np.random.Generator, sizes: object) -> dict[str, object]:
        zeros = np.zeros(256, dtype=dtype)
        return {"start": zeros, "result": zeros.copy(), "n": np.int32(256), "passes": np.int32(4)}

    def reference(given: dict[str, object]) -> dict[str, np.ndarray]:
        return {"result": np.full(256, 4 * (1.5 + 2.5 + 3.5), dtype=dtype)}

    form = Configuration("3", lambda: kernel(3, precision), ({"n": 256, "passes": 4},), arguments, reference)
    assert OpenCLBackend().time(BenchmarkCase("additions", form, form.sizes[0]), 1)


# }}}


# {{{ the script that writes the data of the papers' figures


def test_rows_are_written_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paper_figures, "FIGURES", {"dao-5-to-8": lambda: islice(paper_figures.stairs(), 96)})
    paper_figures.main(tmp_path / "new")
    with (tmp_path / "new" / "dao-5-to-8.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["group"]) for row in rows] == list(range(96))
    milestones = [[float(row[name]) for name in ("start", "20%", "40%", "60%", "80%", "finish")] for row in rows]
    assert all(each == sorted(each) for each in milestones)
    assert (tmp_path / "new" / "dao-5-to-8.svg").read_text(encoding="utf-8").startswith("<?xml")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3 + len(rows)  # an empty line, the title and the column names


def test_every_figure_has_rows() -> None:
    for rows in paper_figures.FIGURES.values():
        (row,) = islice(rows(), 1)
        assert all(value != "" for value in row.values())


# }}}
