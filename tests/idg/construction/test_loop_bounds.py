"""Test the bounds of loops that are known for all sizes and warps: constant, divergent, and guarded trip counts."""

import sys
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.sizes import Typical
from loopyperf.idg.program import WORK_GROUP, Loop, LoopBound
from loopyperf.kernel import load_kernel
from test_kernels.finite_difference import finite_difference
from tests.machine_code.compiler_rule_kernels import (
    bounded_tiles,
    line_stencil,
    scaled_sum,
    small_products,
    sums_of_rows,
)
from tests.machine_code.kernels import n_body, tiled_multiplication
from tests.profiles import source_profile


def loops_of(unit: Any, **sizes: int) -> dict[str, Loop]:
    graph = source_profile(load_kernel(unit), sizes, Typical({})).graph
    return {loop.name: loop for loops in graph.loops_around for loop in loops}


@pytest.mark.parametrize(
    ("build", "arguments", "sizes", "parting"),
    [
        (finite_difference, (), {"n": 64}, {"u_row_outer", "u_column_outer"}),
        (finite_difference, ((64, 4),), {"n": 64}, {"u_row_outer", "u_column_outer"}),
        # 32 work-items fetch 2·16 + 32 elements in two full iterations.
        (line_stencil, (16, 32), {"n": 256}, set()),
        (line_stencil, (1,), {"n": 256}, {"place_outer"}),
        (sums_of_rows, (), {"n": 256, "m": 7}, set()),
        (n_body, (64,), {"n": 128}, set()),
    ],
)
def test_lanes_diverge_where_bounds_depend_on_the_work_item(
    build: Callable[..., Any], arguments: tuple[Any, ...], sizes: dict[str, int], parting: set[str]
) -> None:
    assert {name for name, loop in loops_of(build(*arguments), **sizes).items() if loop.lanes_diverge} == parting


def test_trip_counts_that_do_not_depend_on_sizes_are_constant() -> None:
    known = {name: loop.is_constant for name, loop in loops_of(tiled_multiplication(16), n=64).items()}
    assert known == {"k_outer": False, "k_inner": True}
    assert not any(loop.is_constant for loop in loops_of(bounded_tiles(), n=100).values())
    assert all(loop.is_constant for loop in loops_of(small_products(), n=128).values())


def stores(domains: list[str], tags: str) -> lp.TranslationUnit:
    """Return a kernel that stores in each iteration of j, with inames mapped to the hardware by *tags*."""
    arguments = [lp.GlobalArg("out", np.float32, shape=lp.auto), lp.ValueArg("n", np.int32)]
    unit = lp.make_kernel(domains, "out[i, j + 1] = 1", arguments, lang_version=(2018, 2), target=lp.PyOpenCLTarget())
    return lp.tag_inames(unit, tags)


def text_of(unit: lp.TranslationUnit) -> str:
    return lp.generate_code_v2(unit).device_code()


def test_bounds_that_shift_with_the_group_have_a_constant_trip_count() -> None:
    unit = stores(["[n] -> {[i]: 0 <= i < n}", "[i] -> {[j]: i - 1 <= j <= i + 1}"], "i:g.0")
    assert "for (int j = -1 + gid(0); j <= 1 + gid(0); ++j)" in text_of(unit)
    assert loops_of(unit, n=9)["j"].bound == LoopBound((3,))


# j of 0, ..., 3 is in the domain of work-item i if j <= i
TRIANGLE = ["{[j]: 0 <= j < 4}", "[j] -> {[i]: j <= i < 32}"]


def test_conditions_inside_a_loop_are_not_bounds() -> None:
    unit = stores(TRIANGLE, "i:l.0")
    assert "for (int j = 0; j <= 3; ++j)\n    if (" in text_of(unit)
    assert loops_of(unit, n=9)["j"].bound == LoopBound((4,))


def test_loopys_unrolled_copies_have_conditions() -> None:
    unit = stores(TRIANGLE, "i:l.0,j:unr")
    assert text_of(unit).count("if (") == 3  # j = 0 needs no condition
    assert loops_of(unit, n=9)["j"].lanes_diverge


