"""Test the lookup of fits: first an explicit path, then the user's fits, then the bundled ones."""

from pathlib import Path
from typing import Any

import pytest

from loopyperf.calibration.accuracy import CrossValidation
from loopyperf.calibration.fit_library import (
    FITTED_MODELS,
    find_fit,
    other_backends,
    own_path,
)
from loopyperf.calibration.fits import Fit, load_fit, save_fit
from loopyperf.device.device_library import bundled_fits, known_fits, user_fits
from loopyperf.errors import FitFileError, LoopyperfError, UnknownDeviceError
from loopyperf.models.catalog import MODELS
from loopyperf.models.model_interface import FittedModel


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for user data."""
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def fit_from(source: str, model: str = "linear", **fields: Any) -> Fit:
    return Fit(model=model, device="D", slug="d", counting="paper", source=source, weights={"launches": 1.0}, **fields)


def test_bundled_fit_is_found_by_its_device():
    assert find_fit("amd-r9-fury") == load_fit(bundled_fits() / "amd-r9-fury" / "linear.json")


def cross_validation_preferring(name: str) -> CrossValidation:
    return CrossValidation((), (), {"linear, plain": 0.5, "linear, non-negative": 0.3, name: 0.1})


@pytest.mark.parametrize("name", ["linear, non-negative", "overlap of counts"])
def test_default_is_the_fit_that_generalizes_best(name: str):
    for model, candidate in (("linear", "linear, non-negative"), ("overlap", "overlap of counts")):
        fit = fit_from(model, model=model, candidate=candidate, cross_validation=cross_validation_preferring(name))
        save_fit(fit, user_fits() / "d" / f"{model}.json")
    assert find_fit("d").candidate == name
    assert find_fit("d", "overlap").model == "overlap"


def test_default_of_fits_that_were_validated_apart_has_the_smallest_error_on_held_out_classes():
    errors = {"linear": ("linear, non-negative", 0.25), "overlap": ("overlap of pipelines", 0.11)}
    for model, (candidate, error) in errors.items():
        validated = CrossValidation((), (), {candidate: error})
        fit = fit_from(model, model=model, candidate=candidate, cross_validation=validated)
        save_fit(fit, user_fits() / "d" / f"{model}.json")
    assert find_fit("d").model == "overlap"
    assert find_fit("nvidia-h200").model == "overlap"


def test_default_without_cross_validation_is_the_linear_fit():
    for model in ("overlap", "linear"):
        save_fit(fit_from(model, model=model), user_fits() / "d" / f"{model}.json")
    assert find_fit("d").model == "linear"


@pytest.mark.parametrize("saved", ["nvidia-gtx-1060", "geforce-gtx-1060-6gb"])
@pytest.mark.parametrize("asked", ["nvidia-gtx-1060", "GeForce GTX 1060 6GB"])
def test_fit_is_found_by_the_drivers_and_the_catalogs_device_name(saved: str, asked: str):
    save_fit(fit_from("own"), user_fits() / saved / "linear.json")
    assert find_fit(asked).source == find_fit(asked, "linear").source == "own"
    with pytest.raises(FitFileError, match=r"no fit of model 'overlap' for .*, only of linear"):
        find_fit(asked, "overlap")


@pytest.mark.parametrize(("saved", "asked"), [("amd-r9-fury", "Fiji"), ("fiji", "Radeon R9 Fury")])
def test_user_fit_takes_precedence_by_any_name_of_the_device(saved: str, asked: str):
    save_fit(fit_from("own"), user_fits() / saved / "linear.json")
    assert find_fit(asked).source == find_fit(asked, "linear").source == "own"


def test_other_files_beside_a_fit_are_ignored():
    save_fit(fit_from("own"), user_fits() / "nvidia-gtx-1060" / "overlap.json")
    (user_fits() / "nvidia-gtx-1060" / "notes.json").write_text("[]")
    assert find_fit("GeForce GTX 1060").source == "own"


def test_unreadable_fit_of_another_device_is_ignored():
    broken = user_fits() / "some-device" / "linear.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    with pytest.raises(UnknownDeviceError, match="no fit for device 'nvidia-titan-v'"):
        find_fit("nvidia-titan-v")
    with pytest.raises(FitFileError, match="some-device"):
        find_fit("some-device")


def test_unknown_device_is_refused_listing_the_nearest_names_first():
    for slug in ("amd-r9-furry", "nvidia-titan-v"):
        save_fit(fit_from("own"), user_fits() / slug / "linear.json")
    with pytest.raises(UnknownDeviceError) as refused:
        find_fit("nvidia-titan-x")
    message = str(refused.value)
    assert "'nvidia-titan-x'" in message
    assert "nearest: nvidia-titan-v, " in message
    assert "; see `loopyperf devices`" in message
    assert "loopyperf calibrate" in message


def test_model_without_a_fit_is_refused_listing_those_with_one():
    save_fit(fit_from("own", model="overlap"), user_fits() / "amd-r9-fury" / "overlap.json")
    with pytest.raises(FitFileError, match=r"model 'learned' for 'amd-r9-fury', only of linear, overlap;"):
        find_fit("amd-r9-fury", "learned")


def test_known_fits_have_their_origin_with_user_fits_first(data: Path):
    user_fit = data / "fits" / "amd-r9-fury" / "linear.json"
    save_fit(fit_from("own"), user_fit)
    bundled = bundled_fits() / "amd-r9-fury" / "linear.json"
    of_device = [known for known in known_fits() if known.slug == "amd-r9-fury"]
    assert [(known.model, known.path, known.origin) for known in of_device] == [
        ("linear", user_fit, "user"),
        ("linear", bundled, "bundled"),
    ]


@pytest.mark.parametrize("unset", [True, False])
def test_without_the_variable_user_fits_are_in_the_user_data_folder(
    unset: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    if unset:
        monkeypatch.delenv("LOOPYPERF_DATA")
    else:
        monkeypatch.setenv("LOOPYPERF_DATA", "")
    assert user_fits() == tmp_path / "share" / "loopyperf" / "fits"


def test_data_variable_must_not_name_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "file"))
    for lookup in (user_fits, known_fits, lambda: find_fit("amd-r9-fury")):
        with pytest.raises(
            LoopyperfError, match=rf"^LOOPYPERF_DATA is set to {tmp_path / 'file'}, which is not a folder; set"
        ):
            lookup()


# {{{ several backends of one device


def calibrated(backend: str, model: str = "linear", **fields: Any) -> Fit:
    fit = fit_from(f"through {backend}", model, backend=backend, **fields)
    save_fit(fit, own_path(fit))
    return fit


def test_first_backend_has_the_plain_file_name():
    for backend in ("cuda", "opencl", "cuda", "opencl"):
        calibrated(backend)
    files = {path.name: load_fit(path).backend for path in (user_fits() / "d").iterdir()}
    assert files == {"linear.json": "cuda", "linear.opencl.json": "opencl"}


def test_fit_is_found_by_its_backend():
    for backend in ("cuda", "opencl"):
        calibrated(backend)
        calibrated(backend, "overlap")
    for backend in ("cuda", "opencl"):
        for model in ("linear", "overlap"):
            found = find_fit("d", model, backend=backend)
            assert (found.backend, found.model) == (backend, model)


@pytest.mark.parametrize("backends", [("cuda", "opencl"), ("opencl", "cuda")])
def test_opencl_is_the_default_backend_in_any_order(backends: tuple[str, ...]):
    for backend in backends:
        calibrated(backend)
    found = find_fit("d")
    assert found.backend == "opencl"
    assert other_backends(found) == ("cuda",)


def test_default_model_is_chosen_within_one_backend():
    # Each calibration's own cross-validation decides. That of the other backend does not apply to these weights.
    for model, candidate in (("linear", "linear, non-negative"), ("overlap", "overlap of counts")):
        calibrated(
            "opencl", model, candidate=candidate, cross_validation=cross_validation_preferring("linear, non-negative")
        )
        calibrated(
            "cuda", model, candidate=candidate, cross_validation=cross_validation_preferring("overlap of counts")
        )
    assert find_fit("d").model == "linear"
    assert find_fit("d", backend="cuda").model == "overlap"


def test_only_backend_is_the_default_without_opencl():
    calibrated("cuda")
    assert find_fit("d").backend == "cuda"
    assert other_backends(find_fit("d")) == ()


def test_backend_without_a_fit_is_refused_listing_those_with_one():
    calibrated("opencl")
    with pytest.raises(FitFileError, match=r"for 'd' .* backend 'cuda', only through 'opencl'; .* --backend cuda`"):
        find_fit("d", backend="cuda")


def test_bundled_fit_is_found_despite_a_user_fit_of_another_backend(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("loopyperf.device.device_library.bundled_fits", lambda: tmp_path / "bundled")
    save_fit(fit_from("bundled", backend="cuda"), tmp_path / "bundled" / "d" / "linear.json")
    calibrated("opencl")
    assert find_fit("d", backend="cuda").source == "bundled"
    assert find_fit("d").source == "through opencl"


def test_unreadable_file_is_overwritten_by_a_calibration():
    plain = user_fits() / "d" / "linear.json"
    plain.parent.mkdir(parents=True)
    plain.write_text("{")
    calibrated("opencl")
    assert load_fit(plain).backend == "opencl"


# }}}


def test_fits_of_all_fitted_models_are_searched():
    assert set(FITTED_MODELS) == {name for name, model in MODELS.items() if isinstance(model, FittedModel)}
