"""Numbers of iterations by their offset in a line, compared with enumeration."""

from collections import Counter
from unittest.mock import patch

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopyperf.memory import residues
from loopyperf.memory.residues import AddressStride, Offset, TooManyOffsetsError, iterations_by_offset
from loopyperf.polyhedral.points import Points, points_listed

LINE = 128
SETS = [
    "{ [] }",
    "{ [i] : -7 <= i < 90 }",
    "{ [i] : 0 <= i < 90 and i mod 3 = 1 }",
    "{ [i,j] : -20 <= i < 30 and 3 <= j < 9 }",
    "{ [i,j] : 0 <= i < 30 and 0 <= j <= i }",
    "{ [i,j] : 0 <= i < 30 and 0 <= j < 30 and (i + j) mod 2 = 0 }",
    "{ [i,j,k] : 0 <= i < 12 and 0 <= k <= i and -3 <= j < 4 }",
    "{ [i,j,k] : 0 <= i < 5 and 0 <= j < 5 and 0 <= k < 5 and (i < 2 or j < 2) }",
]


def address_strides(dimensions: int) -> st.SearchStrategy[list[AddressStride]]:
    steps = st.sampled_from([0, 4, -4, 8, 12, 48, 128, 132, 400])
    return st.lists(st.builds(AddressStride, st.integers(1, 4), steps), min_size=dimensions, max_size=dimensions)


@pytest.mark.parametrize("few", [0, residues.LISTED_ITERATIONS], ids=["counted by isl", "listed where few"])
@pytest.mark.parametrize("text", SETS)
@settings(max_examples=10)
@given(draw=st.data())
def test_iterations_by_offset_equal_enumeration(text: str, few: int, draw: st.DataObject) -> None:
    iterations = isl.Set(text)
    strides = draw.draw(address_strides(iterations.dim(isl.dim_type.set)))
    expected = Counter[Offset]()
    for point in points_listed(iterations).tolist():
        phases = tuple(value % each.period for value, each in zip(point, strides, strict=True))
        moved = sum(each.step * (value // each.period) for value, each in zip(point, strides, strict=True))
        expected[Offset(phases, moved % LINE)] += 1
    with patch.object(residues, "LISTED_ITERATIONS", few):
        assert (
            Counter(iterations_by_offset(Points(iterations), lambda loops: [strides[loop] for loop in loops], LINE))
            == expected
        )


def test_too_many_offsets_raise() -> None:
    # 100 phases of each of two loops
    with pytest.raises(TooManyOffsetsError, match="10000 offsets"):
        iterations_by_offset(
            Points((range(1000), range(1000))), lambda loops: [AddressStride(100, 0)] * len(loops), LINE
        )
