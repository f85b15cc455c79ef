"""Loop control: unroll factors, instructions beside the loop body, and their dependences."""

import pytest

from loopyperf.compiler import lowered
from loopyperf.compiler.loop_control import copies, with_loop_control
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.kernel import load_kernel
from tests.idg.machine_graphs import folded, source
from tests.idg.patterns import flat
from tests.machine_code.kernels import tiled_multiplication
from tests.profiles import source_profile


def test_recomputed_invariants_do_not_depend_on_earlier_iterations() -> None:
    graph = lowered(source_profile(load_kernel(tiled_multiplication(16)), {"n": 64}, Typical({})).graph)
    recomputed = {place for place, each in enumerate(graph.instructions) if each.text.startswith("invariant of")}
    # Three in each iteration with barriers; a pointer or a counter does depend on the previous iteration.
    assert len(recomputed) == 3
    assert not [edge for edge in graph.edges if recomputed & {edge.source, edge.target}]
    assert [edge for edge in graph.edges if edge.is_carried and graph.instructions[edge.source].kind == "integer"]


def summed(terms: str, *arrays: str) -> Idg:
    """Return the graph of a sum of *terms* over k, whose trip count is a size."""
    domain = "[n, m] -> {[i,k]: 0<=i<32 and 0<=k<m}"
    arguments = [flat(name) for name in (*arrays, "out")]
    return folded(source(domain, f"out[i] = sum(k, {terms})", *arguments, sizes={"n": 99, "m": 64}))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ("a[k + i]", 16),
        ("a[2*k + i]", 16),
        ("a[n*k + i]", 16),
        ("a[3*k + i]", 4),
        ("a[32*k + i]", 4),
        ("a[n*n*k + i]", 4),
        ("a[8*k + i]*b[k]", 16),
        ("a[8*k + i]*b[n*k + i]", 4),
    ],
)
def test_loop_with_far_steps_is_unrolled_four_times(terms: str, expected: int) -> None:
    graph = summed(terms, "a", "b") if "b[" in terms else summed(terms, "a")
    (loop,) = (item for item in graph.body if not isinstance(item, int))
    assert copies(graph, loop) == expected


@pytest.mark.parametrize(
    ("terms", "steps"),
    [
        # Two instructions for each pointer; five for each if two arrays share an index that differs between lanes.
        ("a[k + i]*b[k]", 2 + 2),
        ("a[k]*b[k]", 2 + 2),
        ("a[k + i]*b[k + i]", 5 + 5),
        # One index for both, an address for each, and two that are recomputed.
        ("a[8*k + i]*b[8*k + i]", 1 + 2 + 2),
        # An index and an address for each.
        ("a[8*k + i]*b[8*k]", 2 + 2 + 2),
    ],
)
def test_number_of_instructions_that_advance_pointers(terms: str, steps: int) -> None:
    graph = with_loop_control(summed(terms, "a", "b"))
    advancing = [each for each in graph.instructions if each.text == "advance to the next k"]
    assert len(advancing) == steps
