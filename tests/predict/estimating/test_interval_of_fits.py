"""What no measurement tells widens the interval of a fit, or leaves none."""

import numpy as np
import pytest

from loopyperf.calibration import fits as intervals
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import fit_observations
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import CANDIDATES
from loopyperf.models.linear import sensitivity_of
from loopyperf.predict import by_counts
from loopyperf.predict.by_counts import extrapolations, prediction_interval


def novelty(fit: Fit, names: tuple[str, ...], amounts: np.ndarray) -> np.ndarray:
    return intervals.novelty(fit, names, amounts, sensitivity_of(fit, names, amounts))


PROVENANCE = Provenance(model="", device="D", slug="d", counting="executed")
LOADS = "global load 32-bit stride 1"


def fit_of(candidate: str) -> Fit:
    """Return a fit of kernels that do 10⁵ to 10⁸ of either; ``fp64`` is no pipeline of theirs."""
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
    """Return how many times the prediction the upper end is."""
    shares = {name.replace("_", " "): {"": amount} for name, amount in amounts.items()}
    found, _ = prediction_interval(fit, shares, 1.0)
    assert found is not None
    return float(found[1])


@pytest.fixture(scope="module")
def counted() -> Fit:
    return fit_of("linear, non-negative")


@pytest.fixture(scope="module")
def piped() -> Fit:
    return fit_of("overlap of pipelines")


def test_within_what_was_measured_nothing_is_novel(counted: Fit):
    assert novelty(counted, ("f32 add", LOADS), np.array([[10.0**6, 10.0**7]])) == pytest.approx([0.0])
    assert novelty(counted, ("f32 add", LOADS), np.array([[0.0, 10.0**7]])) == pytest.approx([0.0])


def test_each_decade_beyond_counts_in_the_share_of_its_column(counted: Fit):
    most = counted.ranges["f32 add"][1]
    # Of adds alone, the share is one.
    assert novelty(counted, ("f32 add",), np.array([[10 * most], [1000 * most]])) == pytest.approx([1.0, 9.0])
    weights = counted.weights
    both = np.array([[100 * most, 100 * most * weights["f32 add"] / weights[LOADS]]])
    decades = 2, np.log10(both[0, 1] / counted.ranges[LOADS][1])
    assert novelty(counted, ("f32 add", LOADS), both) == pytest.approx([np.mean(decades) ** 2])
    least = counted.ranges["f32 add"][0]
    assert novelty(counted, ("f32 add",), np.array([[least / 10]])) == pytest.approx([1.0])


def test_the_interval_of_an_extrapolated_kernel_is_wider(counted: Fit):
    most = counted.ranges["f32 add"][1]
    within, beyond, far = (width(counted, f32_add=amount) for amount in (most, 10 * most, 1e6 * most))
    assert np.log(beyond) > 1.3 * np.log(within)
    assert np.log(far) > 5 * np.log(within)


def test_without_a_weight_for_what_it_does_there_is_no_interval(counted: Fit):
    found, notes = prediction_interval(counted, {"f32 add": {"": 1e6}, "f64 div": {"": 1e5}}, 1.0)
    assert found is None
    assert notes == ("no prediction interval: the fit has no weight for f64 div",)
    assert prediction_interval(counted, {"f32 add": {"": 1e6}, "f64 div": {"": 1.0}}, 1.0)[0] is not None


def test_a_pipeline_without_a_weight_is_as_unsure_as_the_description_is_trusted(piped: Fit):
    ridge = float(piped.options["ridge"])
    assert novelty(piped, ("fp64",), np.array([[1e-4]])) == pytest.approx([ridge**-2])
    assert width(piped, fp64=1e-4) > width(piped, alu=1e-4)


def test_more_and_less_than_was_measured_is_said(counted: Fit):
    least, most = counted.ranges["f32 add"]
    told = list(extrapolations(counted, {"f32 add": {"": np.array([least / 2, most * 4])}, "launches": {"": 0}}))
    assert told == [
        "extrapolated: more than in any measured kernel: f32 add (4 times)",
        "extrapolated: less than in any measured kernel: f32 add (2 times)",
    ]


def test_a_width_beyond_all_numbers_is_none(counted: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    far = intervals.Widths(half=np.array([1e4]), leverage=np.array([1e6]), priceless=())
    monkeypatch.setattr(by_counts, "widths", lambda *_: far)
    with np.errstate(over="raise"):
        found, notes = prediction_interval(counted, {"f32 add": {"": 1e6}}, 1.0)
    assert found is None
    assert notes[0].startswith("no prediction interval: ")
