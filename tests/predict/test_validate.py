"""Test `validate`: predicted and measured times of all kernels, archives, and refused kernels."""

import warnings
from pathlib import Path

import pytest
from msgspec import structs

import loopyperf as lpp
from loopyperf.errors import (
    LoopyperfWarning,
    MissingNumberError,
    ParameterError,
    UnknownDeviceError,
)
from tests.measurement.synthetic import SyntheticBackend, environment
from tests.minimal_fit import FREE
from tests.small_campaign import (
    PROTOCOL,
    ROUNDING,
    SLUG,
    InterruptedCampaignError,
    Mortal,
    archives,
    calibrate,
    seconds,
    write_kernel_files,
)


@pytest.fixture
def calibrated(backend, kernels) -> lpp.Fit:
    return calibrate(backend, kernels)


def validate(backend, kernels: Path, **options):
    return lpp.validate(backend, kernels=kernels, protocol=PROTOCOL, **options)


def test_validation_predicts_and_measures_each_kernel_and_size(calibrated, kernels, tmp_path):
    tested = write_kernel_files(tmp_path / "tested", "vectors")
    # The device has become 25 % slower since the calibration.
    found = validate(SyntheticBackend(lambda case: seconds(case) * 1.25), tested)
    assert {row.kernel for row in found} == {"vectors"}
    assert len(found) == 5 * 3
    assert [row.predicted for row in found] == pytest.approx([row.measured / 1.25 for row in found], rel=ROUNDING)
    assert [row.error for row in found] == pytest.approx([0.2] * 15, rel=ROUNDING)


def test_validation_reports_the_slowdown_since_the_calibration(kernels):
    fit_before = lpp.calibrate(SyntheticBackend(seconds, yardstick=lambda _: 1e-3), kernels=kernels, protocol=PROTOCOL)
    found = validate(SyntheticBackend(seconds, yardstick=lambda _: 1.5e-3), kernels, fit=fit_before)
    # Both times include the 2 µs of an empty kernel, which are launch overhead.
    assert found.slowdown == pytest.approx((1.5e-3 - 2e-6) / (1e-3 - 2e-6), rel=1e-3)
    assert found.noise_floor == fit_before.noise_floor == 0.0
    assert validate(SyntheticBackend(seconds), kernels, fit=structs.replace(fit_before, pace=None)).slowdown is None


def test_validation_is_a_sequence_of_predictions_with_observations(calibrated, kernels):
    found = validate(SyntheticBackend(seconds), kernels)
    assert (found[0], found[-2:]) == (found.predictions[0], found.predictions[-2:])
    assert [row.measured for row in found] == [row.seconds for row in found.observations]
    assert [row.kernel for row in found] == [row.kernel_class for row in found.observations]
    assert found.fit.weights == calibrated.weights


def test_observations_of_an_archive_are_those_of_its_fit(backend, kernels, tmp_path):
    archive = tmp_path / "raw.jsonl"
    fit = calibrate(backend, kernels, archive=archive)
    found = lpp.load_observations(archive, kernels=kernels)
    expected = {(row.kernel_class, row.label, tuple(row.sizes.items())): row.seconds for row in fit.residuals}
    assert {(row.kernel_class, row.label, tuple(row.sizes.items())): row.seconds for row in found} == expected
    assert lpp.load_observations(archive, kernels=kernels, counting="paper")[0].properties


def test_empty_kernel_of_a_folder_is_validated_too(calibrated, kernels):
    found = validate(SyntheticBackend(seconds), kernels)
    assert {row.kernel for row in found} == {"empty kernel", "vectors", "long vectors"}
    assert [row.predicted for row in found] == pytest.approx([row.measured for row in found], rel=ROUNDING)


def test_each_finished_validation_has_a_dated_archive_of_its_own(calibrated, kernels, own_data):
    first, second = SyntheticBackend(seconds), SyntheticBackend(seconds)
    validate(first, kernels)
    validate(second, kernels)
    assert first.calls == second.calls != []
    kept = [path.name for path in archives(own_data) if path.name.endswith("-validation.jsonl")]
    assert len(kept) == 2
    assert [name for name in kept if not name.startswith("20")] == []


