"""Tests of ``loopyperf devices``: the list of devices, and the parameters of one device."""

import json
import re
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.calibration.fits import Fit, save_fit
from loopyperf.device.device_library import BUNDLED
from tests.cli.runner import run

KERNELS = Path(__file__).parents[1] / "kernels.py"


def test_devices_lists_device_files_and_fits(own_data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "160")
    own = own_data / "fits" / "made-up-1" / "linear.json"
    save_fit(Fit(model="linear", device="Made Up", slug="made-up-1", counting="paper", weights={"launches": 1.0}), own)
    listed = {row["device"]: row for row in json.loads(run("devices", "--json").stdout)}
    assert list(listed) == list(lpp.devices())
    fit = {"model": "linear", "backend": "", "origin": "user", "path": str(own), "error": None}
    made_up = {name: value for name, value in listed["made-up-1"].items() if value not in (None, "")}
    assert made_up == {"device": "made-up-1", "name": "Made Up", "fits": [fit]}
    assert [(fit["model"], fit["origin"]) for fit in listed["amd-r9-fury"]["fits"]] == [("linear", "bundled")]
    assert (listed["nvidia-a100"]["origin"], listed["nvidia-a100"]["fits"]) == ("bundled", [])
    device = lpp.load_device("nvidia-a100")
    numbers = device.cores, device.clock, device.level("DRAM").bandwidth, device.peak_f32
    assert tuple(listed["nvidia-a100"][name] for name in ("cores", "clock", "bandwidth", "peak_f32")) == numbers
    shown = run("devices").stdout
    fury = r"^  amd-r9-fury +GCN 3 \(Fiji\) gfx803 +56 +1 GHz +512 GB/s +7.2 Tflop/s +linear$"
    assert re.search(fury, shown, re.MULTILINE)
    assert re.search(r"^  made-up-1 +linear \(user\)$", shown, re.MULTILINE)


def test_fits_are_listed_with_their_device_and_with_read_errors(own_data: Path):
    slug = "geforce-gtx-1060-6gb"
    by_driver = own_data / "fits" / slug / "linear.json"
    save_fit(Fit(model="linear", device="GTX 1060", slug=slug, counting="paper", weights={"a": 1.0}), by_driver)
    broken = own_data / "fits" / "made-up-1" / "overlap.json"
    broken.parent.mkdir()
    broken.write_text("{")
    listed = {row["device"]: row for row in json.loads(run("devices", "--json").stdout)}
    assert list(listed) == list(lpp.devices())
    assert [(fit["path"], fit["error"]) for fit in listed["nvidia-gtx-1060"]["fits"]] == [(str(by_driver), None)]
    (fit,) = listed["made-up-1"]["fits"]
    assert (fit["model"], fit["backend"]) == ("overlap", None)
    assert str(broken) in fit["error"]
    assert "overlap (user, unreadable)" in " ".join(run("devices").stdout.split())


@pytest.fixture
def bad(own_data: Path) -> Path:
    """Return a device file of the user that lacks required fields."""
    path = own_data / "devices" / "bad.toml"
    path.parent.mkdir(parents=True)
    path.write_text('schema = 1\nname = "Bad"\n', encoding="utf-8")
    return path


def test_unreadable_device_file_is_listed_with_the_reason(bad: Path):
    listed = {row["device"]: row for row in json.loads(run("devices", "--json").stdout)}
    assert list(listed) == list(lpp.devices())
    assert listed["nvidia-v100"]["error"] is None
    assert (listed["bad"]["name"], listed["bad"]["path"]) == ("", str(bad))
    assert str(bad) in listed["bad"]["error"]
    shown = run("devices")
    assert shown.exit_code == 0
    assert re.search(r"^ +bad \(user, unreadable\)$", shown.stdout, re.MULTILINE)
    assert listed["bad"]["error"] in shown.stdout


def test_unreadable_device_file_is_refused_only_if_requested(bad: Path):
    unknown = run("estimate", f"{KERNELS}:doubled", "--set", "n=64", "--device", "nope")
    assert unknown.stderr.startswith("Error: no device called 'nope'; nearest: ")
    assert f". Skipped: {bad}: " in unknown.stderr
    assert "Skipped" in run("devices", "show", "nope").stderr
    assert run("devices", "show", "titan v").stdout.startswith("device: nvidia-titan-v\n")
    for arguments in (
        ("devices", "show", "bad"),
        ("estimate", f"{KERNELS}:doubled", "--set", "n=64", "--device", "bad"),
    ):
        refused = run(*arguments)
        assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
        assert str(bad) in refused.stderr


def test_devices_show_prints_every_number_with_unit_and_source(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "400")
    printed = run("devices", "show", "Tesla C2050").stdout
    assert printed.startswith("device: nvidia-tesla-c2050\nname: NVIDIA Tesla C2050\n")
    assert re.search(r" +limits.registers +32,768 registers +32-bit registers of a core +CUDA Occ.* 2.0", printed)
    assert re.search(r" +memory.DRAM.departure_delay +20 cycles +.*GPUPerf's Δ +Sim et al., table 3", printed)
    device = lpp.load_device("nvidia-tesla-c2050")
    headings = 1
    assert len(re.findall(r"^ +\w", printed, re.MULTILINE)) == headings + sum(
        len(part.sources) for part in device.parts
    )


def test_devices_show_prints_the_parameters_as_json():
    shown = json.loads(run("devices", "show", "nvidia-titan-v", "--json").stdout)
    assert (shown["device"], shown["vendor"], shown["target"]) == ("nvidia-titan-v", "NVIDIA", "7.0")
    assert shown["lanes"] == "together"
    rows = {row["number"]: row for row in shown["numbers"]}
    assert (rows["clock"]["value"], rows["clock"]["unit"]) == (1348, "MHz")
    assert rows["instructions.fma f64.completion"]["source"] == "NMSU GPUs-ISA-Latencies, TITAN V, DFFMA"
    assert all(row["unit"] and row["source"] and row["meaning"] for row in rows.values())


def test_devices_show_names_the_parameters_without_which_all_models_need_a_fit(own_data: Path):
    (own_data / "devices").mkdir(parents=True)
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8")
    (own_data / "devices" / "mine.toml").write_text(text.replace("\nf32 = ", "\n# "), encoding="utf-8")
    assert "the device file lacks throughput.f32" in run("devices", "show", "mine").stdout
    assert "lacks" not in run("devices", "show", "nvidia-v100").stdout
