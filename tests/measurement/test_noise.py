"""Tests of the noise floor and of the reference kernel's times."""

from datetime import UTC, datetime

import numpy as np
import pytest

from loopyperf.measurement.records import Measurement, noise_floor, reference_times, usual


def taken(rounds: int, *samples: float, kind="yardstick") -> Measurement:
    return Measurement(
        run="1",
        kernel_class=kind,
        label="group 64",
        sizes={"rounds": rounds},
        kind=kind,
        samples=samples,
        taken=datetime.now(UTC),
    )


def test_the_noise_floor_is_the_relative_standard_deviation():
    times = np.random.default_rng(0).normal(2e-3, 1e-5, 10_000)
    # Quantiles of 10,000 samples have errors of one or two hundredths of a standard deviation.
    assert noise_floor(times) == pytest.approx(0.005, rel=0.05)


def test_a_few_outliers_do_not_change_the_noise_floor():
    times = np.random.default_rng(0).normal(2e-3, 1e-5, 1000)
    times[:50] *= 10
    assert noise_floor(times) == pytest.approx(0.005, rel=0.15)


def test_noise_floor_of_a_single_time_is_none():
    assert noise_floor([1.0]) is None


def test_usual_time_is_the_lower_quartile():
    assert usual([1.0] * 30 + [2.0] * 70) == 1.0


def test_usual_time_ignores_a_single_fast_outlier():
    assert usual([0.1] + [1.0] * 99) == 1.0


def test_reference_times_are_minima_at_the_last_size():
    records = [taken(64, 9.0), taken(128, 3.0, 1.0), taken(128, 5.0, kind="measurement"), taken(128, 2.0, 4.0)]
    assert reference_times(records) == (1.0, 2.0)
    assert reference_times([]) == ()
