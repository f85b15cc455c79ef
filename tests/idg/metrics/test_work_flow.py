"""Test the work flow graph of Baghsorkhi: nodes, transitions and dependences derived by hand."""

from fractions import Fraction

from hypothesis import given, settings

from loopyperf.idg import Idg
from loopyperf.idg.parallelism import Arc, Node, work_flow_graph
from tests.idg.metrics.test_blocks import tiled
from tests.idg.published_graphs import LEMEIRE, LEMEIRE_LAST_TWO, LOADED, MEMORY
from tests.idg.rolled_graphs import rolled_graphs


def test_example_kernel_has_a_block_of_two_before_each_memory_operation() -> None:
    found = work_flow_graph(LEMEIRE, MEMORY)
    assert found.nodes == (
        Node("computation", (0, 1), Fraction(2), 1),
        Node("memory", (2,), Fraction(1), 1),
        Node("computation", (3, 4), Fraction(1), 1),
        Node("memory", (5,), Fraction(1), 1),
    )
    assert found.transitions == (Arc(0, 1), Arc(1, 2), Arc(2, 3))
    assert found.dependences == (Arc(1, 2),)
    assert [node.ilp for node in work_flow_graph(LEMEIRE_LAST_TWO, MEMORY).nodes] == [1, 1, 2, 1]


def test_loop_has_a_transition_back_to_its_first_node() -> None:
    # mul | load | store to local memory | barrier | load from local memory, fma | store to global memory
    found = work_flow_graph(tiled())
    assert [node.sort for node in found.nodes] == [
        "computation",
        "memory",
        "computation",
        "barrier",
        "computation",
        "memory",
    ]
    assert [node.executions for node in found.nodes] == [1, 4, 4, 4, 64, 1]
    back = (Arc(4, 1, is_carried=True), Arc(4, 4, is_carried=True))
    assert found.transitions == (Arc(0, 1), Arc(1, 2), Arc(2, 3), Arc(3, 4), *back, Arc(4, 5))


def test_load_one_iteration_ahead_is_a_carried_dependence() -> None:
    ahead = Idg.from_edges(["mem", "comp"], [(0, 1, 1)], trips=100)
    assert work_flow_graph(ahead, MEMORY).dependences == (Arc(0, 1, is_carried=True),)
    assert work_flow_graph(LOADED, MEMORY).dependences == (Arc(0, 1),)


@settings(max_examples=100)
@given(rolled_graphs())
def test_nodes_execute_each_instruction(graph: Idg) -> None:
    for node in work_flow_graph(graph, MEMORY).nodes:
        for each in (graph.instructions[place] for place in node.instructions):
            sort = "barrier" if each.kind == "barrier" else "memory" if each.subsystem in MEMORY else "computation"
            assert (node.sort, node.executions) == (sort, each.executions)
