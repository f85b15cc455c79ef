"""Test which device and fit an estimate uses: first the arguments, then LOOPYPERF_DEVICE, then the local device."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import loopyperf as lpp
from loopyperf.calibration.fit_library import own_path
from loopyperf.calibration.fits import save_fit
from loopyperf.device.device_library import BUNDLED, known_descriptions, load_device
from loopyperf.errors import (
    BackendError,
    FitFileError,
    ParameterError,
    UnknownDeviceError,
)
from loopyperf.stages import device_choice
from tests.kernels import doubled
from tests.minimal_fit import FREE

KERNEL = doubled()


def estimated_device(**options):
    return lpp.estimate(KERNEL, n=64, **options).device


@pytest.fixture
def fits(own_data: Path, make_fit) -> Path:
    """User fits for three devices."""
    for slug in ("argument", "variable", "local"):
        save_fit(make_fit(slug=slug), own_data / "fits" / slug / "linear.json")
    return own_data / "fits"


@pytest.fixture
def local_device(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the backends that were opened; the slug of the local device is ``local``."""
    opened: list[str] = []

    def open_backend(name: str):
        opened.append(name)
        return SimpleNamespace(environment=SimpleNamespace(slug="local"))

    monkeypatch.setattr(device_choice, "open_backend", open_backend)
    return opened


@pytest.fixture
def no_local_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_backend(name: str):
        raise BackendError("no OpenCL platform was found")

    monkeypatch.setattr(device_choice, "open_backend", open_backend)


# {{{ precedence


def test_argument_precedes_the_variable_which_precedes_the_local_device(fits, local_device, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "variable")
    assert (estimated_device(device="argument"), estimated_device()) == ("argument", "variable")
    assert local_device == []
    monkeypatch.setenv("LOOPYPERF_DEVICE", "")
    assert [estimated_device() for _ in range(3)] == ["local"] * 3
    assert local_device == ["opencl"]


def test_local_device_without_a_fit_is_refused_listing_the_known_ones(local_device):
    with pytest.raises(UnknownDeviceError) as refused:
        estimated_device()
    message = str(refused.value)
    assert "no fit for this machine's 'local'" in message
    assert "amd-r9-fury" in message
    assert "LOOPYPERF_DEVICE" in message
    assert "loopyperf calibrate" in message


def test_local_device_without_parameters_is_refused_with_commands(local_device):
    with pytest.raises(UnknownDeviceError, match="parameters of this machine's 'local' are unknown; pass a") as refused:
        lpp.estimate(doubled(), n=64, model="pipeline")
    assert "loopyperf microbenchmark" in str(refused.value)
    assert "loopyperf calibrate" in str(refused.value)


def test_without_any_device_the_error_lists_the_known_ones(fits, no_local_device):
    with pytest.raises(UnknownDeviceError) as refused:
        estimated_device()
    message = str(refused.value)
    assert "this machine has none (no OpenCL platform was found)" in message
    assert "amd-r9-fury, argument, local, nvidia-h200, variable" in message
    assert "loopyperf calibrate" in message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nvidia-titan-v", "no fit for device 'nvidia-titan-v'; devices with a fit: .*ar"),
        ("", "no device called ''; nearest: .*amd"),
    ],
)
def test_device_without_a_fit_is_refused_instead_of_replaced(name, message, fits, local_device, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "variable")
    with pytest.raises(UnknownDeviceError, match=message):
        estimated_device(device=name, model="linear")


def test_device_can_be_given_by_its_drivers_name():
    assert estimated_device(device="AMD R9 Fury") == "amd-r9-fury"


def test_devices_lists_devices_with_a_fit_or_with_parameters(fits):
    published = {known.slug for known in known_descriptions()}
    assert {"nvidia-titan-v", "amd-r9-fury"} <= published
    assert lpp.devices() == tuple(sorted({"argument", "local", "variable"} | published))


@pytest.mark.parametrize("device", ["nvidia-a100", "Titan V"])
def test_missing_fit_of_a_published_device_suggests_the_pipeline_model(fits, device: str):
    with pytest.raises(UnknownDeviceError, match="model='pipeline'") as refused:
        estimated_device(device=device, model="overlap")
    assert "loopyperf calibrate" in str(refused.value)


def test_published_local_device_without_a_fit_uses_its_parameters(fits, monkeypatch):
    machine = SimpleNamespace(environment=SimpleNamespace(slug="nvidia-a100"))
    monkeypatch.setattr(device_choice, "open_backend", lambda name: machine)
    found = lpp.estimate(KERNEL, n=64)
    assert (found.device, found.model) == ("nvidia-a100", "pipeline")
    assert found.notes[0].startswith("no fit for 'nvidia-a100'; using the 'pipeline' model")


