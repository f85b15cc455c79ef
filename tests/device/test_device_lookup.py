"""Resolution of device names and paths to device files."""

import re
import shutil
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.device.device_library import BUNDLED, known_descriptions, slug_of, without_brand
from loopyperf.errors import DeviceFileError, UnknownDeviceError
from tests.kernels import doubled


def test_device_is_found_by_driver_and_product_names(subtests: pytest.Subtests):
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


def test_name_without_brand_is_the_model():
    assert without_brand("nvidia-geforce-rtx-2070") == without_brand("rtx-2070") == "rtx-2070"


def test_device_is_found_by_the_path_of_its_file(tmp_path: Path):
    shutil.copy(BUNDLED / "nvidia-v100.toml", tmp_path / "My V100.toml")
    for path in (tmp_path / "My V100.toml", str(tmp_path / "My V100.toml")):
        device = lpp.load_device(path)
        assert (device.slug, device.cores) == ("my-v100", 80)


@pytest.mark.parametrize("written", ["./my-v100.toml", "my-v100.toml", "../desk/my-v100.toml", "~/my-v100.toml"])
def test_relative_and_home_paths_are_resolved(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "desk").mkdir()
    shutil.copy(BUNDLED / "nvidia-v100.toml", tmp_path / "desk" / "my-v100.toml")
    monkeypatch.chdir(tmp_path / "desk")
    monkeypatch.setenv("HOME", str(tmp_path / "desk"))
    assert lpp.load_device(written).slug == slug_of(written) == "my-v100"


def test_error_for_other_files_shows_the_given_path(subtests: pytest.Subtests):
    for written in ["./mine.py", "mine.py", "/tmp/fit.json", "../mine"]:
        for model in [None, "linear", "pipeline", "learned"]:
            with (
                subtests.test(written=written, model=model),
                pytest.raises(DeviceFileError, match=f"^{re.escape(written)} is not a device file \\(\\*\\.toml\\)"),
            ):
                lpp.estimate(doubled(), n=64, device=written, model=model)


def test_user_device_file_overrides_the_bundled_file(own_data: Path):
    own = own_data / "devices"
    own.mkdir(parents=True)
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8").replace("value = 80,", "value = 79,")
    for name in ("nvidia-v100", "My GPU"):
        (own / f"{name}.toml").write_text(text, encoding="utf-8")
    assert (lpp.load_device("nvidia-v100").cores, lpp.load_device("My GPU").cores) == (79, 79)
    origins = {known.slug: known.origin for known in known_descriptions()}
    assert (origins["nvidia-v100"], origins["my-gpu"], origins["nvidia-a100"]) == ("user", "user", "bundled")
    assert "my-gpu" in lpp.devices()


def test_user_device_file_takes_shared_names(own_data: Path):
    (own_data / "devices").mkdir(parents=True)
    shutil.copy(BUNDLED / "nvidia-v100.toml", own_data / "devices" / "z-gpu.toml")
    assert lpp.load_device("Tesla V100-PCIE-16GB").slug == lpp.load_device("V100").slug == "z-gpu"
    assert lpp.load_device("nvidia-v100").slug == "nvidia-v100"


def test_corrupt_user_device_file_raises(own_data: Path):
    (own_data / "devices").mkdir(parents=True)
    (own_data / "devices" / "nvidia-v100.toml").write_text("schema = ")
    with pytest.raises(DeviceFileError, match=r"own data/devices/nvidia-v100.toml is not TOML"):
        lpp.load_device("nvidia-v100")


def test_error_for_unknown_device_lists_the_nearest_first(own_data: Path):
    with pytest.raises(UnknownDeviceError) as error:
        lpp.load_device("nvidia-titan-w")
    message = str(error.value)
    assert "no device called 'nvidia-titan-w'; nearest: nvidia-titan-v, " in message
    assert f"save it in {own_data / 'devices'}" in message


@pytest.mark.parametrize("name", ["", "NVIDIA", "GeForce", "no such card"])
def test_brand_alone_is_not_a_device(name: str):
    with pytest.raises(UnknownDeviceError, match="; nearest: "):
        lpp.load_device(name)


def test_device_of_wrong_type_raises():
    with pytest.raises(UnknownDeviceError, match="a device must be a name or the path of a device file, got 3"):
        lpp.load_device(3)


def test_each_listed_device_can_be_loaded():
    assert [lpp.load_device(name).slug for name in lpp.devices()] == list(lpp.devices())
