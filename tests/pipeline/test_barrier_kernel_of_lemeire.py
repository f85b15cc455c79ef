"""The iterative barrier kernel of Lemeire et al., section 6.2, from Loopy source, matches closed forms."""

import pytest
from papers.barriers import graph, latencies, points
from papers.group_counts import combinations

from loopyperf.device.device_library import load_device
from loopyperf.pipeline import Execution, simulate

GPUS = ("nvidia-tesla-c2050", "nvidia-gtx-650-ti", "nvidia-gtx-1060")
"""Table 8"""


def cycles_per_round(name: str, warps_per_group: int, groups: int) -> float:
    device = load_device(name)
    execution = Execution(warps_per_group, groups, groups)
    short, long = (
        simulate(graph(rounds=rounds), latencies(device), execution, issue_limit=device.issue_limit).cycles
        for rounds in (50, 100)
    )
    return (long - short) / 50


def test_source_has_a_computation_and_a_barrier_in_each_round() -> None:
    flat = graph(rounds=7).unrolled()
    assert ["load", *["mul", "barrier"] * 7, "store"] == [each.kind for each in flat.instructions]
    # Each round uses x of the previous one; the chain in the figure includes the barriers.
    ends = {(edge.source, edge.target) for edge in flat.edges}
    assert {(place, place + 1) for place in range(1, 14, 2)} | {(place, place + 2) for place in range(1, 12)} <= ends


def test_time_of_a_round_of_one_group_matches_its_closed_form(subtests: pytest.Subtests) -> None:
    for name in GPUS:
        for warps in [1, 2, 4, 8, 16, 32]:
            with subtests.test(name=name, warps=warps):
                # Warps that are released together compute in turn, s = max(λ, 1/IL) apart. All of them compute before
                # the first barrier, since their turn is earlier: the first barrier issues at max(Λ, W·s). Barriers are
                # λ' apart, and the last one releases all warps Λ' later: max(Λ, W·s) + (W - 1)·λ' + Λ'.
                device = load_device(name)
                compute, barrier = latencies(device)["alu"], latencies(device)["barrier"]
                apart = max(compute.issue, 1 / device.issue_limit)
                assert barrier.issue >= apart
                expected = max(compute.completion, warps * apart) + (warps - 1) * barrier.issue + barrier.completion
                assert expected == cycles_per_round(name, warps, 1)


@pytest.mark.parametrize("name", GPUS)
def test_groups_of_one_warp_do_not_wait_for_each_other(name: str) -> None:
    # The barriers of all resident groups occupy their pipeline for less time than one warp needs for a round.
    device = load_device(name)
    compute, barrier = latencies(device)["alu"], latencies(device)["barrier"]
    groups = device.limits.groups
    assert groups * barrier.issue < compute.completion + barrier.completion
    assert compute.completion + barrier.completion == cycles_per_round(name, 1, groups)


@pytest.mark.parametrize("name", ["nvidia-tesla-c2050", "nvidia-gtx-1060"])
def test_larger_groups_are_slower_at_equal_number_of_warps(name: str) -> None:
    # The paper: "performance is indeed highly influenced by the group size"
    sizes = [size for size in (1, 2, 4, 8, 16, 32) if 32 // size <= load_device(name).limits.groups]
    rounds = [cycles_per_round(name, size, 32 // size) for size in sizes]
    assert rounds == sorted(rounds)
    assert rounds[-1] > 1.4 * rounds[0]


@pytest.mark.parametrize("name", GPUS)
def test_barrier_throughput_does_not_exceed_that_of_its_pipeline(name: str) -> None:
    device = load_device(name)
    full = max(combinations(device), key=lambda each: (each.warps, -each.warps_per_group))
    found = cycles_per_round(name, full.warps_per_group, full.groups)
    assert found >= full.warps * latencies(device)["barrier"].issue


def test_points_are_sorted_by_occupancy_and_then_by_group_size() -> None:
    # "The results are first sorted on occupancy and then on work group size."
    device = load_device("nvidia-tesla-c2050")
    found = list(points(device, rounds=5))
    order = [(each.warps, each.warps_per_group) for each in found]
    assert order == sorted(order)
    assert len(found) == 34
    assert found[0].computations_per_cycle == 1 / found[0].cycles_per_round