def test_unknown_device_does_not_suggest_the_pipeline_model(fits):
    with pytest.raises(UnknownDeviceError) as refused:
        estimated_device(device="nobodys-device")
    assert "pipeline" not in str(refused.value)


# }}}


# {{{ without a model


BY_ITS_DESCRIPTION = "no fit for 'nvidia-v100'; using the 'pipeline' model with published device parameters"
NAMES = ("nvidia-v100", "Tesla V100", load_device("nvidia-v100"), BUNDLED / "nvidia-v100.toml")


@pytest.mark.parametrize("device", NAMES, ids=["short name", "another name", "description", "path"])
def test_device_without_a_fit_uses_its_parameters_with_a_note(device):
    found = lpp.estimate(KERNEL, n=64, device=device)
    expected = lpp.estimate(KERNEL, n=64, device=device, model="pipeline")
    assert (found.model, found.device, found.seconds) == ("pipeline", "nvidia-v100", expected.seconds)
    assert found.notes[0].startswith(BY_ITS_DESCRIPTION)
    assert found.notes[1:] == expected.notes


def test_device_of_the_variable_uses_its_parameters_with_a_note(local_device, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "nvidia-v100")
    assert lpp.estimate(KERNEL, n=64).notes[0].startswith(BY_ITS_DESCRIPTION)
    assert local_device == []


def test_ranking_uses_the_model_of_estimates_with_a_note():
    ranking = lpp.rank({"a": KERNEL}, n=64, device="nvidia-v100")
    assert ranking.model == lpp.explain(KERNEL, n=64, device="nvidia-v100").devices[0].first == "pipeline"
    assert ranking.notes[0].startswith(BY_ITS_DESCRIPTION)


@pytest.mark.parametrize("device", NAMES, ids=["short name", "another name", "description", "path"])
def test_fit_takes_precedence_over_parameters_by_any_name(device, own_data, make_fit):
    save_fit(make_fit(slug="nvidia-v100"), own_data / "fits" / "nvidia-v100" / "linear.json")
    found = lpp.estimate(KERNEL, n=64, device=device)
    assert (found.model, found.device) == ("linear", "nvidia-v100")
    assert lpp.rank({"a": KERNEL}, n=64, device=device).model == "linear"
    has_hint = any("model='pipeline' uses the given device parameters" in note for note in found.notes)
    assert has_hint is not isinstance(device, str)


@pytest.mark.parametrize("model", ["roofline", None])
def test_edits_of_a_user_device_file_take_effect_immediately(model, own_data):
    user_file = own_data / "devices" / "mine.toml"
    user_file.parent.mkdir(parents=True)
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8")
    clock = "clock = { value = 1380,"
    assert clock in text
    found = []
    for number in range(1300, 1330):  # same size, within the file system's timestamp resolution
        user_file.write_text(text.replace(clock, clock.replace("1380", str(number))), encoding="utf-8")
        found.append(float(lpp.estimate(KERNEL, n=2**20, device="mine", model=model).seconds))
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == len(found)


def test_adding_or_removing_a_user_device_file_takes_effect_immediately(own_data):
    user_file = own_data / "devices" / "nvidia-titan-v.toml"
    user_file.parent.mkdir(parents=True)

    def launch_overhead_is_known():
        return not any("launch" in note for note in lpp.estimate(KERNEL, n=64, device="nvidia-titan-v").notes)

    assert not launch_overhead_is_known()
    contents = 'launch_overhead = { value = 5, unit = "µs", source = "me, today" }\n'
    user_file.write_text(
        (BUNDLED / "nvidia-titan-v.toml").read_text("utf-8").replace("cores =", contents + "cores ="), encoding="utf-8"
    )
    assert launch_overhead_is_known()
    user_file.unlink()
    assert not launch_overhead_is_known()


def test_incomplete_device_file_is_not_suggested_in_place_of_a_fit(own_data):
    user_file = own_data / "devices" / "mine.toml"
    user_file.parent.mkdir(parents=True)
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8")
    for contents, is_offered in ((text, True), (text.replace("\ncores =", "\n# cores ="), False)):
        user_file.write_text(contents, "utf-8")
        with pytest.raises(UnknownDeviceError) as refused:
            lpp.estimate(KERNEL, n=64, device="mine", model="linear")
        assert ("model='pipeline'" in str(refused.value)) is is_offered


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"counting": "paper"}, "'pipeline' always uses 'executed' counts; drop counting="),
        ({"arguments": {}}, "'pipeline' does not execute the kernel; drop arguments="),
    ],
)
def test_options_of_fits_are_refused_without_a_fit(option, message):
    with pytest.raises(ParameterError, match=message):
        lpp.estimate(KERNEL, n=64, device="nvidia-v100", **option)


