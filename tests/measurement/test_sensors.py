import os
import stat

import pytest

from loopyperf.measurement.archive import Archive, read_archive
from loopyperf.measurement.campaign import run_campaign
from loopyperf.measurement.environment import NOTHING, Reading, Sensors, reading_of

from .synthetic import SyntheticBackend, configuration, environment, kernel_file, run

NVIDIA = environment(vendor="NVIDIA Corporation", device="NVIDIA H100 80GB HBM3")
ANSWER = "NVIDIA H100 80GB HBM3, 1980, 41\nNVIDIA A100-SXM4-40GB, 1410, 33\n"


def test_the_clock_is_in_hertz_and_the_temperature_in_degrees():
    assert reading_of("NVIDIA H100 80GB HBM3", ANSWER) == Reading(1980e6, 41.0)


def test_what_the_driver_does_not_tell_is_absent():
    assert reading_of("NVIDIA A100", "NVIDIA A100, [N/A], 33\n") == Reading(None, 33.0)


@pytest.mark.parametrize("answer", ["", "No devices were found\n", ANSWER, "NVIDIA T4, 1, 2\nNVIDIA T4, 3, 4\n"])
def test_another_device_or_one_of_several_is_not_read(answer):
    assert reading_of("NVIDIA T4", answer) == NOTHING


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put an nvidia-smi into the path that answers as told, and return what tells it."""

    def answering(script: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        path = folder / "nvidia-smi"
        path.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return answering


def measured(tmp_path, where):
    files = (kernel_file("empty kernel", configuration("group 16", (4, 8))),)
    path = tmp_path / "samples.jsonl"
    with Archive(path, run(vendor=where.vendor, device=where.device)) as archive:
        run_campaign(SyntheticBackend(environment=where), files, archive)
    return read_archive(path).standing


def test_clock_and_temperature_are_recorded_with_a_measurement(program, tmp_path):
    program(f"printf '{ANSWER}'")
    assert {(m.clock, m.temperature) for m in measured(tmp_path, NVIDIA)} == {(1980e6, 41.0)}


def test_a_program_that_fails_is_asked_once_and_nothing_depends_on_it(program, tmp_path):
    program("exit 9")
    assert {(m.clock, m.temperature) for m in measured(tmp_path, NVIDIA)} == {(None, None)}
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_a_device_of_another_vendor_is_not_looked_for(program, tmp_path):
    program(f"printf '{ANSWER}'")
    assert {(m.clock, m.temperature) for m in measured(tmp_path, environment())} == {(None, None)}
    assert not (tmp_path / "asked").exists()


def test_a_reading_stands_for_a_while(program, tmp_path):
    program(f"printf '{ANSWER}'")
    sensors = Sensors(NVIDIA)
    assert sensors.read() == sensors.read()
    assert (tmp_path / "asked").read_text() == "asked\n"
