"""What passes of a loop wait for: by hand, and by running one warp with nothing in its way."""

import pytest

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import slowest_recurrence
from loopyperf.pipeline import warp_latency

CHAIN = ["load", "mul", "add"]


def waited(graph: Idg, completion: list[float]) -> float:
    places = dict.fromkeys(range(len(graph.instructions)), 1.0)
    return sum(slowest_recurrence(graph, completion, places).values())


@pytest.mark.parametrize(
    ("edges", "cycles"),
    [
        ([(0, 1), (1, 2)], 0),  # each pass by itself
        ([(0, 1), (1, 2), (2, 2, 1)], 4),  # a sum
        ([(0, 1), (1, 2), (2, 1, 1)], 4 + 7),  # what is multiplied is the sum
        ([(0, 1), (1, 2), (2, 0, 1)], 4 + 7 + 20),  # a chase of pointers
        ([(0, 1), (1, 2), (2, 1, 2)], (4 + 7) / 2),  # of the pass before the last
        ([(0, 1), (1, 2), (2, 2, 1), (1, 1, 1)], 7),  # the slower one of two
    ],
)
def test_by_hand(edges: list[tuple[int, ...]], cycles: float) -> None:
    graph = Idg.from_edges(CHAIN, edges, trips=100)
    assert waited(graph, [20, 7, 4]) == pytest.approx(100 * cycles)


@pytest.mark.parametrize(
    "edges", [[(0, 1), (1, 2), (2, 2, 1)], [(0, 1), (1, 2), (2, 1, 1)], [(0, 1), (1, 2), (2, 0, 1)]]
)
def test_a_warp_takes_as_much_longer_for_each_pass_where_nothing_else_is_slow(edges: list[tuple[int, ...]]) -> None:
    completion = {"load": 20, "mul": 7, "add": 4}

    def latency(trips: int) -> float:
        graph = Idg.from_edges(CHAIN, edges, trips=trips)
        return float(warp_latency(graph, lambda each: Lambdas(1, completion[each.kind])))

    of_a_pass = waited(Idg.from_edges(CHAIN, edges, trips=100), [20, 7, 4]) / 100
    # A warp issues in order: what waits for the last pass may hold up the first instruction of the next one.
    assert (latency(300) - latency(200)) / 100 >= of_a_pass * (1 - 1e-9)
    if edges[-1][:2] == (2, 0):
        assert (latency(300) - latency(200)) / 100 == pytest.approx(of_a_pass)


def test_only_some_of_the_executions_count() -> None:
    graph = Idg.from_edges(["add"], [(0, 0, 1)], trips=10)
    assert slowest_recurrence(graph, [4.0], {0: 0.5}) == {0: 20.0}
    assert slowest_recurrence(graph, [4.0], {}) == {}
