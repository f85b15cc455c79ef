"""What a compiler computes itself, and what it does not, by hand."""

import loopy as lp
from patterns import flat, unit

from loopyperf.counts.typical import Typical
from loopyperf.idg import Idg
from loopyperf.idg.construction.kernel_graphs import kernel_graphs
from loopyperf.idg.lowering.folding import without_index_arithmetic
from loopyperf.kernel import load_kernel


def folded(code: str) -> Idg:
    program = lp.tag_inames(unit("{[i,j]: 0<=i<32 and 0<=j<4}", code, flat("a"), flat("out")), {"i": "l.0"})
    return without_index_arithmetic(kernel_graphs(load_kernel(program), {}, Typical({})))


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
