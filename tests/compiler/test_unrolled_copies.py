"""Unrolled loops: the number of copies and their dependences."""

import gc

import loopy as lp
import numpy as np
import pytest

from loopyperf.compiler import lowered
from loopyperf.compiler.folding import without_index_arithmetic, without_moves, without_unused
from loopyperf.compiler.identities import with_fused_multiply_adds
from loopyperf.compiler.machine_program import compile_profile
from loopyperf.compiler.value_numbering import without_common_subexpressions, without_invariants
from loopyperf.counts.sizes import Typical
from loopyperf.device.device_library import given_device
from loopyperf.errors import OccupancyError
from loopyperf.idg import Idg
from loopyperf.idg.copies import copied
from loopyperf.idg.program import loops_in
from loopyperf.kernel import load_kernel
from loopyperf.polyhedral.affine import Affine
from tests.machine_code.compiler_rule_kernels import forces, sums_of_rows
from tests.machine_code.kernels import naive_multiplication
from tests.profiles import source_profile


def source(unit: object, **sizes: int) -> Idg:
    return without_moves(without_index_arithmetic(source_profile(load_kernel(unit), sizes, Typical({})).graph))


def test_remainder_copies_depend_on_the_last_unrolled_iteration() -> None:
    # 36 iterations are 2 iterations of 16 copies, 0 and 1, and 4 single copies, which depend at most on iteration 1.
    graph = copied(source(naive_multiplication(4), n=36), {0: 16})
    (loop,) = {loops[0].name: loops[0] for loops in graph.loops_around if loops}.values()
    assert (loop.trips, loop.copies) == (2, 16)
    outside = [edge for edge in graph.edges if graph.loops_around[edge.source] and not graph.loops_around[edge.target]]
    assert {edge.iterations for edge in outside} == {(Affine((), 1),)}


def test_runtime_trip_count_of_one_iteration_keeps_the_loop() -> None:
    graph = copied(source(sums_of_rows(), n=128, m=4), {0: 4})
    (loop,) = {loops[0].name: loops[0] for loops in graph.loops_around if loops}.values()
    assert (loop.trips, loop.copies) == (1, 4)


def test_loop_invariant_loads_are_executed_once() -> None:
    # The source reads x[j] three times, y[j] twice, and x[i], y[i] as often; the latter once for all 256 values of j.
    graph = source(forces(), n=256)
    loads = [each.mix()["load", "b64"] for each in (graph, without_invariants(graph))]
    assert loads == [10 * 256, 5 * 256 + 5]


def test_loop_invariant_code_motion_keeps_dependences() -> None:
    graph = without_invariants(source(forces(), n=128))
    before = [edge for edge in graph.edges if not graph.loops_around[edge.source] and graph.loops_around[edge.target]]
    assert {graph.instructions[edge.source].kind for edge in before} == {"load", "move"}
    assert all(edge.iterations == () and edge.distance == () for edge in before)


def nest() -> Idg:
    """Return the graph of nested sums: 3 terms, each a product with a sum of 4 products."""
    unit = lp.make_kernel(
        "{[i,j,k]: 0<=i<n and 0<=j<3 and 0<=k<4}",
        "out[i] = sum(j, b[j]*sum(k, a[i,k]*c[j,k]))",
        [lp.GlobalArg("out,b", np.float32, shape="n"), lp.GlobalArg("a,c", np.float32, shape="n,4"), ...],
        lang_version=(2018, 2),
    )
    return source(lp.tag_inames(unit, {"i": "l.0"}), n=32)


def test_unrolling_nested_loops_together_equals_one_by_one() -> None:
    graph = nest()
    outer, inner = loops_in(graph.body)
    together = copied(graph, {outer.number: 3, inner.number: 4})
    first = copied(graph, {inner.number: 4})
    (left,) = loops_in(first.body)
    one_by_one = copied(first, {left.number: 3})
    assert (together.instructions, together.body) == (one_by_one.instructions, one_by_one.body)
    assert set(together.edges) == set(one_by_one.edges)
    assert together.executed == graph.executed


def test_identical_copies_share_one_instruction_object() -> None:
    graph = nest()
    outer, inner = loops_in(graph.body)
    copies = copied(graph, {outer.number: 3, inner.number: 4}).instructions
    products = [each for each in copies if each.kind == "mul"]
    assert len(products) == 3 * 4 + 3
    assert sum(each is products[0] for each in products) == 3 * 4


def test_pass_without_effect_returns_the_same_graph() -> None:
    graph = lowered(nest())
    for compiler_pass in (without_common_subexpressions, without_invariants, with_fused_multiply_adds, without_unused):
        assert compiler_pass(graph) is graph
    assert copied(graph, {}) is graph


def test_garbage_collection_is_restored_after_compilation_or_error() -> None:
    profile = source_profile(load_kernel(naive_multiplication(4)), {"n": 64}, Typical({}))
    device, was_enabled = given_device("nvidia-titan-v"), gc.isenabled()
    try:
        for switch_collection in (gc.enable, gc.disable):
            switch_collection()
            before = gc.isenabled()
            compile_profile(profile, device)
            with pytest.raises(OccupancyError):
                compile_profile(profile, device, concurrent_groups=1_000)
            assert gc.isenabled() is before
    finally:
        (gc.enable if was_enabled else gc.disable)()
