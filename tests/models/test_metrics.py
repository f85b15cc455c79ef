"""Accuracy metrics, on cases computed by hand."""

import pytest
from parts.occupancy_errors import mape, mape_shape

from loopyperf.calibration.accuracy import (
    LEAST_ERROR,
    geometric_mean,
    median_log_error,
    regret,
    spearman,
)
from loopyperf.errors import ModelInputError


def test_mape_is_the_mean_of_the_relative_errors():
    # |3 − 2|/2 = 1/2, |3 − 4|/4 = 1/4, 0: their mean is 1/4.
    assert mape([3, 3, 5], [2, 4, 5]) == pytest.approx(0.25, rel=1e-12)


def test_mape_shape_ignores_an_offset_and_a_slope():
    occupancy = [1, 2, 4, 8]
    measured = [10, 17, 20, 21]
    predicted = [value + 3 + 0.5 * warps for value, warps in zip(measured, occupancy, strict=True)]
    assert mape(predicted, measured) > 0.2
    assert mape_shape(predicted, measured, occupancy) == pytest.approx(0, abs=1e-12)


def test_mape_shape_is_the_error_that_no_line_explains():
    # Differences 0, 3, 0 at 1, 2, 3 warps: the best line is their mean, 1, and leaves −1, 2, −1 of 10, 10, 5.
    assert mape_shape([10, 13, 5], [10, 10, 5], [1, 2, 3]) == pytest.approx((0.1 + 0.2 + 0.2) / 3, rel=1e-12)


def test_mape_shape_fits_the_line_over_the_occupancy():
    # Differences 2, 1, 3 at 1, 2, 3 warps: the best line is 1 + 0.5·ω and leaves 0.5, −1, 0.5. The best line over the
    # measurements 1, 1, 2 would leave 0.5, −0.5, 0.
    assert mape_shape([3, 2, 5], [1, 1, 2], [1, 2, 3]) == pytest.approx((0.5 / 1 + 1 / 1 + 0.5 / 2) / 3, rel=1e-12)


def test_exact_prediction_counts_as_the_least_error():
    assert geometric_mean([0.0, 0.1]) == pytest.approx((LEAST_ERROR * 0.1) ** 0.5, rel=1e-12)
    assert geometric_mean([0.0]) == pytest.approx(LEAST_ERROR, rel=1e-12)


def test_twice_and_half_have_the_same_log_error():
    assert median_log_error([2, 1, 1], [1, 2, 1.01]) == pytest.approx(0.6931471805599453, rel=1e-12)


def test_spearman_depends_only_on_ranks():
    assert spearman([1, 2, 30], [4, 5, 6]) == pytest.approx(1, rel=1e-12)
    assert spearman([3, 2, 1], [4, 50, 600]) == pytest.approx(-1, rel=1e-12)
    # Ranks 1 2 3 4 and 2 1 4 3: 1 − 6·(1 + 1 + 1 + 1)/(4·15) = 0.6.
    assert spearman([1, 2, 3, 4], [20, 10, 40, 30]) == pytest.approx(0.6, rel=1e-12)


def test_spearman_of_equal_predictions_is_zero():
    assert spearman([1, 1, 1], [1, 2, 3]) == 0


def test_regret_is_the_time_of_the_choice_over_the_best():
    assert regret([1, 2, 3], [4, 2, 5]) == 2
    assert regret([1, 2, 3], [2, 4, 5]) == 1


def test_regret_of_equal_predictions_is_their_mean():
    assert regret([1, 1, 3], [4, 2, 5]) == 1.5  # (4 + 2)/2 over 2


def test_invalid_predictions_and_measurements_raise(subtests: pytest.Subtests):
    for metric in [mape, median_log_error, spearman, regret]:
        for predicted, measured, words in [
            ([1], [1, 2], "got 1 predictions and 2 measurements"),
            ([], [], "got 0 predictions and 0 measurements"),
            ([1, 2], [1, 0], "measurements must be positive and finite; got 0"),
            ([float("nan"), 2], [1, 2], "predictions must be positive and finite; got nan"),
        ]:
            with (
                subtests.test(metric=metric, predicted=predicted, measured=measured),
                pytest.raises(ModelInputError, match=words),
            ):
                metric(predicted, measured)


def test_mape_shape_requires_three_occupancies():
    with pytest.raises(ModelInputError, match="three distinct, finite occupancies"):
        mape_shape([1, 5, 2], [3, 2, 4], [4, 8, 8])


def test_mape_shape_requires_an_occupancy_per_measurement():
    with pytest.raises(ModelInputError, match="each of the 2 measurements; got 3"):
        mape_shape([1, 2], [1, 2], [1, 2, 3])


def test_geometric_mean_of_no_errors_raises():
    with pytest.raises(ModelInputError, match="no errors"):
        geometric_mean([])
