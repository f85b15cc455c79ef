"""Test the least-squares problem of a fit: rows relative to the measured times, columns by name, invalid rows."""

import math

import numpy as np
import pytest

from loopyperf.calibration.problem import Observation, pose_problem
from loopyperf.errors import CalibrationError


def observed(seconds: float = 1.0, **properties: int) -> Observation:
    return Observation(
        "class", "label", {"n": 8}, {name.replace("_", " "): n for name, n in properties.items()}, seconds
    )


def test_rows_are_divided_by_the_measured_time():
    problem = pose_problem([observed(0.5, f32_add=3, launches=1), observed(2.0, f32_add=4, launches=1)])
    assert problem.properties == ("f32 add", "launches")
    np.testing.assert_array_equal(problem.matrix, [[6.0, 2.0], [2.0, 0.5]])


def test_missing_property_counts_as_zero():
    problem = pose_problem([observed(launches=1), observed(launches=1, barriers=5)])
    np.testing.assert_array_equal(problem.matrix, [[0.0, 1.0], [5.0, 1.0]])


def test_order_of_columns_depends_on_names_alone():
    first = observed(launches=1, barriers=2, f32_add=3)
    second = observed(f32_mul=4, f32_add=3, launches=1)
    expected = ("barriers", "f32 add", "f32 mul", "launches")
    assert pose_problem([first, second]).properties == expected
    assert pose_problem([second, first]).properties == expected


def test_minimum_of_loads_and_stores_comes_after_the_other_columns():
    names = ["global min(load, store) 32-bit stride 1", "work-groups", "global store 32-bit stride 1"]
    problem = pose_problem([Observation("class", "label", {}, dict.fromkeys(names, 1), 1.0)])
    assert problem.properties == (names[2], names[1], names[0])


def test_zero_columns_are_dropped_and_listed():
    problem = pose_problem([observed(launches=1, f64_div=0), observed(launches=2)])
    assert problem.absent == ("f64 div",)
    assert problem.properties == ("launches",)
    assert problem.matrix.shape == (2, 1)


def test_matrix_is_read_only():
    problem = pose_problem([observed(launches=1)])
    with pytest.raises(ValueError, match="read-only"):
        problem.matrix[0, 0] = 2.0


def test_empty_observations_are_refused():
    with pytest.raises(CalibrationError, match=r"no observations.*loopyperf calibrate"):
        pose_problem([])


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_non_positive_or_non_finite_time_is_refused(seconds: float):
    with pytest.raises(CalibrationError, match=rf"'class' \(label; n=8\) must be a positive.*got {seconds}"):
        pose_problem([observed(launches=1), observed(seconds, launches=1)])


def test_negative_count_is_refused_by_name():
    with pytest.raises(CalibrationError, match=r"count of 'f32 add' in 'class' \(label; n=8\).*got -3"):
        pose_problem([observed(launches=1, f32_add=-3)])


@pytest.mark.parametrize("counts", [{}, {"launches": 0}])
def test_observation_without_counts_is_refused(counts: dict[str, int]):
    with pytest.raises(CalibrationError, match=r"all counts of .* are 0.*omit it"):
        pose_problem([observed(launches=1), observed(**counts)])
