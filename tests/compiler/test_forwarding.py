"""Store forwarding and dead store elimination, where no other work-item can read the element in between."""

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
    """Return the graph of *code* in a sequential loop, in which no element needs a barrier."""
    return folded(source(LANES, code, *ARRAYS, tags={"i": "for"}))


def forwarded(code: str) -> Idg:
    return with_forwarded_stores(straight(code))


def test_load_of_a_stored_value_is_forwarded() -> None:
    graph = forwarded("b[i] = a[i] + 1\nc[i] = b[i]*b[i]")
    assert kinds(graph) == ["load b32", "add f32", "store b32", "mul f32", "store b32"]
    uses = [(edge.target, edge.operand) for edge in graph.edges if edge.source == 1]
    assert sorted(uses) == [(2, 0), (3, 0), (3, 1)]


def test_values_are_forwarded_through_several_arrays() -> None:
    graph = forwarded("b[i] = a[i] + 1\nc[i] = b[i]\na[i] = c[i]*2")
    (product,) = (place for place, each in enumerate(graph.instructions) if each.kind == "mul")
    assert [graph.instructions[edge.source].kind for edge in graph.definitions[product]] == ["add"]


def test_neighboring_element_is_not_forwarded() -> None:
    assert kinds(forwarded("b[i] = a[i] + 1\nc[i] = b[i+1]")).count("load b32") == 2


def test_possibly_aliasing_store_prevents_forwarding() -> None:
    assert kinds(forwarded("b[i] = a[i] + 1\nb[5] = a[i]*2\nc[i] = b[i]")).count("load b32") == 3


def test_overwritten_store_is_removed() -> None:
    assert kinds(forwarded("b[i] = a[i] + 1\nb[i] = a[i]*2")) == [
        "load b32",
        "add f32",
        "load b32",
        "mul f32",
        "store b32",
    ]


def test_store_before_a_possible_read_is_kept() -> None:
    assert kinds(forwarded("b[i] = a[i] + 1\nc[i] = b[7]\nb[i] = a[i]*2")).count("store b32") == 3


def test_barrier_prevents_forwarding() -> None:
    code = """
        t[i] = a[i] + 1 {id=one}
        ... lbarrier {id=meet, dep=one}
        b[i] = t[i] {id=two, dep=meet}
        """
    local = lp.TemporaryVariable("t", np.float32, shape=(32,), address_space=lp.AddressSpace.LOCAL)
    graph = with_forwarded_stores(folded(source(LANES, code, flat("a"), flat("b"), local)))
    assert [each.subsystem for each in graph.instructions if each.kind == "load"] == ["global", "local"]


def final_memory(graph: Idg) -> dict[tuple[str, str], object]:
    """Return the final content of each element as an expression, by interpreting straight-line code."""
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
def test_forwarding_keeps_the_final_memory_content(code: str) -> None:
    graph = straight(code)
    forwarded_graph = with_forwarded_stores(graph)
    assert len(forwarded_graph.instructions) < len(graph.instructions)
    assert final_memory(forwarded_graph) == final_memory(graph)
