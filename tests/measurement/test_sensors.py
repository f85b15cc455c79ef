"""Tests of clock and temperature readings from nvidia-smi."""

import os
import stat

import pytest

from loopyperf.measurement.archive import Archive, read_archive
from loopyperf.measurement.campaign import run_campaign
from loopyperf.measurement.environment import NOTHING, Reading, Sensors, reading_of

from .synthetic import SyntheticBackend, configuration, environment, kernel_file, run

NVIDIA = environment(vendor="NVIDIA Corporation", device="NVIDIA H100 80GB HBM3")
ANSWER = "NVIDIA H100 80GB HBM3, 1980, 41\nNVIDIA A100-SXM4-40GB, 1410, 33\n"


def test_clock_is_in_hertz_and_temperature_in_degrees():
    assert reading_of("NVIDIA H100 80GB HBM3", ANSWER) == Reading(1980e6, 41.0)


def test_values_missing_from_the_driver_output_are_none():
    assert reading_of("NVIDIA A100", "NVIDIA A100, [N/A], 33\n") == Reading(None, 33.0)


@pytest.mark.parametrize("answer", ["", "No devices were found\n", ANSWER, "NVIDIA T4, 1, 2\nNVIDIA T4, 3, 4\n"])
def test_no_reading_without_a_unique_matching_device(answer):
    assert reading_of("NVIDIA T4", answer) == NOTHING


@pytest.fixture
def fake_nvidia_smi(tmp_path, monkeypatch):
    """Return a function that installs an nvidia-smi with the given shell script on the PATH."""

    def install(script: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        path = folder / "nvidia-smi"
        path.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return install


def measured(tmp_path, device_environment):
    files = (kernel_file("empty kernel", configuration("group 16", (4, 8))),)
    path = tmp_path / "samples.jsonl"
    with Archive(path, run(vendor=device_environment.vendor, device=device_environment.device)) as archive:
        run_campaign(SyntheticBackend(environment=device_environment), files, archive)
    return read_archive(path).standing


def test_clock_and_temperature_are_recorded_with_a_measurement(fake_nvidia_smi, tmp_path):
    fake_nvidia_smi(f"printf '{ANSWER}'")
    assert {(m.clock, m.temperature) for m in measured(tmp_path, NVIDIA)} == {(1980e6, 41.0)}


def test_failing_nvidia_smi_runs_once_and_the_campaign_continues(fake_nvidia_smi, tmp_path):
    fake_nvidia_smi("exit 9")
    assert {(m.clock, m.temperature) for m in measured(tmp_path, NVIDIA)} == {(None, None)}
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_nvidia_smi_does_not_run_for_other_vendors(fake_nvidia_smi, tmp_path):
    fake_nvidia_smi(f"printf '{ANSWER}'")
    assert {(m.clock, m.temperature) for m in measured(tmp_path, environment())} == {(None, None)}
    assert not (tmp_path / "asked").exists()


def test_reading_is_reused_for_some_time(fake_nvidia_smi, tmp_path):
    fake_nvidia_smi(f"printf '{ANSWER}'")
    sensors = Sensors(NVIDIA)
    assert sensors.read() == sensors.read()
    assert (tmp_path / "asked").read_text() == "asked\n"
