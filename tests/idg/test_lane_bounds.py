"""What the bounds of loops depend on, whatever the size and the warp."""

from typing import Any

import pytest
from machine_code.kernels import n_body, tiled_multiplication
from machine_code.varied_kernels import bounded_tiles, line_stencil, scaled_sum, small_products, sums_of_rows

from loopyperf.counts.typical import Typical
from loopyperf.idg.construction.kernel_graphs import kernel_graphs
from loopyperf.idg.program import Loop
from loopyperf.kernel import load_kernel
from test_kernels.finite_difference import finite_difference


def loops_of(unit: Any, **sizes: int) -> dict[str, Loop]:
    graph = kernel_graphs(load_kernel(unit), sizes, Typical({}))
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
    assert {name for name, loop in loops_of(unit, **sizes).items() if loop.lanes_part} == parting


def test_the_number_of_passes_is_known_where_sizes_do_not_tell() -> None:
    known = {name: loop.is_constant for name, loop in loops_of(tiled_multiplication(16), n=64).items()}
    assert known == {"k_outer": False, "k_inner": True}
    assert not any(loop.is_constant for loop in loops_of(bounded_tiles(), n=100).values())
    assert all(loop.is_constant for loop in loops_of(small_products(), n=128).values())


@pytest.mark.parametrize(("is_bounded", "number"), [(False, 0), (True, 1)])
def test_a_bound_that_is_no_multiple_of_the_group_is_tested(is_bounded: bool, number: int) -> None:
    graph = kernel_graphs(load_kernel(scaled_sum(is_bounded)), {"n": 1024}, Typical({}))
    assert {len(each.tests) for each in graph.instructions} == {number}
