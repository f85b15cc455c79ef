"""Test prediction intervals: their coverage, and their width for kernels that differ from the fitted ones."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.calibration.fits import Provenance, load_fit, save_fit, widths
from loopyperf.calibration.fitting import fit_observations
from loopyperf.calibration.problem import Observation
from loopyperf.models.linear import sensitivity
from tests.calibration.intervals.biased_classes import observations

PROVENANCE = Provenance(model="", device="D", slug="d", counting="executed")


def test_four_of_five_unseen_kernels_lie_in_their_interval():
    inside = total = 0
    for seed in range(8):
        (fit, *_) = fit_observations(PROVENANCE, observations(30, seed=seed))
        assert fit.uncertainty is not None
        names = ("f32 add", "global load 32-bit stride 1", "launches")
        for row in observations(30, seed=1000 + seed):
            amounts = np.array([[row.properties[name] for name in names]], dtype=float)
            width = fit.uncertainty.half_width(widths(fit, names, amounts).leverage)[0]
            predicted = sensitivity(fit, [row.properties]).seconds[0]
            inside += abs(np.log(predicted / row.seconds)) <= width
            total += 1
    assert 0.75 <= inside / total <= 0.85


def test_half_width_is_the_score_at_the_level():
    spread = Uncertainty(tuple(np.arange(1, 100) / 100), (), ((0.0,),))
    # The 80 % quantile of 99 scores is the 80th.
    assert spread.half_width(np.zeros(1), 0.8) == pytest.approx([0.8])
    assert spread.half_width(np.array([3.0]), 0.8) == pytest.approx([1.6])
    assert np.isinf(Uncertainty((0.1, 0.2), (), ((0.0,),)).half_width(np.zeros(1), 0.8)).all()


def test_error_of_a_weight_is_its_deviation_times_the_score():
    covariance = ((4.0, 1.0, 0.0), (1.0, 9.0, 0.0), (0.0, 0.0, 1.0))
    spread = Uncertainty(tuple(np.arange(1, 100) / 100), ("adds", "loads"), covariance)
    # The 80th of 99 scores is 0.8. The last row of the covariance belongs to the sharpness.
    assert spread.of_weights(0.8) == pytest.approx({"adds": 0.8 * 2, "loads": 0.8 * 3})
    assert np.isinf(Uncertainty((0.1,), ("adds",), ((1.0, 0.0), (0.0, 1.0))).of_weights()["adds"])


def test_rarely_measured_property_has_a_large_leverage():
    rows = observations(10)
    rows_with_few_barriers = [
        Observation(row.kernel_class, "x", {}, {**row.properties, "barriers": 10 if place < 4 else 0}, row.seconds)
        for place, row in enumerate(rows)
    ]
    (fit, *_) = fit_observations(PROVENANCE, rows_with_few_barriers)
    assert fit.uncertainty is not None
    names = ("f32 add", "barriers")
    measured_often, measured_rarely = np.array([[10.0**7, 0.0]]), np.array([[0.0, 10.0**9]])
    small, large = (widths(fit, names, each).leverage[0] for each in (measured_often, measured_rarely))
    assert large > 10 * small


def test_kernels_that_other_classes_cannot_predict_have_no_score():
    rows = [
        Observation("a", "x", {}, {"f32 add": 100}, 1.0),
        Observation("b", "x", {}, {"f32 add": 100}, 1.1),
        Observation("c", "x", {}, {"f32 mul": 100}, 5.0),
    ]
    (fit, *_) = fit_observations(PROVENANCE, rows)
    assert fit.uncertainty is not None
    assert len(fit.uncertainty.scores) == 2


def test_fit_loaded_from_a_file_has_the_same_intervals(tmp_path: Path):
    (fit, *_) = fit_observations(PROVENANCE, observations(10))
    fit = msgspec.structs.replace(fit, weights=dict(sorted(fit.weights.items(), reverse=True)))
    save_fit(fit, tmp_path / "fit.json")
    names, amounts = ("launches", "f32 add"), np.array([[1.0, 1e7]])
    loaded = widths(load_fit(tmp_path / "fit.json"), names, amounts)
    assert loaded.leverage == pytest.approx(widths(fit, names, amounts).leverage, rel=1e-4)
