"""Divergent loop exits: a warp executes more iterations than any of its lanes."""

import random

import numpy as np
import pytest

from loopyperf.compiler.compiler_model import warp_iterations, with_divergent_exits
from loopyperf.polyhedral.affine import Affine
from tests.idg.machine_graphs import folded, source
from tests.idg.patterns import flat


def by_walking(lanes: list[int], factor: int) -> int:
    """Return how many iterations a warp executes, lane by lane and loop by loop, as the machine does."""
    left = list(lanes)
    iterations = 0
    for copies in {1: [1], 4: [4, 1], 16: [16, 4, 1]}[factor]:
        while any(number >= copies for number in left):
            left = [number - copies if number >= copies else number for number in left]
            iterations += copies
    return iterations


@pytest.mark.parametrize("factor", [1, 4, 16])
def test_each_loop_runs_until_the_last_lane_exits(factor: int) -> None:
    draw = random.Random(3)
    for _ in range(50):
        lanes = [draw.randrange(80) for _ in range(32)]
        assert warp_iterations(lanes, factor) == by_walking(lanes, factor)


def test_lanes_with_1_to_32_iterations_make_47() -> None:
    # Twice sixteen for the last lane, three times four for lane 15, three single iterations for lane 3.
    assert warp_iterations(range(1, 33), 16) == 32 + 12 + 3


def test_a_triangular_loop_has_the_iterations_of_the_warp() -> None:
    domain = "{[i,j]: 0<=i<32 and 0<=j<=i}"
    graph = folded(source(domain, "out[i] = sum(j, a[j + 32*i]*b[j])", flat("a"), flat("b"), flat("out", np.float32)))
    loops = [item for item in graph.body if not isinstance(item, int)]
    assert [loop.lanes for loop in loops] == [tuple(range(1, 33))]
    divergent = with_divergent_exits(graph)
    assert (graph.mix()["mul", "f32"], divergent.mix()["mul", "f32"]) == (32, 47)
    # Three iterations of four copies and three single ones: a counter, a comparison, two indices and a branch each.
    assert (divergent.mix()["integer", "i32"], divergent.mix()["branch", "i32"]) == (6 * 4, 6)


def test_convergent_loops_keep_their_trip_count() -> None:
    graph = folded(source("{[i,j]: 0<=i<32 and 0<=j<9}", "out[i] = sum(j, a[j])", flat("a"), flat("out")))
    assert with_divergent_exits(graph) == graph


def test_code_after_the_loop_waits_for_the_last_iteration() -> None:
    graph = folded(source("{[i,j]: 0<=i<32 and 0<=j<=i}", "out[i] = sum(j, a[j + 32*i])", flat("a"), flat("out")))
    divergent = with_divergent_exits(graph)
    after = [
        edge.iterations
        for edge in divergent.edges
        if divergent.loops_around[edge.source] and not divergent.loops_around[edge.target]
    ]
    assert after == [(Affine((), 46),)]
