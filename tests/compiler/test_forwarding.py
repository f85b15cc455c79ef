"""What was stored is not loaded again, and what is stored over was never stored, as long as nobody else looks."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.compiler.accesses import with_forwarded_stores
from loopyperf.idg import Idg
from tests.idg.machine_graphs import folded, kinds, source
from tests.idg.patterns import flat

LANES = "{[i]: 0<=i<32}"
ARRAYS = (flat("a"), flat("b"), flat("c"))


def straight(code: str) -> Idg:
    """Return the graph of *code* in one loop: elements of several work-items need no barrier then."""
    return folded(source(LANES, code, *ARRAYS, tags={"i": "for"}))


def forwarded(code: str) -> Idg:
    return with_forwarded_stores(straight(code))


def test_a_value_that_was_just_stored_is_not_loaded() -> None:
    graph = forwarded("b[i] = a[i] + 1\nc[i] = b[i]*b[i]")
    assert kinds(graph) == ["load b32", "add f32", "store b32", "mul f32", "store b32"]
    uses = [(edge.target, edge.operand) for edge in graph.edges if edge.source == 1]
    assert sorted(uses) == [(2, 0), (3, 0), (3, 1)]


def test_values_are_followed_through_several_arrays() -> None:
    graph = forwarded("b[i] = a[i] + 1\nc[i] = b[i]\na[i] = c[i]*2")
    (product,) = (place for place, each in enumerate(graph.instructions) if each.kind == "mul")
    assert [graph.instructions[edge.source].kind for edge in graph.definitions[product]] == ["add"]


def test_a_neighbour_is_loaded() -> None:
    assert kinds(forwarded("b[i] = a[i] + 1\nc[i] = b[i+1]")).count("load b32") == 2


def test_a_store_that_may_be_of_the_same_element_makes_that_unknown() -> None:
    assert kinds(forwarded("b[i] = a[i] + 1\nb[5] = a[i]*2\nc[i] = b[i]")).count("load b32") == 3


def test_what_is_stored_over_is_not_stored() -> None:
    assert kinds(forwarded("b[i] = a[i] + 1\nb[i] = a[i]*2")) == [
        "load b32",
        "add f32",
        "load b32",
        "mul f32",
        "store b32",
    ]


def test_what_somebody_may_have_read_is_stored() -> None:
    assert kinds(forwarded("b[i] = a[i] + 1\nc[i] = b[7]\nb[i] = a[i]*2")).count("store b32") == 3


def test_another_work_item_may_look_after_a_barrier() -> None:
    code = """
        t[i] = a[i] + 1 {id=one}
        ... lbarrier {id=meet, dep=one}
        b[i] = t[i] {id=two, dep=meet}
        """
    local = lp.TemporaryVariable("t", np.float32, shape=(32,), address_space=lp.AddressSpace.LOCAL)
    graph = with_forwarded_stores(folded(source(LANES, code, flat("a"), flat("b"), local)))
    assert [each.subsystem for each in graph.instructions if each.kind == "load"] == ["global", "local"]


def left_in_memory(graph: Idg) -> dict[tuple[str, str], object]:
    """Return what is in each element at the end, in words, by running straight code with a memory."""
    memory: dict[tuple[str, str], object] = {}
    values: list[object] = []
    for place, each in enumerate(graph.instructions):
        sources = {edge.operand: values[edge.source] for edge in graph.definitions[place] if edge.through == "data"}
        operands = [sources.get(slot, operand.known) for slot, operand in enumerate(each.operands)]
        element = (each.reference.array, str(each.address)) if each.reference is not None else ("", "")
        if each.kind == "store":
            memory[element] = operands[0]
        is_load = each.kind == "load"
        values.append(memory.get(element, element) if is_load else (each.kind, *operands))
    return memory


@pytest.mark.parametrize(
    "code",
    [
        "b[i] = a[i] + 1\nc[i] = b[i]*b[i]",
        "b[i] = a[i]\nb[i] = b[i]*3\nc[i] = b[i] + a[i]",
        "b[i] = a[i] + 2\nb[i+1] = a[i]*b[i]\nb[i] = b[i+1] + b[i+2]\nc[i] = b[i]",
    ],
)
def test_what_is_in_memory_at_the_end_stays_the_same(code: str) -> None:
    graph = straight(code)
    forwarded_graph = with_forwarded_stores(graph)
    assert len(forwarded_graph.instructions) < len(graph.instructions)
    assert left_in_memory(forwarded_graph) == left_in_memory(graph)
