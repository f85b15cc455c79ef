"""Test which kernels cover each property, and variance inflation factors computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from loopyperf.calibration.dependence import own_parts, property_coverage, variance_inflation
from loopyperf.calibration.problem import Coverage, Observation, pose_problem, tabulate


def problem(*rows: dict[str, int], seconds: float = 1.0):
    """Return the problem of one observation for each row, with two classes and a label for each."""
    return pose_problem(
        Observation(f"class {number % 2}", f"kernel {number}", {}, row, seconds) for number, row in enumerate(rows)
    )


# {{{ variance inflation


def test_independent_properties_have_an_inflation_of_one():
    assert variance_inflation(problem({"a": 3}, {"b": 5})) == pytest.approx({"a": 1, "b": 1})


def test_inflation_of_two_columns_is_one_over_their_sine_squared():
    # a = (1, 0), b = (3, 4): the sine of the angle between them is 4/5, and 1/(4/5)² = 25/16
    assert variance_inflation(problem({"a": 1, "b": 3}, {"b": 4})) == pytest.approx({"a": 25 / 16, "b": 25 / 16})


def test_inflation_of_three_columns_uses_the_distance_from_a_plane():
    # The distance of c = (2, 3, 6)/7 from the plane of a and b is 6/7, so its inflation is 49/36. The plane of b and c
    # has the normal (6, 0, -2)/√40, so the distance of a = (1, 0, 0) is 6/√40 and its inflation 40/36. For b, the
    # normal is (0, 6, -3)/√45 and the inflation 45/36.
    inflation = variance_inflation(problem({"a": 1, "c": 2}, {"b": 1, "c": 3}, {"c": 6}))
    assert inflation == pytest.approx({"a": 40 / 36, "b": 45 / 36, "c": 49 / 36})


def test_linearly_dependent_columns_have_infinite_inflation():
    inflation = variance_inflation(problem({"a": 1, "b": 0, "sum": 1, "d": 1}, {"b": 2, "sum": 2, "d": 1}, {"d": 1}))
    assert inflation == {"a": math.inf, "b": math.inf, "sum": math.inf, "d": pytest.approx(inflation["d"])}
    # The distance of d = (1, 1, 1)/√3 from the plane of the first two axes is 1/√3.
    assert inflation["d"] == pytest.approx(3)


def test_more_properties_than_observations_give_infinite_inflation():
    assert variance_inflation(problem({"a": 1, "b": 1, "c": 2}, {"a": 1, "b": 2, "c": 1})) == dict.fromkeys(
        "abc", math.inf
    )


def test_rows_are_divided_by_their_run_times():
    rows = [
        Observation("class", f"{n}", {}, counts, s)
        for n, (counts, s) in enumerate([({"a": 1, "b": 3}, 1.0), ({"b": 4}, 2.0)])
    ]
    # With rows divided by their times, a = (1, 0) and b = (3, 2): sine² = 4/13.
    assert variance_inflation(pose_problem(rows)) == pytest.approx({"a": 13 / 4, "b": 13 / 4})


@given(arrays(float, (6, 4), elements=st.floats(0.1, 10)))
def test_own_parts_are_distances_from_the_span_of_the_others(matrix: np.ndarray):
    units = matrix / np.linalg.norm(matrix, axis=0)
    distances = []
    for column in range(4):
        others = np.delete(units, column, axis=1)
        nearest = others @ np.linalg.lstsq(others, units[:, column], rcond=None)[0]
        distances.append(np.linalg.norm(units[:, column] - nearest))
    # Own parts are computed from squared singular values, and rounding dominates the smallest: if two columns are
    # equal, the own parts of the others have errors of 1e-5.
    np.testing.assert_allclose(own_parts(matrix), distances, rtol=1e-4, atol=1e-7)


# }}}


# {{{ the table


def test_row_lists_classes_configurations_and_range():
    rows = tabulate(
        [
            Observation("sums", "small", {"n": 4}, {"f32 add": 4, "launches": 1}, 1.0),
            Observation("sums", "small", {"n": 8}, {"f32 add": 8, "launches": 1}, 2.0),
            Observation("sums", "large", {"n": 8}, {"f32 add": 80, "f32 mul": 0, "launches": 1}, 2.0),
            Observation("copies", "small", {"n": 8}, {"launches": 1}, 2.0),
        ],
        expected=("f32 mul",),
    )
    assert rows == (
        Coverage("f32 add", ("sums",), configurations=2, least=4, most=80),
        Coverage("f32 mul"),
        Coverage("launches", ("copies", "sums"), configurations=3, least=1, most=1),
    )


@pytest.mark.parametrize(
    ("kernels", "gap"), [(1, "only 1 of the kernels has it"), (2, "only 2 of the kernels have it"), (3, "")]
)
def test_property_of_fewer_than_three_kernels_is_a_gap(kernels: int, gap: str):
    assert tabulate(problem(*[{"a": 1}] * kernels).observations)[0].gap == gap


def test_gap_names_indistinguishable_properties():
    rows = {
        row.name: row
        for row in property_coverage(problem({"a": 1, "b": 2, "d": 1}, {"a": 2, "b": 4, "d": 1}, {"d": 1}))
    }
    assert (rows["a"].gap, rows["a"].inflation) == ("indistinguishable from b", None)
    assert rows["b"].gap == "indistinguishable from a"
    assert rows["d"].resembles == ()


@pytest.mark.parametrize(("sine", "gap"), [(0.005, "indistinguishable from a"), (0.05, "varies with a"), (0.2, "")])
def test_gap_depends_on_the_angle(sine: float, gap: str):
    # b is a rotated by the angle, in whole numbers. The last rows increase the number of kernels to three.
    across, along = round(1e9 * sine), round(1e9 * math.sqrt(1 - sine**2))
    rows = property_coverage(problem({"a": 10**9, "b": along}, {"b": across}, {"a": 1, "b": 1}, {"a": 1}))
    assert [row.gap for row in rows if row.name == "b"] == [gap]


# }}}
