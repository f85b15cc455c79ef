"""Matrix multiplication of Cornelis and Lemeire, section IV: group counts, graphs, latencies and bank conflicts."""

from collections import Counter

import numpy as np
import pytest
from papers.group_counts import combinations, concurrent_groups
from papers.matrix_multiplication import (
    GPUS,
    TABLE_3,
    conflict_degree,
    gflops,
    kernel,
    latencies,
    paper_graph,
    simulations,
)

from loopyperf.device.device_library import load_device
from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg, Loop
from loopyperf.idg.parallelism import Timing
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.opencl import OpenCLBackend
from loopyperf.measurement.environment import Configuration
from loopyperf.pipeline import Execution, simulate, what_if
from loopyperf.pipeline.scenario import Scenario, scheduler_named
from measurement_kernels.matrix_multiplication import product
from tests.pipeline.dataflow_core import run_dataflow

SIDES = (8, 16)


@pytest.mark.parametrize(("gpu", "number", "warp_counts"), [("Fermi", 34, 18), ("Pascal", 78, 43)])
def test_number_of_group_sizes_and_counts_matches_the_paper(gpu: str, number: int, warp_counts: int) -> None:
    found = combinations(load_device(GPUS[gpu]))
    assert (number, warp_counts) == (len(found), len({each.warps for each in found}))


def test_local_memory_rules_out_some_group_counts_on_pascal() -> None:
    # 96 KiB, allocated in units of 256 B, at most 48 KiB per group: no size allows exactly 1, 23, 26, 28, 30 or 31
    # groups.
    assert set(range(1, 33)) - {1, 23, 26, 28, 30, 31} == set(concurrent_groups(load_device(GPUS["Pascal"]), 32))


# {{{ graphs


@pytest.mark.parametrize("side", SIDES)
def test_graph_from_source_has_the_instructions_of_table_3(side: int) -> None:
    # An iteration loads an element of each matrix and stores it in its tile, between two barriers; each of *side* steps
    # loads two elements and multiplies and adds; then the loop control. After the loop, there is one store
    graph = paper_graph(side)
    (loop,) = (item for item in graph.body if isinstance(item, Loop))
    kinds = [(graph.instructions[place].kind, graph.instructions[place].subsystem) for place in loop.body]
    expected = {("load", "global"): 2, ("store", "local"): 2, ("barrier", "barrier"): 2}
    expected |= {("load", "local"): 2 * side, ("fma", "alu"): side, ("loop", "alu"): 1}
    assert expected == Counter(kinds)
    assert loop.trips == 1024 // side
    outside = [graph.instructions[place].kind for place in graph.body if isinstance(place, int)]
    assert outside == ["store"]


@pytest.mark.parametrize("side", SIDES)
def test_multiply_adds_wait_for_two_local_loads_and_the_previous_one(side: int) -> None:
    graph = paper_graph(side)
    waits = [
        sorted(graph.instructions[edge.source].kind for edge in edges if edge.through == "data" and not edge.is_carried)
        for edges, each in zip(graph.definitions, graph.instructions, strict=True)
        if each.kind == "fma"
    ]
    # "for all but the first one", which waits for the last one of the previous iteration
    assert waits == [["load", "load"], *[["fma", "load", "load"]] * (side - 1)]


@pytest.mark.parametrize(
    ("gpu", "side", "taken"),
    [
        # A + B; (2·side + 2)·local memory; side·fmadd + loop; 2·barrier
        ("Fermi", 8, {"global": 20 + 45, "local": 18 * 2, "alu": 8 * 1 + 4, "barrier": 2 * 3}),
        ("Fermi", 16, {"global": 13 + 17, "local": 34 * 2, "alu": 16 * 1 + 4, "barrier": 2 * 3}),
        ("Pascal", 8, {"global": 7 + 8, "local": 18 * 1, "alu": 8 * 0.25 + 1.75, "barrier": 2 * 2}),
        ("Pascal", 16, {"global": 6 + 10, "local": 34 * 1, "alu": 16 * 0.25 + 1.75, "barrier": 2 * 2}),
    ],
)
def test_iteration_takes_the_issue_latencies_of_table_3(gpu: str, side: int, taken: dict[str, float]) -> None:
    graph, timing, found = paper_graph(side), latencies(gpu, side), Counter[str]()
    (loop,) = (item for item in graph.body if isinstance(item, Loop))
    for place in loop.body:
        found[graph.instructions[place].subsystem] += timing(graph.instructions[place]).issue
    assert taken == found


# }}}

# {{{ simulated times


def test_time_of_one_group_of_two_warps_matches_hand_computation() -> None:
    # Fermi, 8 × 8; time 0 is the release of both warps. They load a at 0 and 20, and b at 40 and 85; the last store of
    # a tile issues when b is there, 85 + 479 = 564, and completes at 566. Barrier; both continue at 566 + 40 = 606. The
    # warps alternate in 32 local loads, 2 apart, the last of each at 666 and 668. From then on each multiplies and adds
    # every 18 cycles: the eighth at 666 + 7·18 = 792, then the loop control from 793 to 797, so that the other warp's
    # eighth issues at 797 and its loop control at 798, complete 58 later, at 856. Barrier; both continue at 856 + 40 =
    # 896. Before this, barriers at 0 and 3 release both warps at 43. After the last iteration, the loop control
    # completes at 856. By then the stores of c have completed: they issue at 792 + 18 = 810 and 23 later.
    found = simulate(paper_graph(8), latencies("Fermi", 8), Execution(2, 1, 1))
    assert found.cycles == 43 + 127 * 896 + 856


