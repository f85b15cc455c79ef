"""Test instruction-level and memory-level parallelism, as Sim (section 5.3) defines them, against hand calculations."""

from fractions import Fraction

from hypothesis import given, settings

from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.idg.parallelism import ilp, mlp
from tests.idg.published_graphs import CORNELIS, LEMEIRE, LEMEIRE_LAST_TWO, LOADED, MEMORY
from tests.idg.rolled_graphs import rolled_graphs


def test_example_kernel_issues_six_instructions_in_five_groups() -> None:
    assert (ilp(LEMEIRE), ilp(LEMEIRE_LAST_TWO)) == (Fraction(6, 5), Fraction(6, 5))
    assert mlp(LEMEIRE, MEMORY) == 1


def test_saxpy_loads_both_operands_together() -> None:
    # index | X, Y | fma | store: five instructions in four groups.
    # From X to its use there are two requests, from Y one.
    assert ilp(CORNELIS) == Fraction(5, 4)
    assert mlp(CORNELIS) == Fraction(3, 2)


def test_ilp_of_a_chain_and_of_independent_instructions() -> None:
    assert ilp(Idg.from_edges(["alu"] * 4, [(0, 1), (1, 2), (2, 3)])) == 1
    assert ilp(Idg.from_edges(["alu"] * 4, [])) == 4


def test_loop_carried_dependence_does_not_reduce_ilp() -> None:
    assert ilp(Idg.from_edges(["alu", "alu"], [(0, 1, 1), (1, 0, 1)], trips=9)) == 2


def test_ilp_weights_blocks_by_their_executions() -> None:
    # A chain of two once, ILP 1; ten iterations of two independent instructions, ILP 2: (1·1 + 10·2)/11
    instructions = (
        *[Instruction("add", subsystem="alu")] * 2,
        *[Instruction("add", subsystem="alu", executions=10)] * 2,
    )
    graph = Idg(instructions, (Edge(0, 1),), (0, 1, Loop("k", 10, (2, 3))))
    assert ilp(graph) == Fraction(21, 11)


def test_ilp_excludes_barriers() -> None:
    assert ilp(Idg.from_edges(["alu", "alu", "barrier"], [])) == 2


def test_mlp_of_a_load_that_is_used_immediately_is_1() -> None:
    assert mlp(LOADED, MEMORY) == 1


def test_load_one_iteration_ahead_overlaps_with_the_next_request() -> None:
    # load; use of the previous iteration's load: between them are the load itself and that of the use's iteration
    assert mlp(Idg.from_edges(["mem", "comp"], [(0, 1, 1)], trips=100), MEMORY) == 2
    # the use precedes the load: only the load itself
    assert mlp(Idg.from_edges(["comp", "mem"], [(1, 0, 1)], trips=100), MEMORY) == 1
    # three iterations ahead: two more iterations with a request each
    assert mlp(Idg.from_edges(["mem", "comp"], [(0, 1, 3)], trips=100), MEMORY) == 4


def test_mlp_counts_stores_as_requests_but_not_as_loads() -> None:
    # load, store of another value, use: two requests from the load on; the store has no MLP of its own
    instructions = (
        Instruction("load", subsystem="global"),
        Instruction("store", subsystem="global"),
        Instruction("add"),
    )
    assert mlp(Idg(instructions, (Edge(0, 2),), (0, 1, 2))) == 2


def test_unused_load_is_in_flight_until_the_end() -> None:
    assert mlp(Idg.from_edges(["mem", "comp", "mem"], []), MEMORY) == Fraction(2 + 1, 2)


def test_mlp_counts_requests_until_the_first_use() -> None:
    assert mlp(Idg.from_edges(["mem", "comp", "mem", "mem", "comp"], [(0, 4), (0, 1), (2, 4), (3, 4)]), MEMORY) == (
        Fraction(1 + 2 + 1, 3)
    )


def test_without_loads_mlp_is_1() -> None:
    assert (mlp(Idg.from_edges(["alu"], [])), ilp(Idg((), (), ()))) == (1, 1)


@settings(max_examples=100)
@given(rolled_graphs())
def test_parallelism_is_within_its_bounds(graph: Idg) -> None:
    assert 1 <= ilp(graph) <= len(graph.instructions)
    assert mlp(graph, MEMORY) >= 1
