"""What the code says of the number of passes of loops, whatever the size and the warp."""

import sys
from typing import Any

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.sizes import Typical
from loopyperf.idg.program import WORK_GROUP, Loop, LoopBound
from loopyperf.kernel import load_kernel
from loopyperf.memory.source_launch import source_profile
from test_kernels.finite_difference import finite_difference
from tests.machine_code.kernels import n_body, tiled_multiplication
from tests.machine_code.varied_kernels import bounded_tiles, line_stencil, scaled_sum, small_products, sums_of_rows


def loops_of(unit: Any, **sizes: int) -> dict[str, Loop]:
    graph = source_profile(load_kernel(unit), sizes, Typical({})).graph
    return {loop.name: loop for loops in graph.loops_around for loop in loops}


@pytest.mark.parametrize(
    ("unit", "sizes", "parting"),
    [
        (finite_difference(), {"n": 64}, {"u_row_outer", "u_column_outer"}),
        (finite_difference((64, 4)), {"n": 64}, {"u_row_outer", "u_column_outer"}),
        # 32 work-items fetch 2·16 + 32 elements in two whole rounds.
        (line_stencil(16, 32), {"n": 256}, set()),
        (line_stencil(1), {"n": 256}, {"place_outer"}),
        (sums_of_rows(), {"n": 256, "m": 7}, set()),
        (n_body(64), {"n": 128}, set()),
    ],
)
def test_lanes_part_where_bounds_depend_on_the_work_item(unit: Any, sizes: dict[str, int], parting: set[str]) -> None:
    assert {name for name, loop in loops_of(unit, **sizes).items() if loop.lanes_diverge} == parting


def test_the_number_of_passes_is_known_where_sizes_do_not_tell() -> None:
    known = {name: loop.is_constant for name, loop in loops_of(tiled_multiplication(16), n=64).items()}
    assert known == {"k_outer": False, "k_inner": True}
    assert not any(loop.is_constant for loop in loops_of(bounded_tiles(), n=100).values())
    assert all(loop.is_constant for loop in loops_of(small_products(), n=128).values())


def stores(domains: list[str], tags: str) -> lp.TranslationUnit:
    """Return a kernel that stores in each pass of j, where i is an index of the hardware."""
    arguments = [lp.GlobalArg("out", np.float32, shape=lp.auto), lp.ValueArg("n", np.int32)]
    unit = lp.make_kernel(domains, "out[i, j + 1] = 1", arguments, lang_version=(2018, 2), target=lp.PyOpenCLTarget())
    return lp.tag_inames(unit, tags)


def text_of(unit: lp.TranslationUnit) -> str:
    return lp.generate_code_v2(unit).device_code()


def test_bounds_that_move_with_the_group_may_be_a_constant_number_of_passes() -> None:
    unit = stores(["[n] -> {[i]: 0 <= i < n}", "[i] -> {[j]: i - 1 <= j <= i + 1}"], "i:g.0")
    assert "for (int j = -1 + gid(0); j <= 1 + gid(0); ++j)" in text_of(unit)
    assert loops_of(unit, n=9)["j"].bound == LoopBound((3,))


# j of 0, ..., 3 is in the domain of work-item i if j <= i
TRIANGLE = ["{[j]: 0 <= j < 4}", "[j] -> {[i]: j <= i < 32}"]


def test_conditions_inside_a_loop_are_no_bounds() -> None:
    unit = stores(TRIANGLE, "i:l.0")
    assert "for (int j = 0; j <= 3; ++j)\n    if (" in text_of(unit)
    assert loops_of(unit, n=9)["j"].bound == LoopBound((4,))


def test_copies_that_loopy_writes_are_under_the_conditions_of_what_is_in_them() -> None:
    unit = stores(TRIANGLE, "i:l.0,j:unr")
    assert text_of(unit).count("if (") == 3  # nothing is to be tested for j = 0
    assert loops_of(unit, n=9)["j"].lanes_diverge


def test_a_bound_that_is_one_of_several_constants_names_what_it_depends_on() -> None:
    # j of group i from 0 to i, of four groups: 1, 2, 3 or 4 passes; the same with i a loop around it
    domains = ["{[i]: 0 <= i < 4}", "[i] -> {[j]: 0 <= j <= i}"]
    by_group, by_loop = (loops_of(stores(domains, tags), n=9)["j"] for tags in ("i:g.0", "i:for"))
    assert (by_group.is_constant, by_group.bound.depends_on, by_group.bound.loops) == (False, {WORK_GROUP}, set())
    assert (by_loop.is_constant, by_loop.bound.depends_on, by_loop.bound.loops) == (True, set(), {"i"})


def test_a_kernel_that_visits_nothing_at_a_size_has_an_empty_graph() -> None:
    unit = stores(["[n] -> {[i]: 2 <= i <= n}", "[n, i] -> {[j]: i < j <= n}"], "j:for")
    unit = lp.split_iname(unit, "i", 2, outer_tag="g.0", inner_tag="l.0")
    assert source_profile(load_kernel(lp.assume(unit, "0 <= n <= 64")), {"n": 0}, Typical({})).graph.executed == 0


@pytest.mark.parametrize(("is_bounded", "number"), [(False, 0), (True, 1)])
def test_a_bound_that_is_no_multiple_of_the_group_is_tested(is_bounded: bool, number: int) -> None:
    graph = source_profile(load_kernel(scaled_sum(is_bounded)), {"n": 1024}, Typical({})).graph
    assert {len(each.tests) for each in graph.instructions} == {number}


ROWS = ["[n] -> {[i, j]: 0 <= i < 3*n and 0 <= j < 1}"]
SLABS = ((0, 0), (0, 1))
"""none, and one for the last group"""


def test_a_slab_has_bounds_of_its_own() -> None:
    """Loopy writes the bulk of the groups without the bounds that the last one needs."""
    units = [lp.split_iname(stores(ROWS, ""), "i", 8, outer_tag="g.0", slabs=slabs) for slabs in SLABS]
    whole, bulk = (loops_of(unit, n=100)["i_inner"].bound for unit in units)
    assert whole.values is None
    assert bulk == LoopBound((8,))
    assert "for (int i_inner = 0; i_inner <= 7; ++i_inner)" in text_of(units[1])


def test_in_the_bulk_of_the_groups_nothing_is_tested() -> None:
    """The same condition on the work-item that the last group tests."""
    tests = {}
    for slabs in SLABS:
        unit = lp.split_iname(stores(ROWS, ""), "i", 8, outer_tag="g.0", inner_tag="l.0", slabs=slabs)
        graph = source_profile(load_kernel(unit), {"n": 100}, Typical({})).graph
        (tests[slabs],) = {each.tests for each in graph.instructions if each.kind == "store"}
    assert tests[0, 0]
    assert not tests[0, 1]


def calls_in_graphs(statements: int, in_loop: str) -> int:
    """Return how many functions the construction of a graph calls for a chain of so many *statements*."""
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
def test_chains_twice_as_long_take_twice_the_steps(in_loop: str) -> None:
    assert calls_in_graphs(80, in_loop) < 2.3 * calls_in_graphs(40, in_loop)
