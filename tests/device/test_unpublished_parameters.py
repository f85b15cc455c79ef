"""The table of unpublished parameters in docs/devices.md matches the catalog."""

import re
from pathlib import Path

import pytest

from loopyperf.device.description import Device
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED
from loopyperf.errors import MissingNumberError

ROOT = Path(__file__).parents[2]
DEVICES = {path.stem: load_description(path) for path in sorted(BUNDLED.glob("*.toml"))}

SINCE_VOLTA = {
    *(
        "amd-mi210",
        "amd-mi300x",
        "amd-rx-6900-xt",
        "nvidia-titan-v",
        "nvidia-v100",
        "nvidia-rtx-2070",
        "nvidia-rtx-3090",
    ),
    *(
        "nvidia-a40",
        "nvidia-a100",
        "nvidia-a100-40",
        "nvidia-rtx-4090",
        "nvidia-h100-pcie",
        "nvidia-h100",
        "nvidia-h200",
    ),
    *("amd-mi100", "amd-mi250x", "amd-mi300a", "nvidia-gh200", "nvidia-l40"),
    *("nvidia-rtx-2080-ti", "nvidia-rtx-a4000", "nvidia-rtx-a6000", "nvidia-t4"),
}
LEVEL_NUMBERS = {
    "latency": ("latency",),
    "bandwidth": ("bandwidth", "sustained_bandwidth", "bandwidth_per_core"),
    "sustained bandwidth": ("sustained_bandwidth",),
}


def has_parameter(device: Device, number: str) -> bool:
    """Return whether *device* has the parameter of a table row; True if it lacks the memory level itself."""
    what, of, name = number.replace("`", "").partition(" of ")
    if not of:
        return getattr(device, what) is not None
    if what == "completion":
        try:
            return device.completion_latency(*name.rsplit(" ", 1)) > 0
        except MissingNumberError:
            return False
    levels = [level for level in device.memory if level.name == name]
    return all(any(level.source(each) for each in LEVEL_NUMBERS[what]) for level in levels)


def absent_rows() -> list[tuple[str, set[str]]]:
    text = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
    table = text.partition("### What is absent")[2].partition("## The documents")[0]
    rows: list[tuple[str, set[str]]] = []
    for number, devices in re.findall(r"^\| ([^|]*`[^|]+) \| ([^|]+) \|", table, re.MULTILINE):
        named = set(re.findall(r"[\w-]+-[\w-]+", devices))
        rows.append((number, SINCE_VOLTA - named if devices.startswith("all") else named))
    return rows


def test_devices_page_lists_the_devices_without_a_parameter(subtests: pytest.Subtests):
    for number, devices in absent_rows():
        with subtests.test(number=number, devices=devices):
            assert devices == {slug for slug in SINCE_VOLTA if not has_parameter(DEVICES[slug], number)}


def test_parameters_not_in_the_table_are_given_since_volta():
    kinds = ("add f32", "add f64", "add i32", "mul i32", "compare i32", "bitwise i32", "shift i32", "special f32")
    numbers = [f"completion of {kind}" for kind in kinds]
    numbers += [f"{what} of {level}" for what in ("latency", "bandwidth") for level in ("local", "L1", "L2", "DRAM")]
    listed = {number.replace("`", "") for number, _ in absent_rows()}
    assert len(listed) > 10
    for number in set(numbers) - listed:
        assert [slug for slug in SINCE_VOLTA if not has_parameter(DEVICES[slug], number)] == []
