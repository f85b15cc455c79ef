"""Test the splits of kernel classes for cross-validation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.calibration.accuracy import MAX_FOLDS, folds, splits
from loopyperf.errors import CalibrationError

classes = st.lists(st.sampled_from([f"class {number}" for number in range(25)]), min_size=2, max_size=80).filter(
    lambda names: len(set(names)) > 1
)


@given(names=classes, most=st.integers(min_value=2, max_value=12))
def test_every_class_is_held_out_once_and_trained_in_all_other_splits(names: list[str], most: int):
    found = splits(names, most)
    assert sorted(place for _, held_out in found for place in held_out) == list(range(len(names)))
    for known, held_out in found:
        assert {names[place] for place in known} & {names[place] for place in held_out} == set()
        assert sorted([*known, *held_out]) == list(range(len(names)))
        assert known
        assert held_out


@given(names=classes)
def test_few_classes_are_held_out_one_by_one(names: list[str]):
    number = len(set(names))
    assert len(folds(names)) == min(number, MAX_FOLDS)
    if number <= MAX_FOLDS:
        assert all(len(fold) == 1 for fold in folds(names))


def test_single_class_is_refused():
    with pytest.raises(CalibrationError, match=r"needs at least two, got \['only'\]"):
        splits(["only", "only"])