def test_backend_option_requires_a_fit():
    with pytest.raises(UnknownDeviceError, match="no fit for device 'nvidia-v100'"):
        lpp.estimate(KERNEL, n=64, device="nvidia-v100", backend="cuda")


# }}}


# {{{ which backend


@pytest.fixture
def two_backends(own_data: Path, make_fit) -> None:
    """User fits of one device through CUDA and through OpenCL; OpenCL is 10 % slower."""
    for backend, weight in (("cuda", 1.0), ("opencl", 1.1)):
        fit = make_fit(backend=backend, weights={**FREE, "launches": weight})
        save_fit(fit, own_path(fit))


def test_note_names_the_backend_of_the_fit_if_there_are_several(two_backends):
    for backend, seconds in (("cuda", 1.0), ("opencl", 1.1)):
        expected = lpp.estimate(KERNEL, n=64, device="made-up-1", backend=backend)
        assert expected.seconds == pytest.approx(seconds)
        assert not any("measured through" in note for note in expected.notes)
    answer = lpp.estimate(KERNEL, n=64, device="made-up-1")
    assert answer.seconds == pytest.approx(1.1)
    assert answer.notes[0] == (
        "using the fit measured through 'opencl'; another exists for 'cuda' (backend=... selects it)"
    )


def test_given_fit_of_another_backend_is_refused(make_fit):
    with pytest.raises(FitFileError, match="measured through 'opencl', but 'cuda' was requested"):
        estimated_device(fit=make_fit(backend="opencl"), backend="cuda")
    with pytest.raises(FitFileError, match="an unknown backend, but 'cuda'"):
        estimated_device(fit=make_fit(backend=""), backend="cuda")


def test_invalid_backend_is_refused_with_a_hint_at_sizes():
    with pytest.raises(ParameterError, match="backend must be a name, got 3; pass a kernel size of that name"):
        estimated_device(device="amd-r9-fury", backend=3)
    with pytest.raises(ParameterError, match="the backend of a fit must be 'cuda' or 'opencl', got 'hip'"):
        estimated_device(device="nvidia-v100", backend="hip")
    with pytest.raises(ParameterError, match="'pipeline' does not execute the kernel; drop backend="):
        estimated_device(device="nvidia-titan-v", model="pipeline", backend="cuda")


# }}}


# {{{ an explicit fit


def test_explicit_path_takes_precedence_over_all_devices(fits, local_device, make_fit, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "variable")
    save_fit(make_fit(slug="explicit"), tmp_path / "mine.json")
    assert estimated_device(fit=tmp_path / "mine.json") == "explicit"
    assert estimated_device(fit=str(tmp_path / "mine.json")) == "explicit"


def test_given_fit_must_be_of_the_requested_device_and_model(make_fit, tmp_path):
    assert estimated_device(fit=make_fit(slug="in-memory")) == "in-memory"
    assert estimated_device(device="Made Up 1", fit=make_fit()) == "made-up-1"
    save_fit(make_fit(slug="explicit", model="overlap"), tmp_path / "mine.json")
    for fit in (tmp_path / "mine.json", make_fit(slug="explicit", model="overlap")):
        with pytest.raises(FitFileError, match="for device 'explicit', but 'amd-r9-fury' was requested"):
            estimated_device(device="amd-r9-fury", fit=fit)
        with pytest.raises(FitFileError, match="'overlap', but 'linear' was requested"):
            estimated_device(fit=fit, model="linear")


def test_corrupt_user_fit_is_refused_instead_of_skipped(own_data):
    user_file = own_data / "fits" / "amd-r9-fury" / "linear.json"
    user_file.parent.mkdir(parents=True)
    user_file.write_text("{")
    with pytest.raises(FitFileError, match="corrupt"):
        estimated_device(device="amd-r9-fury")


def test_what_is_not_the_path_of_a_fit_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="or a path, got 3"):
        estimated_device(fit=3)
    with pytest.raises(FitFileError, match="got 3"):
        lpp.load_fit(3)
    with pytest.raises(FitFileError, match=r"nowhere\.json"):
        estimated_device(fit=tmp_path / "nowhere.json")


# }}}
