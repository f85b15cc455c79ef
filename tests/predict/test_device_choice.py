"""Which fit answers: an argument, LOOPYPERF_DEVICE, the local device; never one that was not meant."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import loopyperf as lpp
from loopyperf.calibration import choice
from loopyperf.calibration.fit_library import own_path
from loopyperf.calibration.fits import save_fit
from loopyperf.device.description import Throughput
from loopyperf.device.device_library import BUNDLED, known_descriptions, load_device
from loopyperf.errors import (
    BackendError,
    FitFileError,
    MissingNumberError,
    ParameterError,
    UnknownDeviceError,
    UnknownModelError,
)
from tests.fitted import FREE
from tests.kernels import doubled

KERNEL = doubled()


def estimated_device(**options):
    return lpp.estimate(KERNEL, n=64, **options).device


@pytest.fixture
def fits(own_data: Path, make_fit) -> Path:
    """Fits of one's own for three devices."""
    for slug in ("argument", "variable", "local"):
        save_fit(make_fit(slug=slug), own_data / "fits" / slug / "linear.json")
    return own_data / "fits"


@pytest.fixture
def local_device(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the local devices that were opened; ``Local`` is this machine's."""
    opened: list[str] = []

    def open_backend(name: str):
        opened.append(name)
        return SimpleNamespace(environment=SimpleNamespace(slug="local"))

    monkeypatch.setattr(choice, "open_backend", open_backend)
    return opened


@pytest.fixture
def no_local_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_backend(name: str):
        raise BackendError("no OpenCL platform was found")

    monkeypatch.setattr(choice, "open_backend", open_backend)


# {{{ the order


def test_the_argument_beats_the_variable(fits, local_device, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "variable")
    assert estimated_device(device="argument") == "argument"
    assert local_device == []


def test_the_variable_beats_the_local_device(fits, local_device, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "variable")
    assert estimated_device() == "variable"
    assert local_device == []


def test_the_local_device_is_meant_if_there_is_a_fit_for_it(fits, local_device):
    assert estimated_device() == "local"


def test_an_empty_variable_names_no_device(fits, local_device, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "")
    assert estimated_device() == "local"


def test_the_local_device_is_opened_once_for_many_estimates(fits, local_device):
    assert [estimated_device() for _ in range(3)] == ["local"] * 3
    assert local_device == ["opencl"]


def test_a_local_device_without_a_fit_is_refused_listing_the_known_ones(local_device):
    with pytest.raises(UnknownDeviceError) as refused:
        estimated_device()
    message = str(refused.value)
    assert "no fit for this machine's 'local'" in message
    assert "amd-r9-fury" in message
    assert "LOOPYPERF_DEVICE" in message
    assert "loopyperf calibrate" in message


def test_a_local_device_that_is_not_described_is_refused_saying_what_describes_or_fits_it(local_device):
    with pytest.raises(UnknownDeviceError, match="parameters of this machine's 'local' are unknown; pass a") as refused:
        lpp.estimate(doubled(), n=64, model="pipeline")
    assert "loopyperf microbenchmark" in str(refused.value)
    assert "loopyperf calibrate" in str(refused.value)


def test_without_any_device_the_known_ones_are_listed(fits, no_local_device):
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
def test_a_device_without_a_fit_is_refused_and_no_other_takes_its_place(name, message, fits, local_device, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "variable")
    with pytest.raises(UnknownDeviceError, match=message):
        estimated_device(device=name, model="linear")


def test_a_device_may_be_given_by_the_name_its_driver_uses():
    assert estimated_device(device="AMD R9 Fury") == "amd-r9-fury"


def test_devices_are_those_with_a_fit_and_those_described(fits):
    described = {known.slug for known in known_descriptions()}
    assert {"nvidia-titan-v", "amd-r9-fury"} <= described
    assert lpp.devices() == tuple(sorted({"argument", "local", "variable"} | described))


@pytest.mark.parametrize("device", ["nvidia-a100", "Titan V"])
def test_a_described_device_has_no_fit_where_a_fitted_model_is_asked_and_is_told_what_answers(fits, device: str):
    with pytest.raises(UnknownDeviceError, match="model='pipeline'") as refused:
        estimated_device(device=device, model="overlap")
    assert "loopyperf calibrate" in str(refused.value)


def test_the_local_device_is_told_so_too_where_it_is_described(fits, monkeypatch):
    machine = SimpleNamespace(environment=SimpleNamespace(slug="nvidia-a100"))
    monkeypatch.setattr(choice, "open_backend", lambda name: machine)
    with pytest.raises(UnknownDeviceError, match=r"no fit for this machine's 'nvidia-a100'; .* model='pipeline'"):
        estimated_device()


def test_a_device_that_nobody_described_is_not_told_so(fits):
    with pytest.raises(UnknownDeviceError) as refused:
        estimated_device(device="nobodys-device")
    assert "pipeline" not in str(refused.value)


# }}}


# {{{ no model is named


BY_ITS_DESCRIPTION = "no fit for 'nvidia-v100'; using the 'pipeline' model with published device parameters"
NAMES = ("nvidia-v100", "Tesla V100", load_device("nvidia-v100"), BUNDLED / "nvidia-v100.toml")


@pytest.mark.parametrize("device", NAMES, ids=["short name", "another name", "description", "path"])
def test_a_described_device_without_a_fit_answers_by_its_description_and_says_so(device):
    found = lpp.estimate(KERNEL, n=64, device=device)
    asked = lpp.estimate(KERNEL, n=64, device=device, model="pipeline")
    assert (found.model, found.device, found.seconds) == ("pipeline", "nvidia-v100", asked.seconds)
    assert found.notes[0].startswith(BY_ITS_DESCRIPTION)
    assert found.notes[1:] == asked.notes


def test_so_it_is_with_the_device_that_the_variable_names(local_device, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "nvidia-v100")
    assert lpp.estimate(KERNEL, n=64).notes[0].startswith(BY_ITS_DESCRIPTION)
    assert local_device == []


def test_variants_are_ranked_by_the_model_that_estimates_them_and_the_ranking_says_so():
    ranking = lpp.rank({"a": KERNEL}, n=64, device="nvidia-v100")
    assert ranking.model == lpp.explain(KERNEL, n=64, device="nvidia-v100").devices[0].first == "pipeline"
    assert ranking.notes[0].startswith(BY_ITS_DESCRIPTION)


@pytest.mark.parametrize("device", NAMES, ids=["short name", "another name", "description", "path"])
def test_a_fit_goes_before_the_description_by_whatever_name(device, own_data, make_fit):
    save_fit(make_fit(slug="nvidia-v100"), own_data / "fits" / "nvidia-v100" / "linear.json")
    found = lpp.estimate(KERNEL, n=64, device=device)
    assert (found.model, found.device) == ("linear", "nvidia-v100")
    assert lpp.rank({"a": KERNEL}, n=64, device=device).model == "linear"
    told = any("model='pipeline' uses the given device parameters" in note for note in found.notes)
    assert told is not isinstance(device, str)


@pytest.mark.parametrize("model", ["roofline", None])
def test_an_own_description_that_is_edited_again_and_again_answers_by_its_last_text_at_once(model, own_data):
    own = own_data / "devices" / "mine.toml"
    own.parent.mkdir(parents=True)
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8")
    clock = "clock = { value = 1380,"
    assert clock in text
    found = []
    for number in range(1300, 1330):  # as many bytes each, within the time that a file system tells times to
        own.write_text(text.replace(clock, clock.replace("1380", str(number))), encoding="utf-8")
        found.append(float(lpp.estimate(KERNEL, n=2**20, device="mine", model=model).seconds))
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == len(found)


def test_an_own_description_that_is_added_or_removed_is_the_one_that_answers_at_once(own_data):
    own = own_data / "devices" / "nvidia-v100.toml"
    own.parent.mkdir(parents=True)

    def launch_overhead_is_known():
        return not any("launch" in note for note in lpp.estimate(KERNEL, n=64, device="nvidia-v100").notes)

    assert not launch_overhead_is_known()
    stated = 'launch_overhead = { value = 5, unit = "µs", source = "me, today" }\n'
    own.write_text(
        (BUNDLED / "nvidia-v100.toml").read_text("utf-8").replace("cores =", stated + "cores ="), encoding="utf-8"
    )
    assert launch_overhead_is_known()
    own.unlink()
    assert not launch_overhead_is_known()


def test_what_a_description_does_not_tell_is_refused_naming_it():
    bare = load_device("nvidia-gtx-280")
    without = replace(bare, throughput=Throughput(slug=bare.slug, place="throughput"))
    with pytest.raises(MissingNumberError, match=r"lacks throughput\.f32 "):
        lpp.estimate(KERNEL, n=64, device=without)


def test_a_description_that_no_model_answers_by_is_not_offered_in_place_of_a_fit(own_data):
    own = own_data / "devices" / "mine.toml"
    own.parent.mkdir(parents=True)
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8")
    for stated, is_offered in ((text, True), (text.replace("\ncores =", "\n# cores ="), False)):
        own.write_text(stated, "utf-8")
        with pytest.raises(UnknownDeviceError) as refused:
            lpp.estimate(KERNEL, n=64, device="mine", model="linear")
        assert ("model='pipeline'" in str(refused.value)) is is_offered


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"counting": "paper"}, "'pipeline' always uses 'executed' counts; drop counting="),
        ({"on_unknown": "report"}, "'pipeline' needs the whole kernel; drop on_unknown="),
        ({"arguments": {}}, "'pipeline' does not execute the kernel; drop arguments="),
    ],
)
def test_options_of_fits_are_refused_where_there_is_none(option, message):
    with pytest.raises(ParameterError, match=message):
        lpp.estimate(KERNEL, n=64, device="nvidia-v100", **option)


