"""Projections with many existential variables: a small set is listed as boxes, and stays the same set."""

import islpy as isl

from loopyperf.polyhedral.points import Points

TIED = (
    "i + j <= 4a <= i + 2j + 3 and 3a <= 5b <= 3a + i + 2 and j <= 7c <= j + 2b + i and a + b <= 3d <= a + b + c + 4"
    " and 0 <= a <= 40 and 0 <= b <= 40 and 0 <= c <= 40 and 0 <= d <= 40"
)


def divisions(points: isl.Set) -> int:
    return max(part.dim(isl.dim_type.div) for part in points.get_basic_sets())


def test_projection():
    points = isl.Set(f"{{ [i, j, a, b, c, d] : 0 <= i < 12 and 0 <= j < 9 and {TIED} }}")
    expected = points.project_out(isl.dim_type.set, 2, 4)
    assert divisions(expected) >= 3
    found = Points(points).outer(2)
    assert divisions(found.set) == 0
    assert found.set.is_equal(expected)
    assert found.number == sum(1 for i in range(12) for j in range(9) if not expected.intersect(at(i, j)).is_empty())


def at(i: int, j: int) -> isl.Set:
    return isl.Set(f"{{ [{i}, {j}] }}")
