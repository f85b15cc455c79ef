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
class Scripted:
    """Takes the *seconds* of each run, one after the other, half of them by the device's own clock."""

    seconds: object
    done: list[str] = field(default_factory=list)
    environment = environment()

    def time(self, case, runs):
        self.done += ["run"] * runs
        wall = tuple(next(self.seconds) for _ in range(runs))
        return MeasuredTimes(wall, tuple(each / 2 for each in wall))


class Emptying(Scripted):
    def empty_caches(self):
        self.done.append("empty")


def rising(begin=1e-6):
    """Each run takes twice as long as the one before: the fastest is never met again."""
    return (begin * 2**number for number in count())


def constant(seconds):
    return (seconds for _ in count())


def runs_of(seconds, **rules):
    return len(measured(Scripted(seconds), CASE, Protocol(**rules)).wall)


def test_there_are_as_many_runs_as_in_the_paper_where_no_time_is_met_again():
    assert runs_of(rising(1e-12)) == 30


def test_there_are_no_more_runs_once_the_fastest_was_met_again():
    assert runs_of(constant(1e-3)) == 4 + 8


def test_what_is_met_again_among_the_dropped_runs_does_not_count():
    first = [1e-6] * 4
    later = (1e-3 * 1.1**number for number in count())
    assert runs_of(seconds for source in (first, later) for seconds in source) == 30


def test_fewer_runs_are_made_of_a_slow_kernel():
    # Of 12 runs from 20 ms on, which take more than the budget of 0.2 s, the third that counts is 4 % slower than the
    # first.
    assert runs_of(0.02 + 0.0005 * number for number in count()) == 12
    # At 8 % it takes 16 runs until twice the budget is spent.
    assert runs_of(0.02 + 0.001 * number for number in count()) == 16
    assert runs_of(1e-5 + 1e-6 * number for number in count()) == 30


def test_all_runs_are_made_if_all_are_asked_for():
    assert runs_of(constant(1.0), runs=20, fewest=16) == 20


def test_no_more_runs_are_made_than_the_protocol_has():
    assert runs_of(rising(), runs=6, dropped=1) == 6
    assert runs_of(constant(1.0), runs=6, dropped=1) == 6


def test_a_probe_that_takes_long_is_a_single_run():
    assert len(probed(Scripted(constant(0.1)), CASE, Protocol()).wall) == 1
    assert len(probed(Scripted(constant(0.05)), CASE, Protocol()).wall) == 3


def test_samples_of_both_clocks_are_there_in_order():
    timing = measured(Scripted(rising(2e-12)), CASE, Protocol())
    assert timing.wall == tuple(2e-12 * 2**number for number in range(30))
    assert timing.device == tuple(1e-12 * 2**number for number in range(30))


def test_times_of_the_device_are_dropped_where_some_runs_have_none():
    assert MeasuredTimes((1.0,), (0.5,)).followed_by(MeasuredTimes((2.0,))) == MeasuredTimes((1.0, 2.0))


def test_times_of_other_runs_are_refused():
    with pytest.raises(MeasurementError, match="2 runs have 1 device times"):
        MeasuredTimes((1.0, 2.0), (1.0,))


def test_cold_caches_are_emptied_before_each_run():
    backend = Emptying(constant(1e-3))
    measured(backend, CASE, Protocol(caches="cold"))
    assert backend.done == ["empty", "run"] * 12


def test_warm_caches_are_left_alone():
    backend = Emptying(constant(1e-3))
    measured(backend, CASE, Protocol())
    assert backend.done == ["run"] * 12


def test_a_backend_that_cannot_empty_its_caches_is_not_measured_with_cold_ones():
    with pytest.raises(MeasurementError, match="cannot flush the caches of Synthetic Device 9000; use caches='warm'"):
        measured(Scripted(constant(1e-3)), CASE, Protocol(caches="cold"))
