"""Test recurrences of loops: by hand, and against the latency of one warp."""

import pytest

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import slowest_recurrence
from loopyperf.pipeline import warp_latency

CHAIN = ["load", "mul", "add"]


def recurrence_cycles(graph: Idg, completion: list[float]) -> float:
    places = dict.fromkeys(range(len(graph.instructions)), 1.0)
    return sum(slowest_recurrence(graph, completion, places).values())


@pytest.mark.parametrize(
    ("edges", "cycles"),
    [
        ([(0, 1), (1, 2)], 0),  # independent iterations
        ([(0, 1), (1, 2), (2, 2, 1)], 4),  # a sum
        ([(0, 1), (1, 2), (2, 1, 1)], 4 + 7),  # the sum is multiplied
        ([(0, 1), (1, 2), (2, 0, 1)], 4 + 7 + 20),  # pointer chasing
        ([(0, 1), (1, 2), (2, 1, 2)], (4 + 7) / 2),  # distance of two iterations
        ([(0, 1), (1, 2), (2, 2, 1), (1, 1, 1)], 7),  # the slower of two recurrences
    ],
)
def test_recurrence_cycles_derived_by_hand(edges: list[tuple[int, ...]], cycles: float) -> None:
    graph = Idg.from_edges(CHAIN, edges, trips=100)
    assert recurrence_cycles(graph, [20, 7, 4]) == pytest.approx(100 * cycles)


@pytest.mark.parametrize(
    "edges", [[(0, 1), (1, 2), (2, 2, 1)], [(0, 1), (1, 2), (2, 1, 1)], [(0, 1), (1, 2), (2, 0, 1)]]
)
def test_recurrence_bounds_the_warp_latency_per_iteration(edges: list[tuple[int, ...]]) -> None:
    completion = {"load": 20, "mul": 7, "add": 4}

    def latency(trips: int) -> float:
        graph = Idg.from_edges(CHAIN, edges, trips=trips)
        return float(warp_latency(graph, lambda each: Lambdas(1, completion[each.kind])))

    per_iteration = recurrence_cycles(Idg.from_edges(CHAIN, edges, trips=100), [20, 7, 4]) / 100
    # A warp issues in order: an instruction that waits for the previous iteration may delay the first one of the next.
    assert (latency(300) - latency(200)) / 100 >= per_iteration * (1 - 1e-9)
    if edges[-1][:2] == (2, 0):
        assert (latency(300) - latency(200)) / 100 == pytest.approx(per_iteration)


def test_recurrence_counts_the_given_share_of_executions() -> None:
    graph = Idg.from_edges(["add"], [(0, 0, 1)], trips=10)
    assert slowest_recurrence(graph, [4.0], {0: 0.5}) == {0: 20.0}
    assert slowest_recurrence(graph, [4.0], {}) == {}
