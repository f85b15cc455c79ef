"""Test the factors of sets, and the intervals of single dimensions."""

from functools import reduce

import islpy as isl
import pytest

from loopyperf.polyhedral.sets import dimension_interval, factors

# Tiles of 12 of 0 <= 12*o + i < 35: o is 0, 1 or 2; i is below 12, and below 11 in the last tile.
TILES = isl.BasicSet("[n] -> { [o, i, s] : 0 <= o and 0 <= i <= 11 and 12o + i <= 34 and 0 <= s < n }")


@pytest.mark.parametrize(
    ("name", "given", "values"),
    [
        ("o", (), range(3)),
        ("i", (), range(12)),
        ("o", ("i",), None),
        ("i", ("o", "s"), None),
        ("o", ("s",), range(3)),
        ("s", (), None),
    ],
)
def test_interval_exists_if_it_is_independent_of_other_dimensions(
    name: str, given: tuple[str, ...], values: range | None
) -> None:
    assert dimension_interval(TILES, name, given) == values


def test_unbounded_dimension_has_no_interval() -> None:
    points = isl.BasicSet("{ [i, j] : 0 <= i and j = 3 }")
    assert dimension_interval(points, "i") is None
    assert dimension_interval(points, "j") == range(3, 4)


def test_empty_set_has_no_interval() -> None:
    assert dimension_interval(isl.BasicSet("{ [i] : 0 <= i < 0 }"), "i") is None


@pytest.mark.parametrize(
    ("text", "together"),
    [
        ("{ [i, j, k] : 0 <= i < 6 and 0 <= j <= i and 0 <= k < 4 }", [[0, 1], [2]]),
        ("{ [i, j, k] : 0 <= i < 9 and i mod 3 = 2 and 0 <= j < 8 and k = j mod 4 }", [[0], [1, 2]]),
        ("{ [i, j] : exists (e: 0 <= i < 9 and 0 <= j < 9 and -1 <= i + j - 4e <= 0) }", [[0, 1]]),
    ],
)
def test_set_is_the_product_of_its_factors(text: str, together: list[list[int]]) -> None:
    points = isl.BasicSet(text)
    parts = list(factors(points))
    assert [places for places, _ in parts] == together
    product = isl.Set.from_basic_set(reduce(isl.BasicSet.flat_product, (part for _, part in parts)))
    assert product.is_equal(isl.Set.from_basic_set(points))
