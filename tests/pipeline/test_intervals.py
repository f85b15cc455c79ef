"""GPUMech's intervals against the papers' numbers, hand computation and unrolled graphs."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline import Interval, intervals
from loopyperf.polyhedral.affine import Affine
from tests.idg.published_graphs import LEMEIRE, LEMEIRE_LAST_TWO, LOADED, MEMORY, TWO_PIPELINES
from tests.idg.reference_warp import stalls_alone
from tests.idg.rolled_graphs import lambdas, rolled_graphs


@pytest.mark.parametrize("graph", [LEMEIRE, LEMEIRE_LAST_TWO])
def test_intervals_of_the_example_kernel_match_the_paper(graph: Idg) -> None:
    assert intervals(graph, TWO_PIPELINES, MEMORY) == (Interval(2, Fraction(6), 2),)


def test_instructions_after_a_load_shorten_its_stall() -> None:
    # GPUMech's Fig. 8, three instructions and then six stall cycles: here a load, three instructions, and one that uses
    # the load after 9 cycles
    graph = Idg.from_edges(["mem", "comp", "comp", "comp", "comp"], [(0, 4)])
    assert intervals(graph, {"mem": Lambdas(2, 9)}, MEMORY) == (
        Interval(3, Fraction(6), 1),
        Interval(1, Fraction(0), 1),
    )


def test_loop_has_an_interval_in_each_iteration() -> None:
    # The first load stalls at once; each later one issues after one addition; no load follows the last addition
    assert intervals(LOADED, TWO_PIPELINES, MEMORY) == (
        Interval(0, Fraction(6), 1),
        Interval(1, Fraction(6), 99),
        Interval(1, Fraction(0), 1),
    )


def test_intervals_of_skipped_iterations_of_nested_loops_are_counted() -> None:
    # As above, but a loop of a million iterations is nested in one of 1000, and a second addition follows each inner
    # loop.
    instructions = tuple(Instruction(name, subsystem=name) for name in ("mem", "comp", "comp"))
    used = Edge(0, 1, (0, 0), (Affine.variable("i"), Affine.variable("j")))
    graph = Idg(instructions, (used,), (Loop("i", 1000, (Loop("j", 10**6, (0, 1)), 2)),))
    assert Counter(
        {(each.instructions, each.stall): each.number for each in intervals(graph, TWO_PIPELINES, MEMORY)}
    ) == {(0, 6): 1, (1, 6): 1000 * (10**6 - 1), (2, 6): 999, (2, 0): 1}


def test_instructions_of_a_loop_without_loads_are_one_interval() -> None:
    graph = Idg.from_edges(["comp", "comp"], [(0, 1), (1, 0, 1)], trips=10**9)
    assert intervals(graph, {}, MEMORY) == (Interval(2 * 10**9, Fraction(0), 1),)


def test_concurrent_loads_stall_once() -> None:
    graph = Idg.from_edges(["mem", "mem", "comp"], [(0, 2), (1, 2)])
    assert intervals(graph, TWO_PIPELINES, MEMORY) == (Interval(0, Fraction(6), 1), Interval(1, Fraction(0), 1))


def test_stores_cause_no_stall() -> None:
    store = Instruction("store", subsystem="mem")
    graph = Idg((Instruction("add", subsystem="comp"), store), (Edge(0, 1),), (0, 1))
    assert intervals(graph, TWO_PIPELINES, MEMORY) == (Interval(1, Fraction(0), 1),)


def test_memory_without_latencies_is_refused() -> None:
    with pytest.raises(GraphError, match="no latencies for 'mem'"):
        intervals(LEMEIRE, {"comp": Lambdas(1, 4)}, MEMORY)


@settings(max_examples=200)
@given(rolled_graphs(), lambdas)
def test_rolled_graph_has_the_intervals_of_the_unrolled_one(graph: Idg, timing: dict[str, Lambdas]) -> None:
    found = intervals(graph, timing, MEMORY)
    expected = stalls_alone(graph.unrolled(), "mem", Fraction(timing["mem"].completion))
    assert expected == Counter({(each.instructions, each.stall): each.number for each in found})
