from operator import eq, is_

import pytest

from loopyperf.measurement.backends.backend import Recent


@pytest.fixture
def made():
    return []


@pytest.fixture
def make(made):
    def make(key):
        made.append(key)
        return key.upper()

    return make


def test_a_value_is_made_once(made, make):
    recent = Recent(2, eq)
    assert [recent.get(key, make) for key in "aabab"] == list("AABAB")
    assert made == ["a", "b"]


def test_the_value_that_was_not_asked_for_the_longest_goes(made, make):
    recent = Recent(2, eq)
    for key in "abacab":
        recent.get(key, make)
    assert made == ["a", "b", "c", "b"]


def test_it_goes_before_the_next_one_is_made():
    held = []

    class Held:
        def __init__(self, key):
            held.append(self)

    recent = Recent(2, eq)
    kept = {key: id(recent.get(key, Held)) for key in "ab"}
    held.clear()
    seen = []
    recent.get("c", lambda key: seen.extend(id(value) for _, value in recent._kept))
    assert seen == [kept["b"]]


def test_a_failure_leaves_nothing(made, make):
    recent = Recent(2, eq)
    with pytest.raises(ZeroDivisionError):
        recent.get("a", lambda key: 1 / 0)
    assert recent.get("a", make) == "A"


def test_keys_need_not_be_hashable(made):
    recent = Recent(2, is_)
    one, other = {"n": 1}, {"n": 1}
    for key in (one, other, one):
        recent.get(key, lambda key: made.append(id(key)))
    assert made == [id(one), id(other)]
