"""Test how work outside the measured range widens the prediction interval of a fit, or leaves none."""

import numpy as np
import pytest

from loopyperf.calibration import fits as intervals
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import CANDIDATES, fit_observations
from loopyperf.calibration.problem import Observation
from loopyperf.models.linear import sensitivity_of
from loopyperf.predict import fitted
from loopyperf.predict.fitted import extrapolations, prediction_interval


def novelty(fit: Fit, names: tuple[str, ...], amounts: np.ndarray) -> np.ndarray:
    return intervals.novelty(fit, names, amounts, sensitivity_of(fit, names, amounts))


PROVENANCE = Provenance(model="", device="D", slug="d", counting="executed")
LOADS = "global load 32-bit stride 1"


def fit_of(candidate: str) -> Fit:
    """Return a fit of kernels with 10⁵ to 10⁸ additions and loads each; none uses the pipeline ``fp64``."""
    rng = np.random.default_rng(0)
    rows: list[Observation] = []
    for place in range(40):
        adds, loads = (int(each) for each in 10.0 ** rng.uniform(5, 8, 2))
        seconds = (1e-11 * adds + 3e-11 * loads + 1e-5) * np.exp(rng.normal(0, 0.1))
        counts = {"f32 add": adds, LOADS: loads, "launches": 1}
        pipelines = {"alu": 1e-11 * adds, "DRAM": 3e-11 * loads, "launches": 1.0}
        rows.append(Observation(f"class {place % 10}", "x", {}, counts, float(seconds), pipelines))
    (fit,) = fit_observations(PROVENANCE, rows, [each for each in CANDIDATES if each.name == candidate])
    return fit


def width(fit: Fit, **amounts: float) -> float:
    """Return the upper end of the prediction interval, relative to the prediction."""
    shares = {name.replace("_", " "): {"": amount} for name, amount in amounts.items()}
    found, _ = prediction_interval(fit, shares, 1.0)
    assert found is not None
    return float(found[1])


@pytest.fixture(scope="module")
def fit_of_counts() -> Fit:
    return fit_of("linear, non-negative")


@pytest.fixture(scope="module")
def fit_of_pipelines() -> Fit:
    return fit_of("overlap of pipelines")


def test_novelty_is_0_within_the_measured_ranges(fit_of_counts: Fit):
    assert novelty(fit_of_counts, ("f32 add", LOADS), np.array([[10.0**6, 10.0**7]])) == pytest.approx([0.0])
    assert novelty(fit_of_counts, ("f32 add", LOADS), np.array([[0.0, 10.0**7]])) == pytest.approx([0.0])


def test_novelty_grows_by_decades_weighted_by_the_columns_share(fit_of_counts: Fit):
    most = fit_of_counts.ranges["f32 add"][1]
    # The share of the only column is 1.
    assert novelty(fit_of_counts, ("f32 add",), np.array([[10 * most], [1000 * most]])) == pytest.approx([1.0, 9.0])
    weights = fit_of_counts.weights
    both = np.array([[100 * most, 100 * most * weights["f32 add"] / weights[LOADS]]])
    decades = 2, np.log10(both[0, 1] / fit_of_counts.ranges[LOADS][1])
    assert novelty(fit_of_counts, ("f32 add", LOADS), both) == pytest.approx([np.mean(decades) ** 2])
    least = fit_of_counts.ranges["f32 add"][0]
    assert novelty(fit_of_counts, ("f32 add",), np.array([[least / 10]])) == pytest.approx([1.0])


def test_extrapolated_kernel_has_a_wider_interval(fit_of_counts: Fit):
    most = fit_of_counts.ranges["f32 add"][1]
    within, beyond, far = (width(fit_of_counts, f32_add=amount) for amount in (most, 10 * most, 1e6 * most))
    assert np.log(beyond) > 1.3 * np.log(within)
    assert np.log(far) > 5 * np.log(within)


def test_kernel_with_an_unweighted_property_has_no_interval(fit_of_counts: Fit):
    found, notes = prediction_interval(fit_of_counts, {"f32 add": {"": 1e6}, "f64 div": {"": 1e5}}, 1.0)
    assert found is None
    assert notes == ("no prediction interval: the fit has no weight for f64 div",)
    assert prediction_interval(fit_of_counts, {"f32 add": {"": 1e6}, "f64 div": {"": 1.0}}, 1.0)[0] is not None


def test_pipeline_without_a_weight_has_the_variance_of_the_ridge(fit_of_pipelines: Fit):
    ridge = float(fit_of_pipelines.options["ridge"])
    assert novelty(fit_of_pipelines, ("fp64",), np.array([[1e-4]])) == pytest.approx([ridge**-2])
    assert width(fit_of_pipelines, fp64=1e-4) > width(fit_of_pipelines, alu=1e-4)


def test_extrapolation_above_and_below_the_range_is_noted(fit_of_counts: Fit):
    least, most = fit_of_counts.ranges["f32 add"]
    found_notes = list(
        extrapolations(fit_of_counts, {"f32 add": {"": np.array([least / 2, most * 4])}, "launches": {"": 0}})
    )
    assert found_notes == [
        "extrapolated: more than in any measured kernel: f32 add (4 times)",
        "extrapolated: less than in any measured kernel: f32 add (2 times)",
    ]


def test_overflowing_interval_is_none(fit_of_counts: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    far = intervals.Widths(half=np.array([1e4]), leverage=np.array([1e6]), priceless=())
    monkeypatch.setattr(fitted, "widths", lambda *_: far)
    with np.errstate(over="raise"):
        found, notes = prediction_interval(fit_of_counts, {"f32 add": {"": 1e6}}, 1.0)
    assert found is None
    assert notes[0].startswith("no prediction interval: ")
