"""Tests of the choice of sizes to measure."""

from hypothesis import given
from hypothesis import strategies as st

from loopyperf.measurement.protocol import sizes_to_measure

from .synthetic import configuration

SHORTEST, LONGEST = 1.0, 100.0

seconds = st.floats(0.01, 1000)
schedules = st.lists(seconds, min_size=1, max_size=12).map(sorted)
rules = st.fixed_dictionaries({"steps": st.integers(1, 5), "stride": st.integers(1, 4)})


def select(times, **rules):
    """Return the positions of the measured sizes and of the probed sizes, in order."""
    probed = []

    def probe(sizes):
        probed.append(sizes["n"])
        return times[sizes["n"]]

    ladder = configuration(ladder=tuple(range(len(times))), **rules)
    return [sizes["n"] for sizes in sizes_to_measure(ladder, probe, SHORTEST, LONGEST)], probed


def test_sizes_end_before_one_that_does_not_fit_the_memory():
    assert select([1.0, 10.0, None, 20.0])[0] == [0, 1]


def test_the_largest_size_that_fits_is_measured_if_none_runs_long_enough():
    assert select([0.1, 0.2, None])[0] == [1]


def test_nothing_is_measured_if_nothing_fits():
    assert select([None, None]) == ([], [0])


@given(times=schedules, rules=rules)
def test_sizes_match_the_definition(times, rules):
    fitting = [position for position, time in enumerate(times) if time <= LONGEST]
    long_enough = [position for position in fitting if times[position] >= SHORTEST]
    expected = [
        p for p in fitting if long_enough and p >= long_enough[0] and (p - long_enough[0]) % rules["stride"] == 0
    ]
    measured, _ = select(times, **rules)
    assert (expected[: rules["steps"]] or fitting[-1:]) == measured


@given(times=schedules, rules=rules)
def test_at_most_one_probed_size_runs_too_long(times, rules):
    _, probed = select(times, **rules)
    assert all(times[position] <= LONGEST for position in probed[:-1])
