"""Test graphs that are built from edges, their unrolling, and errors of invalid graphs."""

import copy
import json
import pickle

import loopy as lp
import msgspec
import numpy as np
import pytest
from pymbolic import parse

import loopyperf as lpp
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.errors import GraphError
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.idg.program import Dependence, Opcode, common_depth
from loopyperf.polyhedral.affine import Affine
from loopyperf.stages.timing import timed_program
from loopyperf.units import Word


def pairs(graph: Idg) -> list[tuple[int, int]]:
    return sorted((edge.source, edge.target) for edge in graph.edges)


def test_graph_is_built_from_kinds_and_edges() -> None:
    graph = Idg.from_edges(kinds=["alu", "alu", "mem"], edges=[(0, 1), (1, 2)])
    assert [each.subsystem for each in graph.instructions] == ["alu", "alu", "mem"]
    assert (graph.order, graph.executed) == ((0, 1, 2), 3)
    assert graph.mix() == {("alu", ""): 2, ("mem", ""): 1}


def test_unrolling_a_graph_without_loops_changes_nothing() -> None:
    graph = Idg.from_edges(["alu", "alu", "mem"], [(0, 2), (1, 2)])
    assert pairs(graph.unrolled()) == [(0, 2), (1, 2)]


def test_loop_is_stored_as_one_body_for_any_trip_count() -> None:
    graph = Idg.from_edges(["alu", "mem"], [(0, 1), (0, 0, 1)], trips=10**6)
    assert (len(graph.instructions), graph.executed) == (2, 2 * 10**6)


def test_unrolled_iterations_depend_on_earlier_iterations() -> None:
    # Three iterations of two instructions: (0, 1), (2, 3), (4, 5). The second uses the first of its own iteration; the
    # first uses the second of the previous iteration, and the first of two iterations before.
    graph = Idg.from_edges(["alu", "mem"], [(0, 1), (1, 0, 1), (0, 0, 2)], trips=3)
    assert pairs(graph.unrolled()) == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4), (4, 5)]


def test_inner_trip_count_may_depend_on_the_outer_loop() -> None:
    # for i < 3: for j <= i: one instruction that uses that of the previous iteration: 6 in one chain.
    instruction = Instruction("alu", executions=6)
    within = Edge(0, 0, (0, 1), (Affine.variable("i"), Affine.variable("j", -1)))
    across = Edge(0, 0, (1,), (Affine.variable("i", -1), Affine.variable("i", -1)), condition=parse("j == 0"))
    graph = Idg((instruction,), (within, across), (Loop("i", 3, (Loop("j", parse("i + 1"), (0,)),)),))
    assert pairs(graph.unrolled()) == [(place, place + 1) for place in range(5)]


def test_loops_are_numbered_in_program_order() -> None:
    # Two loops of the same name, as in copies of an outer loop, are distinguished by their numbers.
    inner = Loop("j", 2, (0,)), Loop("j", 2, (1,))
    graph = Idg((Instruction("alu"),) * 3, (), (Loop("i", 3, inner), Loop("j", 2, (2,))))
    numbers = [[(loop.name, loop.number) for loop in around] for around in graph.loops_around]
    assert numbers == [[("i", 0), ("j", 1)], [("i", 0), ("j", 2)], [("j", 3)]]
    assert common_depth(*graph.loops_around[:2]) == 1
    assert pickle.loads(pickle.dumps(graph)) == graph


def test_conditional_instruction_is_executed_in_some_iterations() -> None:
    often, seldom = Instruction("alu", executions=4), Instruction("mem", executions=2, condition=parse("i % 2 == 1"))
    graph = Idg((often, seldom), (Edge(0, 1, (0,), (Affine.variable("i"),)),), (Loop("i", 4, (0, 1)),))
    assert [each.kind for each in graph.unrolled().instructions] == ["alu", "alu", "mem", "alu", "alu", "mem"]
    assert pairs(graph.unrolled()) == [(1, 2), (4, 5)]


