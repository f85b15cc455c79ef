"""Test the number of points at each position: listed, and by Barvinok's algorithm."""

import islpy as isl
import pytest

from loopyperf.polyhedral.number_by_place import DigitExpansion, ListedNumber, number_by_place

# 8 <= 16*t + i <= 40 with t from 0 to 2: 8 values of i for t = 0, 16 for t = 1, and 9 for t = 2.
TILES = isl.Set("{ [p, t, i] : 0 <= t <= 2 and 0 <= i <= 15 and 8 <= 16t + i <= 40 }")
NUMBERS = {0: 8, 1: 16, 2: 9}


def tiled_twice(places: int) -> isl.Set:
    """Return a set of points at each of *places* values of w, with tiles of 16 for i and of 32 for w."""
    return isl.Set(
        f"{{ [w, i] : exists (e, f: 0 <= w < {places} and 0 <= i <= 15 and 0 <= 16e <= 23 - i "
        f"and 0 <= 32f < {places} and w - 16e - 16 <= 32f <= w - 16e) }}"
    )


def test_number_of_listed_points_at_each_position() -> None:
    number = ListedNumber(TILES, 2)
    assert {t: number.at({1: t}) for t in range(3)} == NUMBERS
    assert number.at({1: 3}) == 0


def test_number_depends_on_constrained_dimensions() -> None:
    number = ListedNumber(TILES, 2)
    assert [number.depends_on(axis) for axis in range(2)] == [False, True]


def test_listed_numbers_agree_with_barvinok() -> None:
    listed, counted = ListedNumber(tiled_twice(60), 1), DigitExpansion(tiled_twice(60), 1)
    assert [counted.at({0: w}) for w in range(60)] == [listed.at({0: w}) for w in range(60)]


@pytest.mark.parametrize(
    ("points", "way"),
    [(TILES, DigitExpansion), (tiled_twice(60), ListedNumber), (tiled_twice(10_000), DigitExpansion)],
)
def test_sets_with_divisions_at_few_positions_are_listed(points: isl.Set, way: type) -> None:
    assert way is type(number_by_place(points, points.dim(isl.dim_type.set) - 1))