def test_interrupted_validation_is_resumed(calibrated, kernels):
    first, second, whole = Mortal(seconds), SyntheticBackend(seconds), SyntheticBackend(seconds)
    with pytest.raises(InterruptedCampaignError):
        validate(first, kernels)
    validate(second, kernels)
    validate(whole, kernels)
    assert whole.calls == first.calls + second.calls


def test_validation_with_an_archive_is_resumed(calibrated, kernels, tmp_path):
    second = SyntheticBackend(seconds)
    first = validate(SyntheticBackend(seconds), kernels, archive=tmp_path / "raw.jsonl")
    assert validate(second, kernels, archive=tmp_path / "raw.jsonl") == first
    assert second.calls == []


def test_uncalibrated_device_is_refused(backend, kernels):
    with pytest.raises(UnknownDeviceError, match=f"no fit for '{SLUG}', .* make one with `loopyperf calibrate`"):
        validate(backend, kernels)


def test_fit_of_another_device_is_used_with_a_warning(backend, kernels, make_fit):
    with pytest.warns(
        LoopyperfWarning, match=f"the predictor is for 'made-up-1', but the kernels are measured on '{SLUG}'"
    ):
        found = validate(backend, kernels, fit=make_fit(weights={**FREE, "launches": 1.0}))
    assert {row.predicted for row in found} == {1.0}


def test_fit_with_another_name_of_the_device_gives_no_warning(kernels, make_fit):
    driver = SyntheticBackend(seconds, environment=environment(device="GeForce GTX 1060 6GB"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopyperfWarning)
        found = validate(driver, kernels, fit=make_fit(slug="nvidia-gtx-1060", weights={**FREE, "launches": 1.0}))
    assert {row.predicted for row in found} == {1.0}


def test_predictor_gives_the_same_predictions_as_its_fit(calibrated, kernels):
    bound = lpp.predictor(fit=calibrated)
    found = validate(SyntheticBackend(seconds), kernels, predictor=bound)
    assert found.predictions == validate(SyntheticBackend(seconds), kernels).predictions
    assert (found.device, found.model, found.fit) == (bound.device, bound.model, bound.fit)
    with pytest.raises(ParameterError, match="predictor= already has a device"):
        validate(SyntheticBackend(seconds), kernels, predictor=bound, fit=calibrated)


def test_unfitted_model_can_be_validated(kernels):
    driver = SyntheticBackend(seconds, environment=environment(device="NVIDIA V100"))
    bound = lpp.predictor(device="nvidia-v100", model="roofline")
    found = validate(driver, kernels, predictor=bound)
    assert (found.device, found.model, found.fit, found.slowdown) == ("nvidia-v100", "roofline", None, None)
    assert len(found) == len(found.observations) > 0
    assert all(row.interval is None and row.predicted > 0 for row in found)
    assert "nvidia-v100, model roofline" in str(found)


def test_kernels_without_a_prediction_are_listed_with_the_reason(backend, kernels, make_fit):
    driver = SyntheticBackend(seconds, environment=environment(device="made-up-1"))
    launches_alone = make_fit(weights={"launches": 1.0})
    found = validate(driver, kernels, fit=launches_alone)
    assert {row.kernel for row in found} == {"empty kernel"}
    assert set(found.refusals) == {"vectors", "long vectors"}
    assert all("has no weights for" in reason for reason in found.refusals.values())
    with pytest.raises(MissingNumberError, match="has no weights for"):
        validate(driver, write_kernel_files(kernels.parent / "tested", "vectors"), fit=launches_alone)


def test_each_backend_of_a_device_is_validated_with_its_own_fit(kernels):
    through_cuda = SyntheticBackend(lambda case: seconds(case) * 2, environment=environment(backend="cuda"))
    machines = (SyntheticBackend(seconds), through_cuda)
    for machine in machines:
        calibrate(machine, kernels)
    for machine in machines:
        found = validate(machine, kernels)
        assert [row.predicted for row in found] == pytest.approx([row.measured for row in found], rel=ROUNDING)