@pytest.mark.parametrize(("gpu", "side", "longer"), [("Fermi", 8, 1.37), ("Fermi", 16, 1.10), ("Pascal", 8, 1.55)])
def test_source_order_has_no_parallelism_of_local_loads(gpu: str, side: int, longer: float) -> None:
    # docs/pipeline.md: one group, in which each multiply-add waits for its loads, and the next loads wait for it
    execution, timing = Execution(side * side // 32, 1, 1), latencies(gpu, side)
    source, early = (simulate(paper_graph(side, is_early), timing, execution).cycles for is_early in (False, True))
    assert source / early == pytest.approx(longer, abs=0.01)


def test_dataflow_is_little_faster_than_in_order_unless_control_runs_ahead() -> None:
    # docs/pipeline.md: Fermi, two warps. If the loop control waits only for itself, the warps load 128 tiles at once.
    execution, timing = Execution(2, 1, 1), latencies("Fermi", 8)
    in_order = simulate(paper_graph(8), timing, execution).cycles
    waiting, ahead = (
        _cycles_of_dataflow(paper_graph(8, does_control_wait=waits), timing, execution) for waits in (True, False)
    )
    assert in_order / waiting == pytest.approx(1.04, abs=0.01)
    assert in_order / ahead == pytest.approx(5.8, abs=0.1)


def _cycles_of_dataflow(graph: Idg, timing: Timing, execution: Execution) -> float:
    scenario = Scenario.of((graph,), timing, execution, scheduler_named("round-robin"))
    return float(scenario.clock.cycles(run_dataflow(scenario).finish))


@pytest.mark.parametrize(("gpu", "cycles"), [("Fermi", 16 * 16 + 2 * 2), ("Pascal", 16 * 7 + 2 * 1)])
def test_with_bank_conflicts_local_memory_is_the_bottleneck(gpu: str, cycles: int) -> None:
    # An iteration has 16 local loads at the λ with conflicts and 2 stores at the λ without. The first of four rounds of
    # groups fills the pipeline, the last one drains it.
    found = simulate(paper_graph(8), latencies(gpu, 8, has_conflicts=True), Execution(2, 12, 48))
    assert found.cycles == pytest.approx(48 * 2 * 128 * cycles, rel=0.02)
    assert found.cycles > 48 * 2 * 128 * cycles


def test_what_if_without_conflicts_equals_the_kernel_without_conflicts() -> None:
    execution = Execution(8, 2, 4)
    slow = simulate(paper_graph(16), latencies("Fermi", 16, has_conflicts=True), execution)
    plain = simulate(paper_graph(16), latencies("Fermi", 16), execution)
    assert what_if(slow, lambdas={"local": TABLE_3["Fermi"]["local memory"]}).exact_cycles == plain.exact_cycles
    assert slow.cycles > 2 * plain.cycles


def test_conflicts_follow_from_the_addresses_of_the_source() -> None:
    # The tile is stored by columns, so lanes in a row of the group read 16 words apart. With 32 banks, they use only
    # two banks, 8 words in each. In groups of 8 × 8, every fourth lane uses the same bank: 2 words.
    assert conflict_degree(16) == 7
    assert conflict_degree(8) == 1
    assert conflict_degree(16, has_conflicts=False) == conflict_degree(8, has_conflicts=False) == 0
    # So λ' = (1 + D)·λ is the paper's measurement on Fermi, and one more than its measurement on Pascal. Λ' = Λ + D·λ
    # is far from the measured 250 and 100.
    assert TABLE_3["Fermi"]["local memory"].with_conflicts(7) == Lambdas(16, 61)
    assert TABLE_3["Pascal"]["local memory"].with_conflicts(7) == Lambdas(8, 37)


@pytest.mark.slow
def test_performance_grows_with_groups_until_a_pipeline_is_full() -> None:
    # Fermi, 8 × 8: global memory is busy for 65 cycles per iteration of a warp, which has 8 multiply-adds in 32 lanes.
    found = list(simulations("Fermi", 8))
    assert list(range(2, 17, 2)) == [each.scenario.execution.concurrent_warps for each in found]
    peak = 2 * 8 * 32 / 65 * 14 * 1.15
    performance = [gflops("Fermi", each) for each in found]
    assert performance == sorted(performance)
    assert performance[-1] == pytest.approx(peak, rel=0.01)
    assert performance[0] * 7 == pytest.approx(performance[6], rel=0.03)


# }}}


def test_kernel_with_conflicts_computes_the_product() -> None:
    def arguments(rng: np.random.Generator, sizes: object) -> dict[str, object]:
        matrices = {name: rng.random((32, 32), dtype=np.float32) for name in "abc"}
        return {**matrices, **dict.fromkeys("nml", np.int32(32))}

    form = Configuration(
        "16x16", lambda: kernel(16, has_conflicts=True), ({"n": 32, "m": 32, "l": 32},), arguments, product
    )
    assert OpenCLBackend().time(BenchmarkCase("conflicts", form, form.sizes[0]), 1)