def test_bound_of_several_constants_names_what_it_depends_on() -> None:
    # j of group i from 0 to i, of four groups: 1, 2, 3 or 4 iterations; the same with i as an outer loop
    domains = ["{[i]: 0 <= i < 4}", "[i] -> {[j]: 0 <= j <= i}"]
    by_group, by_loop = (loops_of(stores(domains, tags), n=9)["j"] for tags in ("i:g.0", "i:for"))
    assert (by_group.is_constant, by_group.bound.depends_on, by_group.bound.loops) == (False, {WORK_GROUP}, set())
    assert (by_loop.is_constant, by_loop.bound.depends_on, by_loop.bound.loops) == (True, set(), {"i"})


def test_kernel_with_an_empty_domain_has_an_empty_graph() -> None:
    unit = stores(["[n] -> {[i]: 2 <= i <= n}", "[n, i] -> {[j]: i < j <= n}"], "j:for")
    unit = lp.split_iname(unit, "i", 2, outer_tag="g.0", inner_tag="l.0")
    assert source_profile(load_kernel(lp.assume(unit, "0 <= n <= 64")), {"n": 0}, Typical({})).graph.executed == 0


@pytest.mark.parametrize(("is_bounded", "number"), [(False, 0), (True, 1)])
def test_bound_not_divisible_by_group_size_is_checked(is_bounded: bool, number: int) -> None:
    graph = source_profile(load_kernel(scaled_sum(is_bounded)), {"n": 1024}, Typical({})).graph
    assert {len(each.tests) for each in graph.instructions} == {number}


ROWS = ["[n] -> {[i, j]: 0 <= i < 3*n and 0 <= j < 1}"]
SLABS = ((0, 0), (0, 1))
"""no slab, and one for the last group"""


def test_slab_has_its_own_bounds() -> None:
    """Loopy generates the bulk of the groups without the bounds that the last group needs."""
    units = [lp.split_iname(stores(ROWS, ""), "i", 8, outer_tag="g.0", slabs=slabs) for slabs in SLABS]
    whole, bulk = (loops_of(unit, n=100)["i_inner"].bound for unit in units)
    assert whole.values is None
    assert bulk == LoopBound((8,))
    assert "for (int i_inner = 0; i_inner <= 7; ++i_inner)" in text_of(units[1])


def test_bulk_of_the_groups_has_no_bounds_check() -> None:
    """With a slab, only the last group checks the condition on the work-item."""
    tests = {}
    for slabs in SLABS:
        unit = lp.split_iname(stores(ROWS, ""), "i", 8, outer_tag="g.0", inner_tag="l.0", slabs=slabs)
        graph = source_profile(load_kernel(unit), {"n": 100}, Typical({})).graph
        (tests[slabs],) = {each.tests for each in graph.instructions if each.kind == "store"}
    assert tests[0, 0]
    assert not tests[0, 1]


def calls_in_graphs(statements: int, in_loop: str) -> int:
    """Return the number of function calls that construct the graph of a chain with this number of *statements*."""
    chain = "\n".join(f"<> x{k} = x{k - 1}*a[i]\ny = y + x{k}" for k in range(1, statements))
    code = f"<> y = 0.5f\n{in_loop}\n<> x0 = y\n{chain}\n{'end' if in_loop else ''}\nb[i] = y"
    domains = ["{[i]: 0<=i<32}", *(["{[j]: 0<=j<9}"] if in_loop else [])]
    unit = lp.make_kernel(domains, code, seq_dependencies=True, lang_version=(2018, 2))
    kernel = load_kernel(lp.tag_inames(lp.add_dtypes(unit, {"a": np.float32}), {"i": "l.0"}))
    calls = 0

    def count(frame: Any, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "loopyperf" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        source_profile(kernel, {}, Typical({}))
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("in_loop", ["", "for j"])
def test_graph_construction_is_linear_in_the_length_of_a_chain(in_loop: str) -> None:
    assert calls_in_graphs(80, in_loop) < 2.3 * calls_in_graphs(40, in_loop)
