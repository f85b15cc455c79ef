"""Registers of simultaneously live values, counted by hand."""

import pymbolic.primitives as prim
import pytest

from loopyperf.compiler.registers import RegisterFile, estimated_registers
from loopyperf.errors import ParameterError
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.idg.live_values import Lives
from loopyperf.idg.program import Element, LoopBound, Operand
from loopyperf.polyhedral.affine import Affine

K = prim.Variable("k")


def flat(kinds: str, edges: list[tuple[int, int]], dtype: str = "f32") -> Idg:
    """Return a straight-line program: edges lead to operands 0, 1, ... of their targets, in order."""
    slots: dict[int, int] = {}
    found: list[Edge] = []
    for source, target in edges:
        slots[target] = slots.get(target, -1) + 1
        found.append(Edge(source, target, operand=slots[target]))
    instructions = tuple(
        Instruction(kind, dtype, operands=(Operand(),) * (slots.get(place, -1) + 1))
        for place, kind in enumerate(kinds.split())
    )
    return Idg(instructions, tuple(found), tuple(range(len(instructions))))


def test_result_reuses_the_register_of_a_dead_operand() -> None:
    assert Lives(flat("load add add store", [(0, 1), (1, 2), (2, 3)])).registers == 1


def test_operands_of_one_sum_are_live_together() -> None:
    # All three loads precede the first addition.
    assert Lives(flat("load load load add add store", [(0, 3), (1, 3), (3, 4), (2, 4), (4, 5)])).registers == 3


def test_64_bit_values_take_two_registers() -> None:
    assert Lives(flat("load load add store", [(0, 2), (1, 2), (2, 3)], "f64")).registers == 4


def test_predicates_and_stores_take_no_registers() -> None:
    assert Lives(flat("load compare branch", [(0, 1), (1, 2)], "i32")).registers == 1


def test_select_is_as_wide_as_its_operands() -> None:
    graph = flat("load load compare select store", [(0, 2), (2, 3), (0, 3), (1, 3), (3, 4)], "f64")
    untyped = tuple(
        Instruction(each.kind, "" if each.kind == "select" else each.dtype, operands=each.operands)
        for each in graph.instructions
    )
    assert Lives(Idg(untyped, graph.edges, graph.body)).registers == 4


def test_unused_results_take_no_registers() -> None:
    assert Lives(flat("load load load", [])).registers == 0


def looped(*edges: Edge, before: int = 1, inside: int = 2, after: int = 1) -> Idg:
    """Return a program of f32 instructions before, inside and after a loop over k."""
    first, last = before, before + inside
    instructions = tuple(Instruction("add", "f32", operands=(Operand(),) * 2) for _ in range(last + after))
    loop = Loop("k", 8, tuple(range(first, last)), bound=LoopBound((8,)))
    return Idg(instructions, edges, (*range(first), loop, *range(last, last + after)))


def test_value_used_in_each_iteration_is_live_throughout_the_loop() -> None:
    # 0 is used by 1, the first in the loop; 1 by 2, the second. After 1, both are live.
    assert Lives(looped(Edge(0, 1, operand=0), Edge.within(1, 2, ["k"], operand=0))).registers == 2


def test_sum_and_its_initial_value_share_a_register() -> None:
    initial = Edge(0, 2, condition=prim.Comparison(K, "==", 0), operand=0)
    carried = Edge(2, 2, (1,), (Affine.variable("k", -1),), prim.Comparison(K, ">=", 1), operand=0)
    assert Lives(looped(initial, carried, Edge(2, 3, (), (Affine((), 7),), operand=0))).registers == 1


def test_sum_is_live_while_its_next_term_is_computed() -> None:
    carried = Edge(2, 2, (1,), (Affine.variable("k", -1),), prim.Comparison(K, ">=", 1), operand=0)
    inside, after = Edge.within(1, 2, ["k"], operand=1), Edge(2, 3, (), (Affine((), 7),), operand=0)
    assert Lives(looped(carried, inside, after)).registers == 2


def test_private_array_elements_defined_in_a_loop_are_live_together() -> None:
    instructions = (
        Instruction("load", "b64", defines=(Element("a", Affine.variable("k"), 64, 8),), executions=8),
        Instruction(
            "store", "b64", operands=(Operand(element=Element("a", Affine.variable("o"), 64, 8)),), executions=8
        ),
    )
    loops = (Loop("k", 8, (0,), bound=LoopBound((8,))), Loop("o", 8, (1,), bound=LoopBound((8,))))
    edge = Edge(0, 1, (), (Affine.variable("o"),), operand=0)
    assert Lives(Idg(instructions, (edge,), loops)).registers == 2 * 8


@pytest.mark.parametrize(
    ("work_items", "limit"), [(1, 255), (256, 255), (512, 128), (1024, 64), (384, 168), (290, 168)]
)
def test_register_limit_follows_from_the_group_size(work_items: int, limit: int) -> None:
    # 65536 / 384 = 170.7, in steps of 8: 168. The 10 warps of 290 work-items are allocated as 12: four at a time.
    assert estimated_registers(flat("load store", [(0, 1)]), work_items).limit == limit


def test_register_limit_depends_on_the_register_file() -> None:
    graph = flat("load store", [(0, 1)])
    fermi = RegisterFile(32_768, 63)
    assert [estimated_registers(graph, work_items, fermi).limit for work_items in (1, 512, 1024)] == [63, 63, 32]


def test_registers_beyond_the_limit_are_spilled() -> None:
    loads = 200
    graph = flat(" ".join(["load"] * loads + ["add"]), [(place, loads) for place in range(loads)], "f64")
    found = estimated_registers(graph)
    assert found.live == 2 * loads
    assert (found.allocated, found.spilled) == (255, found.needed - 255)
    assert found.spilled > 0


@pytest.mark.parametrize(
    ("work_items", "limit", "kept", "missing", "registers"),
    [(256, 255, 62, 64, 32), (512, 128, 49, 59, 64), (768, 80, 31, 47, 40), (1024, 64, 23, 31, 32)],
)
def test_too_many_values_in_a_loop_leave_few_registers(
    work_items: int, limit: int, kept: int, missing: int, registers: int
) -> None:
    """*kept* and *missing* registers beyond the limit in NVRTC's machine code, seven of them for other things."""
    for beyond, expected in ((kept, limit), (missing, registers)):
        sums = limit + beyond - 7
        before, after = tuple(range(sums)), tuple(range(sums + 1, 2 * sums + 1))
        edges = [Edge(each, sums + 1 + each, operand=0) for each in before]
        kinds = ["load"] * sums + ["branch"] + ["store"] * sums
        instructions = tuple(Instruction(kind, "f32", operands=(Operand(),)) for kind in kinds)
        in_loop = Idg(instructions, tuple(edges), (*before, Loop("k", 8, (sums,)), *after))
        straight = Idg(instructions, tuple(edges), (*before, sums, *after))
        assert estimated_registers(in_loop, work_items).limit == expected
        assert estimated_registers(straight, work_items).limit == limit


def test_group_without_work_items_raises() -> None:
    with pytest.raises(ParameterError, match="got 0"):
        estimated_registers(flat("load store", [(0, 1)]), 0)
