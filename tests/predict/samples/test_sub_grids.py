"""Test which parts of a grid are run as samples."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.measurement.samples import sub_grids


@pytest.mark.parametrize(
    ("grid", "saturation", "parts"),
    [
        ((100,), 10, ((20,), (30,))),
        ((4,), 1, ((2,), (3,))),
        ((100, 100), 10, ((20, 1), (30, 1))),
        # Psat is 1056 = 5·211 + 1, so each Psat has five rows.
        ((256, 256), 1056, ((211, 10), (211, 15))),
        ((1500, 40), 1056, ((1056, 2), (1056, 3))),
        ((1, 1000), 7, ((1, 14), (1, 21))),
        # Psat is 100 = 13·7 + 9 and has 13 = 2·6 + 1 rows, so it becomes two layers of six rows.
        ((8, 8, 30), 100, ((7, 6, 4), (7, 6, 6))),
        ((8, 1, 1), 2, ((4, 1, 1), (6, 1, 1))),
    ],
)
def test_sample_is_the_start_of_a_row_or_a_box_of_nearly_psat_groups(
    grid: tuple[int, ...], saturation: int, parts: tuple[tuple[int, ...], ...]
):
    assert sub_grids(grid, saturation, (2, 3)) == parts


@pytest.mark.parametrize(("grid", "saturation"), [((3,), 1), ((30,), 10), ((2, 2, 2), 2), ((2500, 2), 1056), ((1,), 1)])
def test_too_small_grid_has_no_samples(grid: tuple[int, ...], saturation: int):
    assert sub_grids(grid, saturation, (2, 3)) is None


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=3),
    st.integers(1, 2000),
    st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True).map(sorted),
)
def test_samples_are_nested_in_the_grid_and_proportional(grid: list[int], saturation: int, multiples: list[int]):
    parts = sub_grids(tuple(grid), saturation, multiples)
    if parts is None:
        return
    for smaller, larger in zip(parts, [*parts[1:], tuple(grid)], strict=True):
        assert all(one <= other for one, other in zip(smaller, larger, strict=True))
    assert len({prod(part) / multiple for part, multiple in zip(parts, multiples, strict=True)}) == 1
    assert 0 < prod(parts[0]) <= multiples[0] * saturation
