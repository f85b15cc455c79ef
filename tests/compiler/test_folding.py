"""Constant folding and address folding: which index arithmetic remains, by hand."""

import loopy as lp

from loopyperf.compiler import lowered
from loopyperf.compiler.folding import without_index_arithmetic
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.kernel import load_kernel
from tests.idg.machine_graphs import source
from tests.idg.patterns import flat, unit
from tests.profiles import source_profile


def folded(code: str) -> Idg:
    program = lp.tag_inames(unit("{[i,j]: 0<=i<32 and 0<=j<4}", code, flat("a"), flat("out")), {"i": "l.0"})
    return without_index_arithmetic(source_profile(load_kernel(program), {}, Typical({})).graph)


def lowered_in_loop(code: str, trip_count: str) -> Idg:
    domain = f"[n] -> {{[i,j]: 0<=i<32 and 0<=j<{trip_count} and n <= 8}}"
    return lowered(source(domain, code, flat("a"), flat("out"), sizes={"n": 5}), capability=(8, 0))


def executed(graph: Idg, kind: str) -> int:
    return sum(each.executions for each in graph.instructions if each.is_index and each.kind == kind)


def kinds(graph: Idg) -> list[str]:
    return [f"{each.kind} {each.dtype}".strip() for each in graph.instructions]


def test_affine_addresses_are_folded_into_loads_and_stores() -> None:
    assert kinds(folded("out[i + 4*j] = a[2*i + j]")) == ["load b32", "store b32"]


def test_work_item_index_used_as_data_is_computed() -> None:
    # t = 2*i + 1 is stored from a register; the addresses need no instructions.
    graph = folded("<float32> t = 2*i + 1\nout[i + 4*j] = t")
    assert kinds(graph) == ["add f32", "store b32"]
    assert [(edge.source, edge.target, edge.operand) for edge in graph.edges] == [(0, 1, 0)]


def test_work_item_index_used_as_address_is_folded() -> None:
    assert kinds(folded("<int32> t = 2*i + 1\nout[t] = 3")) == ["store b32"]


def test_known_operand_of_arithmetic_is_folded() -> None:
    # 2*i becomes an operand with a known value; only the addition to the loaded value remains.
    assert kinds(folded("out[i] = a[i] + (2*i)")) == ["load b32", "add f32", "store b32"]


def test_shift_by_loop_variable_is_computed_but_its_sum_is_folded() -> None:
    graph = folded("out[i] = a[i + (1 << j)]")
    assert kinds(graph) == ["shift i32", "load b32", "store b32"]
    assert {(edge.source, edge.target, edge.operand) for edge in graph.edges} == {(0, 1, 0), (1, 2, 0)}


def test_product_of_lane_and_loop_variable_is_strength_reduced() -> None:
    assert kinds(folded("out[i] = a[i*j]")) == ["load b32", "store b32"]
    assert kinds(folded("out[i] = a[j*j]")) == ["mul i32", "load b32", "store b32"]


def test_shift_by_loop_variable_is_constant_in_unrolled_loop() -> None:
    graph = lowered_in_loop("out[i + (1 << j)] = a[i]", "5")
    assert (executed(graph, "shift"), graph.mix()["store", "b32"]) == (0, 5)


def test_shift_is_computed_per_iteration_with_runtime_trip_count() -> None:
    # Four copies, and the one remaining iteration, which is also in a loop.
    assert executed(lowered_in_loop("out[i + (1 << j)] = a[i]", "n"), "shift") == 5


def test_elements_at_different_constant_indices_are_loaded_separately() -> None:
    graph = lowered_in_loop("out[i] = sum(j, a[i + (1 << j)])", "4")
    assert graph.mix()["load", "b32"] == 4
    # j % 3 is 0, 1, 2, and 0 once more.
    assert lowered_in_loop("out[i] = sum(j, a[i + j % 3])", "4").mix()["load", "b32"] == 3
