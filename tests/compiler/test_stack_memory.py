"""Loads and stores of private arrays in stack memory keep the dependences of the graph."""

import loopy as lp
import pytest

from loopyperf.compiler import lowered
from loopyperf.compiler.stack_memory import with_stack_memory
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.kernel import load_kernel
from loopyperf.polyhedral.affine import Affine
from tests import private_array_kernels as kernels
from tests.idg.stored_values import stored
from tests.profiles import source_profile

ALL = {**kernels.REGISTERS, **kernels.STACK_MEMORY}


def graph_of(unit: lp.TranslationUnit) -> Idg:
    sizes = {"n": 3} if "n" in unit.default_entrypoint.arg_dict else {}
    return source_profile(load_kernel(unit), sizes, Typical({})).graph


def executions(graph: Idg, kind: str) -> int:
    found = sum(each.executions for each in graph.instructions if (each.subsystem, each.kind) == ("private", kind))
    assert isinstance(found, int)
    return found


def dependences(graph: Idg) -> set[tuple[tuple[str, str, int], tuple[str, str, int]]]:
    """Return pairs of executions of which the second depends on the first, through registers or stack memory.

    An execution is a source line, an instruction in it, and a count; private stores and loads in between are omitted.
    """
    flat = graph.unrolled()
    seen: dict[tuple[str, str, str], int] = {}
    names: list[tuple[str, str, int] | None] = []
    for each in flat.instructions:
        key = (each.source, each.kind, each.text)
        seen[key] = seen.get(key, -1) + 1
        names.append(None if each.subsystem == "private" else (each.source, f"{each.kind} {each.text}", seen[key]))
    found: set[tuple[tuple[str, str, int], tuple[str, str, int]]] = set()
    for place, name in enumerate(names):
        if name is not None:
            found |= {(before, name) for before in _sources(flat, names, place)}
    return found


def _sources(flat: Idg, names: list[tuple[str, str, int] | None], place: int) -> set[tuple[str, str, int]]:
    found: set[tuple[str, str, int]] = set()
    for edge in flat.definitions[place]:
        name = names[edge.source]
        found |= _sources(flat, names, edge.source) if name is None else {name}
    return found


@pytest.mark.parametrize("name", [name for name in ALL if name != "an index that is data"])
def test_stack_memory_keeps_dependences_between_executions(name: str) -> None:
    graph = graph_of(ALL[name]())
    assert dependences(with_stack_memory(graph, arrays={"a"})) == dependences(graph)


@pytest.mark.parametrize("name", ALL)
def test_stack_memory_keeps_the_stored_results(name: str) -> None:
    graph = graph_of(ALL[name]())
    assert stored(with_stack_memory(graph, arrays={"a"}).unrolled()) == stored(graph.unrolled())


def test_copied_array_has_one_store_and_one_load_per_element() -> None:
    # a[i] = x[i, t] for 4 i, y[o, t] = 2*a[o] for the first 3 of them: n = 3.
    graph = with_stack_memory(graph_of(kernels.up_to_size(4)))
    assert (executions(graph, "store"), executions(graph, "load")) == (4, 3)


def test_sum_stays_in_a_register_during_the_loop_over_its_terms() -> None:
    # n = 3 rows: each sum is stored initially and after its 16 terms, and loaded before them and for the output.
    graph = with_stack_memory(graph_of(kernels.accumulated("n", 16, 8)))
    assert (executions(graph, "store"), executions(graph, "load")) == (3 + 3, 3 + 3)
    assert sum(each.executions for each in graph.instructions if each.kind == "add" and each.dtype == "f64") == 3 * 16


def test_sum_whose_element_changes_is_loaded_for_each_term() -> None:
    # The loop over 2 terms contains the loop over 3 rows.
    graph = with_stack_memory(graph_of(kernels.accumulated("n", 2, 8, order="k,r")))
    assert (executions(graph, "store"), executions(graph, "load")) == (3 + 2 * 3, 2 * 3 + 3)


def test_graph_without_arrays_in_memory_is_unchanged() -> None:
    graph = graph_of(kernels.copied(8))
    assert with_stack_memory(graph) is graph


def test_stack_memory_pass_can_be_disabled() -> None:
    graph = graph_of(kernels.up_to_lane(4))
    assert executions(lowered(graph), "load") > 0
    assert executions(lowered(graph, leave_out=["stack memory"]), "load") == 0


def test_stack_addresses_are_element_indices() -> None:
    graph = with_stack_memory(graph_of(kernels.up_to_size(4)))
    flat = graph.unrolled()
    stores = [each for each in flat.instructions if each.kind == "store" and each.subsystem == "private"]
    assert [each.address for each in stores] == [Affine((), element) for element in range(4)]
    assert {each.dtype for each in graph.instructions if each.subsystem == "private"} == {"b64"}
