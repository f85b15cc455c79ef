"""Tests of ``loopyperf doctor``: the checks that pass, and the messages of those that fail."""

import json
import re
from pathlib import Path

import pytest

from loopyperf.cli import installation as doctor_file
from loopyperf.errors import BackendError, SimulationError
from tests.cli.runner import run


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_device(name: str):
        raise BackendError("install it: pip install 'loopyperf[opencl]'")

    monkeypatch.setattr(doctor_file, "open_backend", no_device)


@pytest.mark.usefixtures("healthy")
def test_doctor_succeeds_without_a_device():
    examined = run("doctor")
    assert examined.exit_code == 0
    assert "barvinok: counts are symbolic and exact" in examined.stdout
    assert "amd-r9-fury (linear, bundled)" in examined.stdout


@pytest.mark.usefixtures("healthy")
def test_doctor_prints_brackets_literally():
    printed = run("doctor").stdout
    for kind in ("OpenCL", "CUDA"):
        assert f"none {kind} device: install it: pip install 'loopyperf[opencl]'" in printed


@pytest.mark.usefixtures("healthy")
def test_doctor_fails_without_barvinok_and_names_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor_file, "engine_is_exact", lambda: False)
    examined = run("doctor")
    assert examined.exit_code == 1
    assert re.search(r"^bad +counting engine: .*pip install .*islpy-barvinok", examined.stdout, re.MULTILINE)


@pytest.mark.usefixtures("healthy")
def test_doctor_fails_for_a_simulator_that_is_not_compiled(monkeypatch: pytest.MonkeyPatch):
    def not_compiled():
        raise SimulationError("install a wheel")

    monkeypatch.setattr(doctor_file, "compiled_core", not_compiled)
    examined = run("doctor")
    assert examined.exit_code == 1
    assert re.search(r"^bad +simulator: install a wheel$", examined.stdout, re.MULTILINE)


@pytest.mark.usefixtures("healthy")
def test_doctor_fails_for_an_invalid_device_file(own_data: Path):
    (own_data / "devices").mkdir(parents=True)
    (own_data / "devices" / "my-gpu.toml").write_text("schema = 1\n")
    examined = run("doctor")
    assert examined.exit_code == 1
    assert re.search(r"^ok +device files: \d+, 1 of them yours$", examined.stdout, re.MULTILINE)
    assert re.search(r"^bad +device: .*my-gpu\.toml: .*missing required field", examined.stdout, re.MULTILINE)


@pytest.mark.usefixtures("healthy")
def test_doctor_fails_for_a_corrupt_fit(own_data: Path):
    own = own_data / "fits" / "amd-r9-fury"
    own.mkdir(parents=True)
    (own / "linear.json").write_text('{"schema": 1, "weights"')
    examined = run("doctor")
    assert examined.exit_code == 1
    assert re.search(r"^bad +fit: .*linear\.json is corrupt", examined.stdout, re.MULTILINE)


@pytest.mark.usefixtures("healthy")
def test_json_of_doctor_equals_the_text():
    found = json.loads(run("doctor", "--json").stdout)
    lines = run("doctor").stdout
    assert all(each["text"].partition(":")[0] in lines for each in found)
    assert [each["text"] for each in found if each["essential"] and not each["fine"]] == []