def test_who_names_a_backend_means_a_fit():
    with pytest.raises(UnknownDeviceError, match="no fit for device 'nvidia-v100'"):
        lpp.estimate(KERNEL, n=64, device="nvidia-v100", backend="cuda")


# }}}


# {{{ which backend


@pytest.fixture
def two_backends(own_data: Path, make_fit) -> None:
    """Fits of one device through CUDA and through OpenCL, which takes a tenth longer."""
    for backend, weight in (("cuda", 1.0), ("opencl", 1.1)):
        fit = make_fit(backend=backend, weights={**FREE, "launches": weight})
        save_fit(fit, own_path(fit))


def test_an_estimate_says_whose_fit_it_took_where_there_are_several(two_backends):
    for backend, seconds in (("cuda", 1.0), ("opencl", 1.1)):
        asked = lpp.estimate(KERNEL, n=64, device="made-up-1", backend=backend)
        assert asked.seconds == pytest.approx(seconds)
        assert not any("measured through" in note for note in asked.notes)
    answer = lpp.estimate(KERNEL, n=64, device="made-up-1")
    assert answer.seconds == pytest.approx(1.1)
    assert answer.notes[0] == (
        "using the fit measured through 'opencl'; another exists for 'cuda' (backend=... selects it)"
    )


def test_a_given_fit_of_another_backend_is_refused(make_fit):
    with pytest.raises(FitFileError, match="measured through 'opencl', but 'cuda' was requested"):
        estimated_device(fit=make_fit(backend="opencl"), backend="cuda")
    with pytest.raises(FitFileError, match="an unknown backend, but 'cuda'"):
        estimated_device(fit=make_fit(backend=""), backend="cuda")


