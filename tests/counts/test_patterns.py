"""Test the stride classes of accesses of small kernels against hand-derived ones."""

import pytest

from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.kernel import load_kernel
from tests.counts import small_accesses, small_loops
from tests.counts.small_kernels import KernelBuilder

LOAD = "global load 32-bit stride "


def loads(build: KernelBuilder, **sizes: int) -> dict[str, int]:
    """Return stride class -> number of 32-bit loads."""
    counts = count_kernel(load_kernel(build())).properties().evaluate(**sizes)
    return {name.removeprefix(LOAD): int(number) for name, number in counts.items() if name.startswith(LOAD)}


def test_stride_classes_of_access_patterns(subtests: pytest.Subtests) -> None:
    for build, classes in [
        (small_accesses.every_other_cell, {"1/2": 40}),
        (small_accesses.pairs_of_cells, {"2/2": 80}),
        # Sixteen lanes access four elements of b, three apart: less than one element per lane.
        (small_accesses.pairs_of_cells_at_computed_places, {"2/2": 80, "1": 40}),
        (small_accesses.two_of_three_cells, {"2/3": 80}),
        # The only lane at the edge has no neighbor; up to where that would be, its element and a[2] are touched.
        (small_accesses.every_other_cell_and_an_edge, {"1/2": 40, "2/2": 1}),
        (small_accesses.backwards, {"2/2": 80}),
        (small_accesses.a_broadcast, {"0": 40}),
        # Lanes along i, row-major arrays: a is read across rows, b along them.
        (small_accesses.rows_and_columns, {"4/>4": 1600, "1": 1600}),
        (small_accesses.rows_and_columns_in_fortran_order, {"1": 1600, "4/>4": 1600}),
        (small_accesses.half_a_matrix_by_columns, {"2/>4": 820}),
        (small_accesses.one_column, {"1/>4": 40}),
        (small_accesses.the_diagonal, {"1/>4": 40}),
        (small_accesses.three_of_four_members, {"3/4": 120}),
        (small_accesses.structures_with_padding, {"3/4": 120}),
        # A third, rounded up to quarters.
        (small_accesses.two_of_six_members, {"2/>4": 80}),
        (small_accesses.an_axis_of_length_one, {"1/2": 40}),
        # A lane that wraps around is an edge, unless most groups wrap around.
        (small_accesses.a_ring, {"1": 160}),
        (small_accesses.a_torus, {"1/2": 6400}),
        (small_accesses.a_column_of_a_ring, {"1/>4": 40}),
        (small_accesses.wraps_in_some_groups, {"1": 40, "2/2": 40}),
        # Gaps between the elements of a layout are memory, too.
        (small_accesses.elements_far_apart, {"1/>4": 40}),
        (small_accesses.elements_two_apart_backwards, {"1/2": 40}),
        (small_accesses.elements_three_apart, {"1/3": 40}),
        (small_accesses.rows_with_gaps, {"1/2": 40}),
        (small_accesses.rows_in_reverse, {"1/>4": 40}),
        (small_accesses.structures_with_gaps, {"3/>4": 120}),
        (small_accesses.a_matrix_with_gaps, {"2/>4": 1600}),
    ]:
        with subtests.test(build=build, classes=classes):
            assert classes == loads(build, n=40)


def test_few_rows_of_four_elements_are_dense() -> None:
    # Three lanes with four elements each: the third lane has no neighbor, but does not make the other two sparse.
    assert loads(small_loops.a_fixed_size) == {"4/4": 3 * 4}
