"""What loops cost beside their bodies: what is counted, and what waits for what."""

import pytest

from loopyperf.compiler import lowered
from loopyperf.compiler.loop_control import copies, with_loop_control
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.kernel import load_kernel
from loopyperf.memory.source_launch import source_profile
from tests.idg.machine_graphs import folded, source
from tests.idg.patterns import flat
from tests.machine_code.kernels import tiled_multiplication


def test_invariants_that_are_computed_again_wait_for_no_earlier_pass() -> None:
    graph = lowered(source_profile(load_kernel(tiled_multiplication(16)), {"n": 64}, Typical({})).graph)
    again = {place for place, each in enumerate(graph.instructions) if each.text.startswith("invariant of")}
    # Three in each of the passes with barriers; a pointer or a counter does go on from the pass before.
    assert len(again) == 3
    assert not [edge for edge in graph.edges if again & {edge.source, edge.target}]
    assert [edge for edge in graph.edges if edge.is_carried and graph.instructions[edge.source].kind == "integer"]


def summed(terms: str, *arrays: str) -> Idg:
    """Return the graph of a sum of *terms* over as many k as a size says."""
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
def test_a_loop_of_far_steps_is_written_out_four_times(terms: str, expected: int) -> None:
    graph = summed(terms, "a", "b") if "b[" in terms else summed(terms, "a")
    (loop,) = (item for item in graph.body if not isinstance(item, int))
    assert copies(graph, loop) == expected


@pytest.mark.parametrize(
    ("terms", "steps"),
    [
        # Pointers of two instructions each; five each where two arrays share an index of the lanes.
        ("a[k + i]*b[k]", 2 + 2),
        ("a[k]*b[k]", 2 + 2),
        ("a[k + i]*b[k + i]", 5 + 5),
        # One index for both, an address of each, and two that are done anew.
        ("a[8*k + i]*b[8*k + i]", 1 + 2 + 2),
        # An index and an address of each.
        ("a[8*k + i]*b[8*k]", 2 + 2 + 2),
    ],
)
def test_pointers_move_on(terms: str, steps: int) -> None:
    graph = with_loop_control(summed(terms, "a", "b"))
    moved = [each for each in graph.instructions if each.text == "advance to the next k"]
    assert len(moved) == steps