def test_what_is_no_backend_is_refused_as_a_size_perhaps():
    with pytest.raises(ParameterError, match="backend must be a name, got 3; pass a kernel size of that name"):
        estimated_device(device="amd-r9-fury", backend=3)
    with pytest.raises(ParameterError, match="the backend of a fit must be 'cuda' or 'opencl', got 'hip'"):
        estimated_device(device="nvidia-v100", backend="hip")
    with pytest.raises(ParameterError, match="'pipeline' does not execute the kernel; drop backend="):
        estimated_device(device="nvidia-titan-v", model="pipeline", backend="cuda")


# }}}


# {{{ an explicit fit


def test_an_explicit_path_beats_everything(fits, local_device, make_fit, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "variable")
    save_fit(make_fit(slug="explicit"), tmp_path / "mine.json")
    assert estimated_device(fit=tmp_path / "mine.json") == "explicit"
    assert estimated_device(fit=str(tmp_path / "mine.json")) == "explicit"


def test_a_fit_needs_no_file(make_fit):
    assert estimated_device(fit=make_fit(slug="in-memory")) == "in-memory"


def test_a_fit_of_another_device_than_was_asked_for_is_refused(make_fit, tmp_path):
    save_fit(make_fit(slug="explicit"), tmp_path / "mine.json")
    for fit in (tmp_path / "mine.json", make_fit(slug="explicit")):
        with pytest.raises(FitFileError, match="for device 'explicit', but 'amd-r9-fury' was requested"):
            estimated_device(device="amd-r9-fury", fit=fit)


def test_a_fit_of_the_device_that_was_asked_for_is_taken(make_fit):
    assert estimated_device(device="Made Up 1", fit=make_fit()) == "made-up-1"


def test_a_fit_of_another_model_than_was_asked_for_is_refused(make_fit, tmp_path):
    save_fit(make_fit(model="overlap"), tmp_path / "mine.json")
    for fit in (tmp_path / "mine.json", make_fit(model="overlap")):
        with pytest.raises(FitFileError, match="'overlap', but 'linear' was requested"):
            estimated_device(fit=fit, model="linear")


def test_an_unknown_model_is_refused_naming_those_there_are():
    with pytest.raises(UnknownModelError, match="unknown model 'overlapp'; choose one of: linear"):
        estimated_device(device="amd-r9-fury", model="overlapp")


def test_a_corrupt_fit_is_refused(tmp_path):
    (tmp_path / "mine.json").write_text('{"schema": 1, ')
    with pytest.raises(FitFileError, match=r"mine\.json is corrupt"):
        estimated_device(fit=tmp_path / "mine.json")


def test_a_corrupt_fit_of_ones_own_is_not_passed_over_for_the_bundled_one(own_data):
    own = own_data / "fits" / "amd-r9-fury" / "linear.json"
    own.parent.mkdir(parents=True)
    own.write_text("{")
    with pytest.raises(FitFileError, match="corrupt"):
        estimated_device(device="amd-r9-fury")


def test_a_fit_from_the_future_is_refused_saying_what_to_install(tmp_path):
    (tmp_path / "mine.json").write_text('{"schema": 99, "versions": {"loopyperf": "7.1"}}')
    with pytest.raises(FitFileError, match=r"schema 99.*pip install 'loopyperf>=7\.1'"):
        estimated_device(fit=tmp_path / "mine.json")


def test_what_is_no_path_is_refused():
    with pytest.raises(ParameterError, match="or a path, got 3"):
        estimated_device(fit=3)
    with pytest.raises(FitFileError, match="got 3"):
        lpp.load_fit(3)


def test_a_missing_fit_file_is_refused(tmp_path):
    with pytest.raises(FitFileError, match=r"nowhere\.json"):
        estimated_device(fit=tmp_path / "nowhere.json")


# }}}
