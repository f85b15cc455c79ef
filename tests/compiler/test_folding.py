"""What a compiler computes itself, and what it does not, by hand."""

import loopy as lp

from loopyperf.compiler import lowered
from loopyperf.compiler.folding import without_index_arithmetic
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.kernel import load_kernel
from loopyperf.memory.source_launch import source_profile
from tests.idg.machine_graphs import source
from tests.idg.patterns import flat, unit


def folded(code: str) -> Idg:
    program = lp.tag_inames(unit("{[i,j]: 0<=i<32 and 0<=j<4}", code, flat("a"), flat("out")), {"i": "l.0"})
    return without_index_arithmetic(source_profile(load_kernel(program), {}, Typical({})).graph)


def lowered_in_loop(code: str, passes: str) -> Idg:
    domain = f"[n] -> {{[i,j]: 0<=i<32 and 0<=j<{passes} and n <= 8}}"
    return lowered(source(domain, code, flat("a"), flat("out"), sizes={"n": 5}), capability=(8, 0))


def executed(graph: Idg, kind: str) -> int:
    return sum(each.executions for each in graph.instructions if each.is_index and each.kind == kind)


def kinds(graph: Idg) -> list[str]:
    return [f"{each.kind} {each.dtype}".strip() for each in graph.instructions]


def test_addresses_are_part_of_loads_and_stores() -> None:
    assert kinds(folded("out[i + 4*j] = a[2*i + j]")) == ["load b32", "store b32"]


def test_numbers_of_work_items_that_are_data_are_computed() -> None:
    # t = 2*i + 1 is stored, in a register in between; the addresses are not computed.
    graph = folded("<float32> t = 2*i + 1\nout[i + 4*j] = t")
    assert kinds(graph) == ["add f32", "store b32"]
    assert [(edge.source, edge.target, edge.operand) for edge in graph.edges] == [(0, 1, 0)]


def test_numbers_of_work_items_that_are_part_of_an_address_are_not() -> None:
    assert kinds(folded("<int32> t = 2*i + 1\nout[t] = 3")) == ["store b32"]


def test_what_an_operation_works_on_is_known_to_it() -> None:
    # 2*i is an operand whose value is told: of the arithmetic the last addition is left, with the load's value.
    assert kinds(folded("out[i] = a[i] + (2*i)")) == ["load b32", "add f32", "store b32"]


def test_a_shift_by_a_pass_is_computed_and_its_sum_is_not() -> None:
    graph = folded("out[i] = a[i + (1 << j)]")
    assert kinds(graph) == ["shift i32", "load b32", "store b32"]
    assert {(edge.source, edge.target, edge.operand) for edge in graph.edges} == {(0, 1, 0), (1, 2, 0)}


def test_a_product_of_a_lane_and_a_pass_moves_on_by_the_same_step() -> None:
    assert kinds(folded("out[i] = a[i*j]")) == ["load b32", "store b32"]
    assert kinds(folded("out[i] = a[j*j]")) == ["mul i32", "load b32", "store b32"]


def test_what_is_computed_of_passes_is_known_in_a_loop_that_is_written_out() -> None:
    graph = lowered_in_loop("out[i + (1 << j)] = a[i]", "5")
    assert (executed(graph, "shift"), graph.mix()["store", "b32"]) == (0, 5)


def test_it_is_computed_in_each_pass_of_a_loop_that_ends_at_run_time() -> None:
    # Four copies, and the single pass that is left: it is one of a loop, too.
    assert executed(lowered_in_loop("out[i + (1 << j)] = a[i]", "n"), "shift") == 5


def test_elements_that_shifts_tell_apart_are_loaded_each() -> None:
    graph = lowered_in_loop("out[i] = sum(j, a[i + (1 << j)])", "4")
    assert graph.mix()["load", "b32"] == 4
    # j % 3 is 0, 1, 2, and 0 once more.
    assert lowered_in_loop("out[i] = sum(j, a[i + j % 3])", "4").mix()["load", "b32"] == 3
