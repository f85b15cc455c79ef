"""Tests of the number of runs of a measurement, and of its clocks."""

from dataclasses import dataclass, field
from itertools import count

import pytest

from loopyperf.errors import MeasurementError
from loopyperf.measurement.backends.backend import BenchmarkCase, MeasuredTimes
from loopyperf.measurement.drift_monitor import measured, probed
from loopyperf.measurement.protocol import Protocol

from .synthetic import configuration, environment

CASE = BenchmarkCase("scale", configuration(), {"n": 16})


@dataclass
class ScriptedBackend:
    """A backend that takes the next of *seconds* for each run, and half of it on the device clock."""

    seconds: object
    done: list[str] = field(default_factory=list)
    environment = environment()

    def time(self, case, runs):
        self.done += ["run"] * runs
        wall = tuple(next(self.seconds) for _ in range(runs))
        return MeasuredTimes(wall, tuple(each / 2 for each in wall))


def rising(start=1e-6):
    """Return times that double in each run, so that the minimum never recurs."""
    return (start * 2**number for number in count())


def constant(seconds):
    return (seconds for _ in count())


def runs_of(seconds, **rules):
    return len(measured(ScriptedBackend(seconds), CASE, Protocol(**rules)).wall)


def test_all_runs_of_the_paper_are_made_if_the_minimum_never_recurs():
    assert runs_of(rising(1e-12)) == 30


def test_runs_end_once_the_minimum_recurs():
    assert runs_of(constant(1e-3)) == 4 + 8


def test_recurring_minimum_among_the_dropped_runs_does_not_count():
    first = [1e-6] * 4
    later = (1e-3 * 1.1**number for number in count())
    assert runs_of(seconds for source in (first, later) for seconds in source) == 30


def test_slow_kernel_has_fewer_runs():
    # 12 runs of 20 ms or more exceed the budget of 0.2 s, and the third that counts is 4 % slower than the first.
    assert runs_of(0.02 + 0.0005 * number for number in count()) == 12
    # At 8 %, runs end when twice the budget is spent, after 16 runs.
    assert runs_of(0.02 + 0.001 * number for number in count()) == 16
    assert runs_of(1e-5 + 1e-6 * number for number in count()) == 30


def test_all_runs_are_made_if_fewest_requires_them():
    assert runs_of(constant(1.0), runs=20, fewest=16) == 20


def test_runs_do_not_exceed_the_protocols_limit():
    assert runs_of(rising(), runs=6, dropped=1) == 6
    assert runs_of(constant(1.0), runs=6, dropped=1) == 6


def test_long_probe_is_a_single_run():
    assert len(probed(ScriptedBackend(constant(0.1)), CASE, Protocol()).wall) == 1
    assert len(probed(ScriptedBackend(constant(0.05)), CASE, Protocol()).wall) == 3


def test_samples_of_both_clocks_are_in_order():
    timing = measured(ScriptedBackend(rising(2e-12)), CASE, Protocol())
    assert timing.wall == tuple(2e-12 * 2**number for number in range(30))
    assert timing.device == tuple(1e-12 * 2**number for number in range(30))


def test_device_times_are_dropped_if_some_runs_have_none():
    assert MeasuredTimes((1.0,), (0.5,)).followed_by(MeasuredTimes((2.0,))) == MeasuredTimes((1.0, 2.0))


def test_number_of_device_times_must_equal_the_runs():
    with pytest.raises(MeasurementError, match="2 runs have 1 device times"):
        MeasuredTimes((1.0, 2.0), (1.0,))
