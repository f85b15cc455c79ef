"""Tests of the rules of a measurement protocol."""

import pytest

from loopyperf.errors import MeasurementError
from loopyperf.measurement.protocol import Protocol, Summary


def test_default_protocol_is_that_of_the_paper():
    # Stevens and Klöckner, section 4.2: 30 runs, the first 4 disregarded.
    assert (Protocol().runs, Protocol().dropped) == (30, 4)


def test_measured_time_is_the_minimum_after_the_first_runs_are_dropped():
    samples = (0.5, 0.1, 0.2, 0.3, 4.0, 3.0, 5.0)  # the fastest runs are among the first four
    assert Protocol().measured_time(samples) == 3.0


def test_probed_time_is_the_minimum_of_all_runs():
    assert Protocol().probed_time((3.0, 1.0, 2.0)) == 1.0


def test_a_summary_has_minimum_median_and_spread_of_the_runs_that_count():
    samples = (0.5, 0.1, 0.2, 0.3, 4.0, 3.0, 5.0, 6.0)
    assert Protocol().summary(samples) == Summary(minimum=3.0, median=4.5, spread=0.5, runs=4)


def test_str_describes_the_rules():
    assert str(Protocol()) == "at most 30 runs, the first 4 dropped, warm caches, order of seed 0"
    assert str(Protocol(seed=None)).endswith("order of the files")


def test_measured_time_rejects_a_probe():
    with pytest.raises(MeasurementError, match=r"3 samples .* probed_time"):
        Protocol().measured_time((1.0, 2.0, 3.0))


def test_contradictory_rules_are_refused(subtests: pytest.Subtests):
    for rules in [
        {"runs": 4},
        {"dropped": -1},
        {"probe_runs": 0},
        {"probe_runs": 30},
        {"longest_run": 0.0},
        {"longest_run": float("nan")},
        {"overhead_factor": -1.0},
        {"fewest": 0},
        {"stable": -0.1},
        {"budget": float("inf")},
        {"yardstick_runs": -1},
        {"slow": float("nan")},
        {"repeats": -1},
        {"patience": -1.0},
    ]:
        with subtests.test(rules=rules), pytest.raises(MeasurementError):
            Protocol(**rules)
