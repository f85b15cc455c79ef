"""Tests of the least-recently-used cache of the measurement backends."""

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


def test_value_is_made_once_per_key(made, make):
    recent = Recent(2, eq)
    assert [recent.get(key, make) for key in "aabab"] == list("AABAB")
    assert made == ["a", "b"]


def test_least_recently_used_value_is_evicted(made, make):
    recent = Recent(2, eq)
    for key in "abacab":
        recent.get(key, make)
    assert made == ["a", "b", "c", "b"]


def test_eviction_precedes_making_the_next_value():
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


def test_failure_is_not_cached(made, make):
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
