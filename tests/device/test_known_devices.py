"""Which description is meant."""

import re
import shutil
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.device.device_library import BUNDLED, known_descriptions, slug_of, without_brand
from loopyperf.errors import DeviceFileError, UnknownDeviceError
from tests.kernels import doubled


def test_a_device_is_found_by_what_drivers_and_people_call_it(subtests: pytest.Subtests):
    for name, slug in [
        ("nvidia-titan-v", "nvidia-titan-v"),
        ("NVIDIA TITAN V", "nvidia-titan-v"),
        ("TITAN V", "nvidia-titan-v"),
        ("Tesla K40c", "nvidia-tesla-k40"),
        ("k40", "nvidia-tesla-k40"),
        ("NVIDIA GeForce RTX 2070", "nvidia-rtx-2070"),
        ("Tesla V100-PCIE-16GB", "nvidia-v100"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100"),
        ("NVIDIA A100-SXM4-40GB", "nvidia-a100-40"),
        ("NVIDIA A100-PCIE-40GB", "nvidia-a100-40"),
        ("NVIDIA A40", "nvidia-a40"),
        ("NVIDIA H100 PCIe", "nvidia-h100-pcie"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100"),
        ("AMD R9 Fury", "amd-r9-fury"),
        ("AMD Radeon R9 Fury", "amd-r9-fury"),
        ("AMD Instinct MI300X", "amd-mi300x"),
        ("AMD Radeon RX 6900 XT", "amd-rx-6900-xt"),
        ("NVIDIA GeForce RTX 2080 Ti", "nvidia-rtx-2080-ti"),
        ("Tesla T4", "nvidia-t4"),
        ("NVIDIA RTX A6000", "nvidia-rtx-a6000"),
        ("NVIDIA L40", "nvidia-l40"),
        ("NVIDIA GH200 480GB", "nvidia-gh200"),
        ("AMD Instinct MI250X", "amd-mi250x"),
    ]:
        with subtests.test(name=name, slug=slug):
            assert lpp.load_device(name).slug == slug


def test_a_name_without_brand_is_the_model():
    assert without_brand("nvidia-geforce-rtx-2070") == without_brand("rtx-2070") == "rtx-2070"


def test_a_device_is_found_by_the_path_of_its_description(tmp_path: Path):
    shutil.copy(BUNDLED / "nvidia-v100.toml", tmp_path / "My V100.toml")
    for path in (tmp_path / "My V100.toml", str(tmp_path / "My V100.toml")):
        device = lpp.load_device(path)
        assert (device.slug, device.cores) == ("my-v100", 80)


@pytest.mark.parametrize("written", ["./my-v100.toml", "my-v100.toml", "../desk/my-v100.toml", "~/my-v100.toml"])
def test_a_path_as_it_is_written_in_a_shell_is_one(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "desk").mkdir()
    shutil.copy(BUNDLED / "nvidia-v100.toml", tmp_path / "desk" / "my-v100.toml")
    monkeypatch.chdir(tmp_path / "desk")
    monkeypatch.setenv("HOME", str(tmp_path / "desk"))
    assert lpp.load_device(written).slug == slug_of(written) == "my-v100"


def test_the_path_of_something_else_is_refused_as_it_was_written(subtests: pytest.Subtests):
    for written in ["./mine.py", "mine.py", "/tmp/fit.json", "../mine"]:
        for model in [None, "linear", "pipeline", "learned"]:
            with (
                subtests.test(written=written, model=model),
                pytest.raises(DeviceFileError, match=f"^{re.escape(written)} is not a device file \\(\\*\\.toml\\)"),
            ):
                lpp.estimate(doubled(), n=64, device=written, model=model)


def test_ones_own_description_is_found_by_name_and_beats_the_bundled_one(own_data: Path):
    own = own_data / "devices"
    own.mkdir(parents=True)
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8").replace("value = 80,", "value = 79,")
    for name in ("nvidia-v100", "My GPU"):
        (own / f"{name}.toml").write_text(text, encoding="utf-8")
    assert (lpp.load_device("nvidia-v100").cores, lpp.load_device("My GPU").cores) == (79, 79)
    origins = {known.slug: known.origin for known in known_descriptions()}
    assert (origins["nvidia-v100"], origins["my-gpu"], origins["nvidia-a100"]) == ("user", "user", "bundled")
    assert "my-gpu" in lpp.devices()


def test_ones_own_description_beats_the_bundled_one_by_every_name_that_both_have(own_data: Path):
    (own_data / "devices").mkdir(parents=True)
    shutil.copy(BUNDLED / "nvidia-v100.toml", own_data / "devices" / "z-gpu.toml")
    assert lpp.load_device("Tesla V100-PCIE-16GB").slug == lpp.load_device("V100").slug == "z-gpu"
    assert lpp.load_device("nvidia-v100").slug == "nvidia-v100"


def test_ones_own_description_that_is_corrupt_is_not_passed_over(own_data: Path):
    (own_data / "devices").mkdir(parents=True)
    (own_data / "devices" / "nvidia-v100.toml").write_text("schema = ")
    with pytest.raises(DeviceFileError, match=r"own data/devices/nvidia-v100.toml is not TOML"):
        lpp.load_device("nvidia-v100")


def test_an_unknown_device_is_refused_listing_the_nearest_first(own_data: Path):
    with pytest.raises(UnknownDeviceError) as refused:
        lpp.load_device("nvidia-titan-w")
    message = str(refused.value)
    assert "no device called 'nvidia-titan-w'; nearest: nvidia-titan-v, " in message
    assert f"save it in {own_data / 'devices'}" in message


@pytest.mark.parametrize("name", ["", "NVIDIA", "GeForce", "no such card"])
def test_a_brand_is_no_device(name: str):
    with pytest.raises(UnknownDeviceError, match="; nearest: "):
        lpp.load_device(name)


def test_what_is_no_name_is_refused():
    with pytest.raises(UnknownDeviceError, match="a device must be a name or the path of a device file, got 3"):
        lpp.load_device(3)


def test_each_described_device_can_be_loaded_by_its_name():
    assert [lpp.load_device(name).slug for name in lpp.devices()] == list(lpp.devices())
