"""Test calibrations end to end, from measurements to estimates, on a synthetic device with known weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import loopyperf as lpp
from loopyperf.calibration.archived import fit_recording
from loopyperf.errors import (
    CalibrationError,
    FitFileError,
    ParameterError,
    UnknownModelError,
)
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.backends.backend import MeasuredTimes
from loopyperf.measurement.kernel_files import load_kernel_files
from tests.kernels import doubled
from tests.measurement.synthetic import SyntheticBackend
from tests.small_campaign import (
    ROUNDING,
    SLUG,
    WEIGHTS,
    InterruptedCampaignError,
    Mortal,
    archives,
    calibrate,
    seconds,
    write_kernel_files,
)


def test_calibration_recovers_the_weights_of_the_device(backend, kernels):
    fit = calibrate(backend, kernels)
    assert fit.weights == pytest.approx(WEIGHTS, rel=ROUNDING)
    assert (fit.rank, fit.undetermined, fit.counting) == (len(WEIGHTS), (), "executed")
    assert fit.launch_overhead == pytest.approx(2e-6 + 64e-9, rel=1e-12)  # the empty kernel at n = 2^10: 64 groups


def test_device_is_refused_for_an_open_backend(backend, kernels):
    with pytest.raises(ParameterError, match="device cannot be given for an open backend"):
        calibrate(backend, kernels, device="some")


def test_estimate_uses_the_new_calibration(backend, kernels):
    calibrate(backend, kernels)
    estimate = lpp.estimate(doubled(), n=2**20, device=SLUG)
    # a load, a store, their minimum and a multiplication for each element; 2^16 work-groups; a launch
    assert estimate.seconds == pytest.approx(2**20 * (6 + 9 - 2 + 4) * 1e-11 + 2**16 * 1e-9 + 2e-6, rel=ROUNDING)
    # The largest measured kernels have 2^19 elements.
    assert estimate.notes == (
        "extrapolated: more than in any measured kernel: global min(load, store) 32-bit stride 1 (2 times), "
        "global store 32-bit stride 1 (2 times), work-groups (2 times)",
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "roofline"}, UnknownModelError, r"has no weights to fit; choose one of: linear, overlap"),
        ({"counting": "bogus"}, ParameterError, "unknown counting 'bogus'"),
        ({"save": Path()}, FitFileError, r"cannot write the fit to \.: it is a folder; use another path"),
    ],
)
def test_invalid_options_are_refused_before_measuring(
    options: dict[str, Any], error: type[Exception], message: str, backend, kernels, monkeypatch: pytest.MonkeyPatch
):
    measured: list[object] = []
    monkeypatch.setattr("loopyperf.calibration.calibrate.measure", lambda *arguments, **_: measured.append(arguments))
    with pytest.raises(error, match=message):
        lpp.calibrate(backend, kernels=kernels, **options)
    assert not measured


def test_second_calibration_replaces_the_first(kernels):
    slow, fast = SyntheticBackend(seconds), SyntheticBackend(lambda case: seconds(case) / 2)
    times = []
    for backend in (slow, fast):
        calibrate(backend, kernels)
        times.append(float(lpp.estimate(doubled(), n=2**16, device=SLUG)))
    assert times[1] == pytest.approx(times[0] / 2, rel=ROUNDING)


def test_calibration_is_saved_in_the_user_data_folder(backend, kernels, own_data):
    fit = calibrate(backend, kernels)
    assert lpp.load_fit(own_data / "fits" / SLUG / "linear.json") == fit
    assert SLUG in lpp.devices()


def test_without_a_model_both_are_fitted_and_the_better_is_the_default(backend, kernels, own_data):
    fit = calibrate(backend, kernels, model=None)
    found = {name: lpp.load_fit(own_data / "fits" / SLUG / f"{name}.json") for name in ("linear", "overlap")}
    assert found[fit.model] == fit
    assert fit.is_better
    assert [each.is_better for each in found.values()].count(True) == 1
    assert lpp.estimate(doubled(), n=2**16, device=SLUG).model == fit.model
    assert set(fit.cross_validation.errors) == {"linear, non-negative", "linear, plain", "overlap of counts"}


def test_finished_archive_is_named_by_its_date(backend, kernels, own_data):
    calibrate(backend, kernels)
    calibrate(backend, kernels)
    kept = archives(own_data)
    assert len(kept) == 2
    assert [path.name for path in kept if not path.name.startswith("20")] == []
    assert fit_recording(read_archive(kept[0]), load_kernel_files(kernels), model="linear")[0].weights == pytest.approx(
        WEIGHTS, rel=ROUNDING
    )


def test_interrupted_calibration_is_resumed(kernels, own_data):
    first, second = Mortal(seconds), SyntheticBackend(seconds)
    with pytest.raises(InterruptedCampaignError):
        calibrate(first, kernels)
    assert [path.name for path in archives(own_data)] == ["unfinished-synthetic-calibration.jsonl"]
    assert SLUG not in lpp.devices()
    fit = calibrate(second, kernels)
    whole = SyntheticBackend(seconds)
    assert calibrate(whole, kernels).weights == fit.weights
    assert whole.calls == first.calls + second.calls


def test_another_backend_does_not_resume_an_unfinished_archive(kernels, own_data):
    first, other = Mortal(seconds), SyntheticBackend(seconds)
    other.environment = structs.replace(other.environment, backend="another")
    with pytest.raises(InterruptedCampaignError):
        calibrate(first, kernels)
    calibrate(other, kernels)
    unfinished, finished = sorted((path.name for path in archives(own_data)), reverse=True)
    assert unfinished == "unfinished-synthetic-calibration.jsonl"
    assert finished.endswith("-another-calibration.jsonl")


def test_archive_and_fit_are_written_to_the_given_paths(backend, kernels, own_data, tmp_path):
    archive, save = tmp_path / "raw.jsonl", tmp_path / "mine" / "fit.json"
    fit = calibrate(backend, kernels, archive=archive, save=save)
    assert lpp.load_fit(save) == fit
    assert len(read_archive(archive).runs) == 1
    assert not own_data.exists()


def test_kernels_beyond_the_model_are_measured_but_not_fitted(backend, kernels, tmp_path):
    file = kernels / "vectors.py"
    file.write_text(file.read_text().replace("steps=3,", 'steps=3, beyond="caches" if label == "sum" else "",'))
    archive = tmp_path / "raw.jsonl"
    fit = calibrate(backend, kernels, archive=archive)
    measured = {(m.kernel_class, m.label) for m in read_archive(archive).measurements if m.kind == "measurement"}
    assert measured - {(row.kernel_class, row.label) for row in fit.residuals} == {("vectors", "sum")}


def test_fit_uses_wall_clock_times_instead_of_device_times(kernels):
    class WithClock(SyntheticBackend):
        def time(self, case, runs):
            wall = super().time(case, runs).wall
            return MeasuredTimes(wall, tuple(each / 3 for each in wall))

    assert calibrate(WithClock(seconds), kernels).weights == pytest.approx(WEIGHTS, rel=ROUNDING)


def test_fit_records_the_noise_floor(kernels):
    steady = calibrate(SyntheticBackend(seconds), kernels)
    rng = np.random.default_rng(0)
    noisy = calibrate(SyntheticBackend(seconds, yardstick=lambda _: 1e-3 * rng.normal(1, 0.02)), kernels)
    assert steady.noise_floor == 0.0
    # Forty times of the reference kernel estimate a standard deviation to about 15 %. Each is the fastest of four equal
    # runs.
    assert noisy.noise_floor == pytest.approx(0.02, rel=0.4)


def test_counting_is_recorded(backend, kernels):
    assert calibrate(backend, kernels, counting="paper").counting == "paper"


def test_archive_of_unknown_kernels_is_refused_with_their_names(backend, kernels, tmp_path):
    archive = tmp_path / "raw.jsonl"
    calibrate(backend, kernels, archive=archive)
    others = load_kernel_files(write_kernel_files(tmp_path / "others", "empty kernel", "vectors"))
    with pytest.raises(CalibrationError, match="kernel files lack 'long vectors', configuration 'fill'"):
        fit_recording(read_archive(archive), others)


def test_archive_without_a_run_is_refused(kernels, tmp_path):
    (tmp_path / "raw.jsonl").touch()
    with pytest.raises(CalibrationError, match="has no run; measure first"):
        fit_recording(read_archive(tmp_path / "raw.jsonl"), load_kernel_files(kernels))
