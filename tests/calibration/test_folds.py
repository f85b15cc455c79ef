"""No kernel class is on both sides of a split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.calibration.accuracy import MOST_FOLDS, folds, splits
from loopyperf.errors import CalibrationError

classes = st.lists(st.sampled_from([f"class {number}" for number in range(25)]), min_size=2, max_size=80).filter(
    lambda names: len(set(names)) > 1
)


@given(names=classes, most=st.integers(min_value=2, max_value=12))
def test_no_class_is_on_both_sides_of_a_split(names: list[str], most: int):
    for known, asked in splits(names, most):
        assert {names[place] for place in known} & {names[place] for place in asked} == set()
        assert known
        assert asked


@given(names=classes, most=st.integers(min_value=2, max_value=12))
def test_every_row_is_asked_about_once_and_learned_from_in_all_other_splits(names: list[str], most: int):
    found = splits(names, most)
    assert sorted(place for _, asked in found for place in asked) == list(range(len(names)))
    for known, asked in found:
        assert sorted([*known, *asked]) == list(range(len(names)))


@given(names=classes)
def test_few_classes_are_left_out_one_by_one(names: list[str]):
    number = len(set(names))
    assert len(folds(names)) == min(number, MOST_FOLDS)
    if number <= MOST_FOLDS:
        assert all(len(fold) == 1 for fold in folds(names))


def test_one_class_cannot_be_left_out():
    with pytest.raises(CalibrationError, match=r"needs at least two, got \['only'\]"):
        splits(["only", "only"])