def test_cyclic_dependence_within_an_iteration_raises() -> None:
    with pytest.raises(GraphError, match=r"cyclic dependence within one iteration: (0 -> 1 -> 0|1 -> 0 -> 1)"):
        Idg.from_edges(["alu", "alu"], [(0, 1), (1, 0)])
    Idg.from_edges(["alu", "alu"], [(0, 1), (1, 0, 1)], trips=2)


def test_backward_edge_raises() -> None:
    with pytest.raises(GraphError, match="edge 2 -> 0 points backward; list definitions before uses"):
        Idg.from_edges(["alu", "alu", "alu"], [(0, 1), (2, 0)])
    with pytest.raises(GraphError, match="edge 1 -> 0 points backward"):
        Idg.from_edges(["alu", "alu"], [(1, 0)], trips=9)


def test_edge_to_a_missing_instruction_raises() -> None:
    with pytest.raises(GraphError, match="edge 0 -> 2 refers to a missing instruction; the graph has 2 instructions"):
        Idg.from_edges(["alu", "alu"], [(0, 2)])


def test_unrolling_above_the_limit_raises_and_names_the_keyword() -> None:
    graph = Idg.from_edges(["alu"], [(0, 0, 1)], trips=10**9)
    with pytest.raises(
        GraphError, match=r"more than 1000 instructions; call unrolled\(limit=...\) with a higher limit"
    ):
        graph.unrolled(limit=1000)


def test_pickled_graph_is_equal() -> None:
    graph = Idg.from_edges(["alu", "mem"], [(0, 1), (1, 0, 1)], trips=3)
    assert pickle.loads(pickle.dumps(graph)) == graph


def test_edge_with_a_string_equals_edge_with_a_dependence() -> None:
    assert [each.value for each in Dependence] == ["data", "memory", "synchronization", "control"]
    for each in Dependence:
        plain, edge = Edge(0, 1, through=each.value), Edge(0, 1, through=each)
        assert (plain, hash(plain)) == (edge, hash(edge))
        assert pickle.loads(pickle.dumps(edge)) == plain


@pytest.mark.parametrize("words", [Opcode, Pipeline, MemorySpace, Dependence])
def test_enum_member_is_written_as_its_string(words: type[Word]) -> None:
    for each in words:
        assert (each, hash(each), repr(each), f"{each}") == (each.value, hash(each.value), repr(each.value), each.value)
        assert copy.deepcopy(each) is pickle.loads(pickle.dumps(each)) is each
        assert json.dumps({each: each}) == msgspec.json.encode({each: each}).decode().replace(":", ": ")


def test_kinds_of_a_graph_from_edges_may_be_any_strings() -> None:
    typed = Idg.from_edges(["alu", "mem", "barrier"], [(0, 1), (1, 2)])
    assert typed == Idg.from_edges([Pipeline.ALU, "mem", Opcode.BARRIER], [(0, 1), (1, 2)])
    assert repr(typed.instructions) == repr(Idg.from_edges([Pipeline.ALU, "mem", Opcode.BARRIER], []).instructions)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_kernel_graph_has_only_enum_members_as_kinds_and_subsystems(dtype: type) -> None:
    functions = "" if dtype == np.int32 else " + exp(a[i]) + a[i]**2.5"
    unit = lp.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 9}",
        f"b[i] = sum(k, a[i + k] / (a[i] + 3)) + a[i]**3 + (a[i] if i > 7 else i % 7){functions}",
        [lp.GlobalArg("a", dtype, shape="n + 9"), lp.GlobalArg("b", dtype, shape="n"), ...],
        target=lp.PyOpenCLTarget(),
        lang_version=(2018, 2),
    )
    unit = lp.split_iname(unit, "i", 32, outer_tag="g.0", inner_tag="l.0")
    (launch,) = timed_program(lpp.Case(unit, {"n": 1024}), device=lpp.load_device("nvidia-v100")).launches
    graphs = [*(program.graph for program in launch.programs.values()), lpp.instruction_graph(unit, n=1024)]
    every = [each for graph in graphs for each in graph.instructions]
    assert len({each.kind for each in every}) > 5
    assert {type(each.kind) for each in every} == {Opcode}
    assert {type(each.subsystem) for each in every} == {Pipeline, MemorySpace}
