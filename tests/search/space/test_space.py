"""Spaces: the order, names and choices of their points."""

import numpy as np
import pytest

from loopyperf.errors import ParameterError
from loopyperf.search.space import check_builds, spaced
from tests.kernels import doubled


def test_last_name_varies_fastest_in_the_numbers_of_points():
    space = spaced({"a": (1, 2), "b": ["x", "y", "z"]})
    assert space.points == 6
    assert [space.name(point) for point in range(6)] == [
        "a=1, b=x",
        "a=1, b=y",
        "a=1, b=z",
        "a=2, b=x",
        "a=2, b=y",
        "a=2, b=z",
    ]
    assert space.choice(4) == {"a": 2, "b": "y"}
    assert list(space.choice(4)) == ["a", "b"]


def test_number_of_a_point_follows_from_the_places_of_its_choices():
    space = spaced({"a": range(3), "b": (8, 4), "c": ["xy"]})
    assert [space.number(space.places(point)) for point in range(space.points)] == list(range(space.points))


def test_space_may_be_larger_than_memory():
    space = spaced({name: range(10**6) for name in "abcd"})
    assert space.points == 10**24
    assert space.choice(10**24 - 1) == dict.fromkeys("abcd", 10**6 - 1)


@pytest.mark.parametrize(
    ("choices", "is_scale"),
    [
        ((8, 16, 32), True),
        ((1.0, 0.5, 0.25), True),
        (range(0, 10, 3), True),
        ((7,), True),
        ((8, 32, 16), False),
        ((False, True), False),
        (("C", "F"), False),
        ((1, None), False),
    ],
)
def test_sorted_numbers_are_a_scale(choices, is_scale):
    assert spaced({"a": choices}).is_scale("a") is is_scale


def test_functions_and_types_appear_by_name():
    assert spaced({"dtype": (np.float32, np.float64), "how": (doubled,)}).name(1) == "dtype=float64, how=doubled"


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({}, "the space is empty"),
        ([("a", (1, 2))], "a space must be a dict"),
        (None, "a space must be a dict"),
        ({1: (1, 2)}, "names of a space must be strings"),
        ({"a": ()}, "'a' has no choices"),
        ({"a": range(0)}, "'a' has no choices"),
        ({"a": "abc"}, "a list, a tuple or a range, got 'abc'"),
        ({"a": {1, 2}}, "a list, a tuple or a range"),
        ({"a": 16}, "a list, a tuple or a range, got 16"),
        ({"a": (1, 2, 1)}, "two choices of 'a' have the same text, 1"),
        ({"a": (1, "1")}, "two choices of 'a' have the same text, 1"),
    ],
)
def test_invalid_space_is_refused(choices, message):
    with pytest.raises(ParameterError, match=message):
        spaced(choices)


def build(a, b=0):
    return doubled(group=a)


def any_names(**choice):
    return doubled()


@pytest.mark.parametrize("builder", [build, any_names, lambda a: doubled(), dict])
def test_builder_that_accepts_the_names_is_allowed(builder):
    check_builds(builder, spaced({"a": (1, 2)}))


@pytest.mark.parametrize(
    ("builder", "names", "message"),
    [
        (doubled(), "a", "needs a function that builds a program"),
        (5, "a", "needs a function that builds a program from choices, got 5"),
        (build, "c", r"build\(a, b=0\) cannot be called with the names of the space, c: missing .* 'a'"),
        (build, "ac", "cannot be called with the names of the space, a, c: .* unexpected keyword argument 'c'"),
        (build, "b", "cannot be called with the names of the space, b: missing a required argument: 'a'"),
    ],
)
def test_builder_that_does_not_accept_the_names_is_refused(builder, names, message):
    with pytest.raises(ParameterError, match=message):
        check_builds(builder, spaced(dict.fromkeys(names, (1, 2))))
