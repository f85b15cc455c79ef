"""Which fit is meant: an explicit path, else a person's own, else a bundled one."""

from pathlib import Path
from typing import Any

import pytest

from loopyperf.calibration.accuracy import CrossValidation
from loopyperf.calibration.fit_library import (
    FITTED_MODELS,
    bundled_fits,
    find_fit,
    known_fits,
    other_backends,
    own_path,
    user_fits,
)
from loopyperf.calibration.fits import Fit, load_fit, save_fit
from loopyperf.errors import FitFileError, LoopyperfError, UnknownDeviceError
from loopyperf.models.catalog import MODELS
from loopyperf.models.model_interface import FittedModel


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for a person's own data."""
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def fit_from(source: str, model: str = "linear", **fields: Any) -> Fit:
    return Fit(model=model, device="D", slug="d", counting="paper", source=source, weights={"launches": 1.0}, **fields)


def test_a_bundled_fit_is_found_by_its_device():
    assert find_fit("amd-r9-fury") == load_fit(bundled_fits() / "amd-r9-fury" / "linear.json")


def test_ones_own_fit_beats_the_bundled_one():
    save_fit(fit_from("own"), user_fits() / "amd-r9-fury" / "linear.json")
    assert find_fit("amd-r9-fury").source == "own"


def test_an_explicit_path_beats_ones_own_fit(tmp_path: Path):
    save_fit(fit_from("own"), user_fits() / "amd-r9-fury" / "linear.json")
    save_fit(fit_from("explicit"), tmp_path / "mine.json")
    assert find_fit("amd-r9-fury", path=tmp_path / "mine.json").source == "explicit"


def test_an_explicit_path_that_is_not_there_is_refused_although_another_fit_is_known(tmp_path: Path):
    with pytest.raises(FitFileError, match=r"mine\.json"):
        find_fit("amd-r9-fury", path=tmp_path / "mine.json")


def test_ones_own_fit_that_is_corrupt_is_refused_and_not_passed_over():
    own = user_fits() / "amd-r9-fury" / "linear.json"
    own.parent.mkdir(parents=True)
    own.write_text("{")
    with pytest.raises(FitFileError, match="corrupt"):
        find_fit("amd-r9-fury")


def test_an_explicit_path_with_another_models_fit_is_refused(tmp_path: Path):
    save_fit(fit_from("", model="overlap"), tmp_path / "mine.json")
    with pytest.raises(FitFileError, match=r"mine\.json holds a fit of model 'overlap', but 'linear' was requested"):
        find_fit("d", "linear", path=tmp_path / "mine.json")


def better(name: str) -> CrossValidation:
    return CrossValidation((), (), {"linear, plain": 0.5, "linear, non-negative": 0.3, name: 0.1})


@pytest.mark.parametrize("name", ["linear, non-negative", "overlap of counts"])
def test_without_a_model_it_is_the_fit_that_generalises_best(name: str):
    for model, candidate in (("linear", "linear, non-negative"), ("overlap", "overlap of counts")):
        fit = fit_from(model, model=model, candidate=candidate, cross_validation=better(name))
        save_fit(fit, user_fits() / "d" / f"{model}.json")
    assert find_fit("d").candidate == name
    assert find_fit("d", "overlap").model == "overlap"


def test_without_a_model_and_a_cross_validation_it_is_the_linear_fit():
    for model in ("overlap", "linear"):
        save_fit(fit_from(model, model=model), user_fits() / "d" / f"{model}.json")
    assert find_fit("d").model == "linear"


def test_without_a_model_the_only_fit_is_taken():
    save_fit(fit_from("own", model="overlap"), user_fits() / "d" / "overlap.json")
    assert find_fit("d").model == "overlap"


def test_a_device_may_be_given_by_its_name():
    save_fit(fit_from("own"), user_fits() / "nvidia-titan-v" / "linear.json")
    assert find_fit("NVIDIA TITAN V").source == "own"


@pytest.mark.parametrize("saved", ["nvidia-gtx-1060", "geforce-gtx-1060-6gb"])
@pytest.mark.parametrize("asked", ["nvidia-gtx-1060", "GeForce GTX 1060 6GB", "GTX 1060", "NVIDIA GTX 1060"])
def test_a_device_has_the_name_of_its_driver_and_that_of_its_description(saved: str, asked: str):
    save_fit(fit_from("own"), user_fits() / saved / "linear.json")
    assert find_fit(asked).source == find_fit(asked, "linear").source == "own"
    with pytest.raises(FitFileError, match=r"no fit of model 'overlap' for .*, only of linear"):
        find_fit(asked, "overlap")


@pytest.mark.parametrize("saved", ["amd-r9-fury", "fiji"])
@pytest.mark.parametrize("asked", ["amd-r9-fury", "Fiji", "Radeon R9 Fury"])
def test_ones_own_fit_beats_the_bundled_one_by_whatever_name_of_the_device(saved: str, asked: str):
    save_fit(fit_from("own"), user_fits() / saved / "linear.json")
    assert find_fit(asked).source == find_fit(asked, "linear").source == "own"


@pytest.mark.parametrize("asked", ["nvidia-gtx-1060", "GeForce GTX 1060"])
def test_what_lies_beside_fits_is_none_by_whatever_name_of_the_device(asked: str):
    save_fit(fit_from("own"), user_fits() / "nvidia-gtx-1060" / "overlap.json")
    (user_fits() / "nvidia-gtx-1060" / "notes.json").write_text("[]")
    assert find_fit(asked).source == "own"


def test_a_fit_of_another_device_that_cannot_be_read_is_no_error():
    broken = user_fits() / "some-device" / "linear.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    with pytest.raises(UnknownDeviceError, match="no fit for device 'nvidia-titan-v'"):
        find_fit("nvidia-titan-v")
    with pytest.raises(FitFileError, match="some-device"):
        find_fit("some-device")


