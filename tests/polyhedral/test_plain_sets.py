"""Test sets and maps as plain numbers, and the boxes found in them, against listed points."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from loopyperf.memory.touched_sectors import touched_by, touched_by_boxes
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.plain_sets import PlainMap, PlainSet, box_image, plain_box, plain_outputs
from loopyperf.polyhedral.points import Box, affine_map, boxed

INTERVALS = st.builds(lambda first, length: range(first, first + length), st.integers(-9, 9), st.integers(1, 5))
BOXES = st.integers(1, 3).flatmap(lambda number: st.tuples(*[INTERVALS] * number))
FACTORS = st.sampled_from([0, 0, 1, 1, -1, 2, 3, 4, -5, 8, 15])


@given(BOXES)
def test_box_is_recovered_from_its_constraints(box: Box) -> None:
    assert plain_box(PlainSet.of(boxed(box))) == box


@given(BOXES, st.data())
def test_image_of_a_box_is_none_or_the_image_of_its_points(box: Box, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*[FACTORS] * len(box), st.integers(-9, 9)), min_size=1, max_size=3))
    names = [f"x{place}" for place in range(len(box))]
    sums = [Affine.total(dict(zip(names, row, strict=False)), row[-1]) for row in rows]
    outputs = plain_outputs(PlainMap.of(affine_map(names, sums)))
    assert outputs is not None
    found = box_image(outputs, box)
    points = {tuple(each.at(dict(zip(names, point, strict=True))) for each in sums) for point in product(*box)}
    if found is not None:
        assert set(product(*found)) == points
        assert list(map(len, found)) == [len({point[place] for point in points}) for place in range(len(rows))]
    assert found is not None or len(box) > 1 or len(rows) > 1, "one loop goes evenly through its values"


@given(
    st.lists(st.tuples(INTERVALS, INTERVALS), min_size=1, max_size=5), st.sampled_from([(400, 4), (4, 400), (12, 4)])
)
def test_boxes_touch_the_sectors_of_their_union(boxes: list[Box], axes: tuple[int, int]) -> None:
    union = boxed(boxes[0])
    for each in boxes[1:]:
        union = union.union(boxed(each))
    assert touched_by_boxes(boxes, axes, 4) == touched_by(union, axes, 4)
