"""Test that joining the variables of tiles keeps the number of points and restores the original loops."""

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopyperf.polyhedral.sets import without_tiles
from tests.polyhedral.random_sets import GRID, boxes, constraints, counted, fixed


def test_tiled_loops_are_restored(subtests: pytest.Subtests) -> None:
    for tiled, plain in [
        ("{ [o, i] : 0 <= i < 16 and 0 <= o and 16*o + i < n }", "{ [x] : 0 <= x < n }"),
        ("{ [i, o] : 0 <= i < 16 and m <= 16*o + i < n }", "{ [x] : m <= x < n }"),
        # A triangle of which both sides are tiled, by different widths.
        (
            "{ [o, i, p, j] : 0 <= i < 16 and 0 <= o and 16*o + i < n and 0 <= j < 4 and 0 <= 4*p + j <= 16*o + i }",
            "{ [x, y] : 0 <= x < n and 0 <= y <= x }",
        ),
        # Tiles of tiles.
        ("{ [o, k, i] : 0 <= i < 4 and 0 <= k < 8 and 0 <= 32*o + 4*k + i < n }", "{ [x] : 0 <= x < n }"),
        # Two pieces: all points but one.
        ("{ [o, i] : 0 <= i < 8 and 0 <= 8*o + i < n and 8*o + i != 5 }", "{ [x] : 0 <= x < n and x != 5 }"),
        (
            "{ [o, i] : 0 <= i < 8 and 0 <= 8*o + i < n and (8*o + i) mod 3 = 1 }",
            "{ [x] : 0 <= x < n and x mod 3 = 1 }",
        ),
        # Two pieces, one of which has only half a tile.
        (
            "{ [o, i] : 0 <= i and (o = 0 and i < 8 or o > 0 and i < 16 and 16*o + i < n) }",
            "{ [x] : 0 <= x < 8 or 16 <= x < n }",
        ),
        # Half a tile, which would leave holes.
        ("{ [o, i] : 0 <= i < 8 and 0 <= 16*o + i < n }", None),
        ("{ [o, i, k] : 0 <= i < 8 and 0 <= 16*o + i + 4*k < n and 0 <= k <= m }", None),
        # Not tiles: the inner variable leaves its tile, or has no bound of its own.
        ("{ [o, i] : 0 <= i <= 8 and 0 <= o and 8*o + i < n }", None),
        ("{ [o, i] : -1 <= i < 8 and 0 <= o and 8*o + i < n }", None),
        ("{ [o, i] : 0 <= i <= m and 0 <= o and 8*o + i < n }", None),
        ("{ [o, i] : 0 <= i < 8 and 0 <= o < n }", None),
    ]:
        with subtests.test(tiled=tiled, plain=plain):
            joined = without_tiles(isl.Set(f"[m, n] -> {tiled}"))
            assert joined.plain_is_equal(isl.Set(f"[m, n] -> {plain or tiled}"))


def test_tiled_triangle_has_the_polynomial_of_a_triangle() -> None:
    tiled = "{ [o, i, p, j] : 0 <= i < 16 and 0 <= o and 16*o + i < n and 0 <= j < 4 and 0 <= 4*p + j <= 16*o + i }"
    assert str(counted(tiled, "n >= 1")) == "n^2/2 + n/2"


def in_tiles(polyhedron: str, width: int, height: int) -> str:
    """Return the set of *polyhedron*, of i and j, with i in tiles of *width* and j in tiles of *height*."""
    i, j = f"({width}*o + x)", f"({height}*p + y)"
    tiled = "".join({"i": i, "j": j}.get(letter, letter) for letter in polyhedron)
    return f"{{ [o, x, p, y] : {tiled} and 0 <= x < {width} and 0 <= y < {height} }}"


@settings(max_examples=60, derandomize=True)
@given(boxes, st.lists(constraints, max_size=2), st.integers(2, 16), st.integers(2, 5))
def test_tiling_does_not_change_the_number_of_points(box: str, cuts: list[str], width: int, height: int) -> None:
    polyhedron = " and ".join([box, *cuts])
    tiled = isl.Set(f"[m, n] -> {in_tiles(polyhedron, width, height)}")
    plain, joined = isl.Set(f"[m, n] -> {{ [i, j] : {polyhedron} }}"), without_tiles(tiled)
    for sizes in GRID[::3]:
        numbers = {fixed(points, sizes).count_val().to_python() for points in (plain, tiled, joined)}
        assert len(numbers) == 1, sizes