def test_an_unknown_device_is_refused_listing_the_known_ones_nearest_first():
    for slug in ("amd-r9-furry", "nvidia-titan-v"):
        save_fit(fit_from("own"), user_fits() / slug / "linear.json")
    with pytest.raises(UnknownDeviceError) as refused:
        find_fit("nvidia-titan-x")
    message = str(refused.value)
    assert "'nvidia-titan-x'" in message
    assert "nearest: nvidia-titan-v, " in message
    assert "; see `loopyperf devices`" in message
    assert "loopyperf calibrate" in message


def test_a_model_without_a_fit_is_refused_listing_those_with_one():
    save_fit(fit_from("own", model="overlap"), user_fits() / "amd-r9-fury" / "overlap.json")
    with pytest.raises(FitFileError, match=r"model 'learned' for 'amd-r9-fury', only of linear, overlap;"):
        find_fit("amd-r9-fury", "learned")


def test_known_fits_say_where_they_come_from_ones_own_first(data: Path):
    own = data / "fits" / "amd-r9-fury" / "linear.json"
    save_fit(fit_from("own"), own)
    bundled = bundled_fits() / "amd-r9-fury" / "linear.json"
    of_device = [known for known in known_fits() if known.slug == "amd-r9-fury"]
    assert [(known.model, known.path, known.origin) for known in of_device] == [
        ("linear", own, "user"),
        ("linear", bundled, "bundled"),
    ]


@pytest.mark.parametrize("unset", [True, False])
def test_without_the_variable_ones_own_fits_are_in_the_user_data_folder(
    unset: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    if unset:
        monkeypatch.delenv("LOOPYPERF_DATA")
    else:
        monkeypatch.setenv("LOOPYPERF_DATA", "")
    assert user_fits() == tmp_path / "share" / "loopyperf" / "fits"


def test_a_file_is_no_folder_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "file"))
    for ask in (user_fits, known_fits, lambda: find_fit("amd-r9-fury")):
        with pytest.raises(
            LoopyperfError, match=rf"^LOOPYPERF_DATA is set to {tmp_path / 'file'}, which is not a folder; set"
        ):
            ask()


def test_a_fit_is_found_by_the_full_name_of_its_device():
    assert find_fit("AMD Radeon R9 Fury").slug == "amd-r9-fury"


# {{{ several backends of one device


def calibrated(backend: str, model: str = "linear", **fields: Any) -> Fit:
    fit = fit_from(f"through {backend}", model, backend=backend, **fields)
    save_fit(fit, own_path(fit))
    return fit


def test_the_first_backend_has_the_plain_name_and_another_one_its_own():
    for backend in ("cuda", "opencl", "cuda", "opencl"):
        calibrated(backend)
    files = {path.name: load_fit(path).backend for path in (user_fits() / "d").iterdir()}
    assert files == {"linear.json": "cuda", "linear.opencl.json": "opencl"}


def test_a_fit_is_found_by_the_backend_it_was_measured_through():
    for backend in ("cuda", "opencl"):
        calibrated(backend)
        calibrated(backend, "overlap")
    for backend in ("cuda", "opencl"):
        for model in ("linear", "overlap"):
            found = find_fit("d", model, backend=backend)
            assert (found.backend, found.model) == (backend, model)


@pytest.mark.parametrize("backends", [("cuda", "opencl"), ("opencl", "cuda")])
def test_of_several_backends_opencl_is_meant_whichever_came_first(backends: tuple[str, ...]):
    for backend in backends:
        calibrated(backend)
    found = find_fit("d")
    assert found.backend == "opencl"
    assert other_backends(found) == ("cuda",)


def test_the_model_is_chosen_within_one_backend():
    # By each calibration's own account: that of the other backend says nothing of these weights.
    for model, candidate in (("linear", "linear, non-negative"), ("overlap", "overlap of counts")):
        calibrated("opencl", model, candidate=candidate, cross_validation=better("linear, non-negative"))
        calibrated("cuda", model, candidate=candidate, cross_validation=better("overlap of counts"))
    assert find_fit("d").model == "linear"
    assert find_fit("d", backend="cuda").model == "overlap"


def test_without_opencl_the_only_backend_is_meant_and_there_is_no_other():
    calibrated("cuda")
    assert find_fit("d").backend == "cuda"
    assert other_backends(find_fit("d")) == ()


def test_a_backend_without_a_fit_is_refused_naming_those_with_one():
    calibrated("opencl")
    with pytest.raises(FitFileError, match=r"for 'd' .* backend 'cuda', only through 'opencl'; .* --backend cuda`"):
        find_fit("d", backend="cuda")


def test_a_bundled_fit_of_the_backend_is_found_behind_ones_own_of_another(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("loopyperf.calibration.fit_library.bundled_fits", lambda: tmp_path / "bundled")
    save_fit(fit_from("bundled", backend="cuda"), tmp_path / "bundled" / "d" / "linear.json")
    calibrated("opencl")
    assert find_fit("d", backend="cuda").source == "bundled"
    assert find_fit("d").source == "through opencl"


def test_a_file_that_cannot_be_read_is_calibrated_over():
    plain = user_fits() / "d" / "linear.json"
    plain.parent.mkdir(parents=True)
    plain.write_text("{")
    calibrated("opencl")
    assert load_fit(plain).backend == "opencl"


# }}}


def test_fits_are_looked_for_of_all_models_that_are_fitted():
    assert set(FITTED_MODELS) == {name for name, model in MODELS.items() if isinstance(model, FittedModel)}
