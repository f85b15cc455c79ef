import pytest

from loopyperf.errors import MeasurementError
from loopyperf.measurement.protocol import Protocol


def test_default_protocol_is_that_of_the_paper():
    # Stevens and Klöckner, section 4.2: 30 runs, the first 4 disregarded.
    assert (Protocol().runs, Protocol().dropped) == (30, 4)


def test_measured_time_is_the_minimum_after_the_first_runs_are_dropped():
    samples = (0.5, 0.1, 0.2, 0.3, 4.0, 3.0, 5.0)  # the fastest runs are among the first four
    assert Protocol().measured_time(samples) == 3.0


def test_probed_time_is_the_minimum_of_all_runs():
    assert Protocol().probed_time((3.0, 1.0, 2.0)) == 1.0


def test_a_probe_is_not_taken_for_a_measurement():
    with pytest.raises(MeasurementError, match=r"3 samples .* probed_time"):
        Protocol().measured_time((1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    "rules",
    [
        {"runs": 4},
        {"dropped": -1},
        {"probe_runs": 0},
        {"probe_runs": 30},
        {"longest_run": 0.0},
        {"longest_run": float("nan")},
        {"overhead_factor": -1.0},
    ],
)
def test_contradictory_rules_are_refused(rules):
    with pytest.raises(MeasurementError):
        Protocol(**rules)
