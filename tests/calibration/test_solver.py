"""Test the linear fit: the minimized error, the recovered weights, and the undetermined ones."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loopyperf.calibration.overlap_fit import RIDGE, solve
from loopyperf.calibration.problem import TOLERANCE, Observation, pose_problem
from loopyperf.errors import CalibrationError

NAMES = ("barriers", "f32 add", "launches", "work-groups")
COUNTS = np.random.default_rng(2016).integers(1, 10**6, (12, 4))
"""Twelve kernels of all scales, well conditioned: the condition number of the scaled matrix is below 20."""


def observe(counts: np.ndarray, seconds: np.ndarray) -> list[Observation]:
    return [
        Observation("class", f"row {row}", {}, dict(zip(NAMES, line.tolist(), strict=False)), float(time))
        for row, (line, time) in enumerate(zip(counts, seconds, strict=True))
    ]


def fit(counts, seconds, **options):
    return solve(pose_problem(observe(np.array(counts), np.array(seconds))), **options)


def weights_within(least: float, greatest: float):
    return st.lists(st.floats(least, greatest), min_size=4, max_size=4).map(lambda values: np.array(values) * 1e-12)


def least_own_part(columns):
    """Return the smallest distance of a column from the span of the others, of *columns* scaled to unit length."""
    columns = columns / np.linalg.norm(columns, axis=0)
    return 1 / np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)).max())


@settings(deadline=None)
@given(weights_within(-1.0, 10.0))
def test_plain_fit_recovers_the_weights_of_noiseless_times_exactly(true):
    seconds = COUNTS @ true
    assume((seconds > 1e-9).all())
    assume((seconds > 1e-3 * COUNTS @ np.abs(true)).all())  # exclude nearly canceling costs
    assume(least_own_part(COUNTS / seconds[:, np.newaxis]) > 2 * TOLERANCE)  # exclude nearly dependent columns
    solution = fit(COUNTS, seconds, non_negative=False)
    # The tolerance is the rounding error of the largest weight times the condition number.
    np.testing.assert_allclose(list(solution.weights.values()), true, atol=1e-11 * np.abs(true).max(), rtol=1e-6)
    assert solution.rank == 4
    assert np.abs(solution.residuals).max() < 1e-9


@settings(deadline=None)
@given(weights_within(0.1, 10.0))
def test_non_negative_fit_recovers_the_weights_up_to_the_ridge(true):
    seconds = COUNTS @ true
    solution = fit(COUNTS, seconds)
    scale = np.linalg.norm(COUNTS / seconds[:, np.newaxis], axis=0)
    least_singular = np.linalg.svd(COUNTS / seconds[:, np.newaxis] / scale, compute_uv=False)[-1]
    error = np.linalg.norm((np.array(list(solution.weights.values())) - true) * scale)
    # Optimality of w over w ≥ 0 gives (σ² + ρ²) ‖w − w₀‖ ≤ ρ² ‖w₀‖ for the least singular value σ.
    assert error <= RIDGE**2 / (least_singular**2 + RIDGE**2) * np.linalg.norm(true * scale)


@pytest.mark.parametrize("non_negative", [True, False])
@settings(deadline=None)
@given(st.floats(1e-6, 1e6), st.integers(0, 2**32 - 1))
def test_weights_scale_with_the_unit_of_times(non_negative: bool, factor: float, seed: int):
    seconds = np.random.default_rng(seed).uniform(1e-4, 1e-2, 12)
    once = fit(COUNTS, seconds, non_negative=non_negative)
    scaled = fit(COUNTS, seconds * factor, non_negative=non_negative)
    assert scaled.at_bound == once.at_bound
    largest = max(abs(weight) for weight in once.weights.values())
    for name, weight in once.weights.items():
        # The tolerance is the rounding error of the largest weight times the condition number.
        assert scaled.weights[name] / factor == pytest.approx(weight, rel=1e-6, abs=1e-9 * largest)


def test_relative_error_is_minimized():
    # Two kernels have one barrier each and take 1 s and 3 s. Σ (1 − α/T)² has its minimum at
    # α = Σ 1/T / Σ 1/T² = (4/3)/(10/9). Absolute least squares would give the mean, 2.
    assert fit([[1], [1]], [1.0, 3.0], non_negative=False).weights["barriers"] == pytest.approx(1.2, rel=1e-12)


def test_negative_weight_is_bounded_at_zero_and_reported():
    # A = [[10, 0], [10, 1]] / T with T = (10, 9): the plain fit is exact with weights 1 and −1. With the second weight
    # at 0, the first is Σ a / Σ a² for a = (1, 10/9).
    plain = fit([[10, 0], [10, 1]], [10.0, 9.0], non_negative=False)
    assert plain.weights == pytest.approx({"barriers": 1.0, "f32 add": -1.0}, rel=1e-12)
    assert plain.at_bound == ()
    bounded = fit([[10, 0], [10, 1]], [10.0, 9.0], ridge=0.0)
    assert bounded.weights == pytest.approx({"barriers": (1 + 10 / 9) / (1 + 100 / 81), "f32 add": 0.0}, rel=1e-12)
    assert bounded.at_bound == ("f32 add",)


@pytest.mark.parametrize("non_negative", [True, False])
def test_ridge_shrinks_a_unit_column_by_its_square_in_any_units(non_negative: bool):
    # One kernel has 500 barriers and takes 2 s. The scaled column is 1, so (1 − w)² + ρ² w² has its minimum at
    # w = 1 / (1 + ρ²).
    solution = fit([[500]], [2.0], ridge=0.5, non_negative=non_negative)
    assert solution.weights["barriers"] == pytest.approx(2.0 / 500 / 1.25, rel=1e-12)
    assert solution.residuals == pytest.approx([0.2], rel=1e-12)


def test_plain_fit_has_no_ridge_and_non_negative_fit_has_one():
    assert fit([[1]], [1.0], non_negative=False).ridge == 0.0
    assert fit([[1]], [1.0]).ridge == RIDGE


def test_orthogonal_columns_have_condition_one_at_any_scale():
    solution = fit([[10**6, 0], [0, 1]], [1.0, 1.0])
    assert solution.condition == pytest.approx(1.0, rel=1e-12)
    assert solution.rank == 2


def test_condition_number_is_that_of_the_scaled_columns():
    # Columns (1, 0) and (1, 1)/√2 have the Gram matrix [[1, c], [c, 1]], c = 1/√2, with singular values √(1 ± c).
    c = math.sqrt(0.5)
    assert fit([[7, 9], [0, 9]], [1.0, 1.0]).condition == pytest.approx(math.sqrt((1 + c) / (1 - c)), rel=1e-12)


@pytest.mark.parametrize("non_negative", [True, False])
def test_one_weight_contains_the_cost_of_proportional_columns(non_negative: bool):
    # T = 3·barriers + 5·adds with two adds per barrier is 13 s per barrier. The fit excludes the adds.
    solution = fit([[1, 2], [4, 8]], [13.0, 52.0], non_negative=non_negative, ridge=0.0)
    assert solution.weights == pytest.approx({"barriers": 13.0}, rel=1e-12)
    assert [group.left_out for group in solution.undetermined] == [{"f32 add": {"barriers": 2.0}}]
    assert solution.rank == 1
    assert solution.predict({"barriers": 3, "f32 add": 6}) == pytest.approx(39.0, rel=1e-12)


def test_fewer_kernels_than_properties_leave_weights_undetermined():
    solution = fit([[1, 2, 3, 4], [1, 0, 0, 1]], [1.0, 1.0])
    assert solution.rank == len(solution.weights) == 2
    named = {name for group in solution.undetermined for name in group.properties}
    assert named >= set(NAMES) - solution.weights.keys()


def test_unknown_lists_unmeasured_properties_and_broken_dependencies():
    solution = fit([[1, 2], [4, 8]], [13.0, 52.0])
    assert solution.unknown({"barriers": 3, "f32 add": 6}) == ()
    assert solution.unknown({"barriers": 3, "f32 add": 6, "f64 div": 1, "f64 mul": 0}) == ("f64 div",)
    assert solution.unknown({"barriers": 3, "f32 add": 7}) == ("f32 add",)


@pytest.mark.parametrize("options", [{"ridge": -1.0}, {"ridge": math.nan}, {"tolerance": 0.0}, {"tolerance": 1.0}])
def test_options_out_of_range_are_refused_with_their_values(options: dict[str, float]):
    ((name, value),) = options.items()
    with pytest.raises(CalibrationError, match=rf"{name} must be.*got {value}"):
        fit([[1]], [1.0], **options)
