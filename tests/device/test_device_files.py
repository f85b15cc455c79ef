"""Reading of device files, and errors that name the file and the field."""

from pathlib import Path

import pytest

from loopyperf.device.device_files import load_description
from loopyperf.errors import DeviceFileError

HEADER = 'schema = 1\nname = "Made Up"\nvendor = "Acme"\narchitecture = "None"\n'
CORES = 'cores = { value = 4, unit = "cores", source = "a paper, table 1" }\n'


def load(folder: Path, text: str):
    (folder / "made-up.toml").write_text(text, encoding="utf-8")
    return load_description(folder / "made-up.toml")


def test_device_file_is_read(tmp_path: Path):
    device = load(
        tmp_path,
        HEADER
        + CORES
        + 'clock = { value = 1.5, unit = "GHz", source = "a paper, table 1" }\n'
        + '[pipelines]\nsfu = { pipeline = "alu", source = "a paper" }\n'
        + '[limits]\nlocal_memory = { value = 48, unit = "KiB", source = "a paper, table 2" }\n'
        + '[memory.L1]\nper = "core"\nholds_local_memory = true\n'
        + '[memory.L2]\nper = "device"\nsize = { value = 4.5, unit = "MiB", source = "a paper, table 2" }\n',
    )
    assert (device.slug, device.name, device.vendor) == ("made-up", "Made Up", "Acme")
    assert (device.cores, device.clock, device.limits.local_memory) == (4, 1.5e9, 49152)
    assert (device.pipeline("sfu"), device.pipeline("fp64")) == ("alu", "fp64")
    assert [(level.name, level.per, level.holds_local_memory) for level in device.memory] == [
        ("L1", "core", True),
        ("L2", "device", False),
    ]
    assert device.level("L2").size == 4_718_592
    assert [str(quantity) for _, quantity in device.known()] == ["4 cores", "1.5 GHz"]


def number(name: str, value: str = "1", unit: str = "cores", more: str = ', source = "s"') -> str:
    return f'{name} = {{ value = {value}, unit = "{unit}"{more} }}\n'


INVALID = {
    "no TOML": ("schema = 1\nname = \n", "is not TOML: .*line 2"),
    "no schema": (CORES, "must begin with schema = 1, got None"),
    "a schema from the future": ("schema = 2\n" + CORES, "reads schemas up to 1; upgrade: pip install"),
    "no name": ("schema = 1\n" + CORES, "made-up.toml: .*missing required field `name`"),
    "a number without source": (HEADER + number("cores", more=""), "cores .*`source`; write cores = { value"),
    "a number with an empty source": (HEADER + number("cores", more=', source = ""'), r"cores .*length >= 1.*source"),
    "a bare number": (HEADER + "cores = 4\n", "cores Expected `object`, got `int`; write cores = { value"),
    "a number that is a word": (HEADER + number("cores", '"many"'), "cores .*value"),
    "more than value, unit, source": (HEADER + number("cores", more=', source = "s", page = 3'), "cores .*`page`"),
    "an unknown number": (HEADER + number("coers"), "an unknown field 'coers'; the nearest known field is 'cores'"),
    "an unknown number of a part": (
        HEADER + "[limits]\n" + number("warp", unit="warps"),
        "limits has an unknown field 'warp'; the nearest known field is 'warps'",
    ),
    "an unknown table": (HEADER + "[limit]\n", "an unknown field 'limit'"),
    "a table that is none": (HEADER + "limits = 3\n", "limits must be a table, got 3"),
    "a unit of something else": (
        HEADER + "[memory.L2]\nper = 'device'\n" + number("bandwidth", unit="B/cycle"),
        "memory.L2.bandwidth has unit 'B/cycle'; it must be one of B/s, GB/s, TB/s",
    ),
    "a fraction of a core": (HEADER + number("cores", "1.5"), "cores must be a whole number of cores, got 1.5 cores"),
    "a negative number": (HEADER + number("cores", "-1"), "cores must be a number > 0, got -1"),
    "no cores": (HEADER + number("cores", "0"), "cores must be a number > 0, got 0"),
    "a negative time": (HEADER + number("group_start", "-1", "cycles"), "must be a number >= 0, got -1"),
    "a number beyond floats": (HEADER + number("clock", "9" * 400, "Hz"), "clock must be a number > 0, got 9+"),
    "a number beyond use": (HEADER + number("clock", "1e30", "Hz"), r"between 1e-18 and 1e\+18 Hz, got 1e\+30"),
    "a number of no float": (HEADER + number("clock", "9" * 5000, "Hz"), "is not TOML: Exceeds the limit"),
    "more than models enumerate": (
        HEADER + number("cores", str(2**31)),
        r"between 1e-18 and 1.67772e\+07 cores, got 2147",
    ),
    "a hexadecimal number": (HEADER + number("clock", "0x" + "f" * 5000, "Hz"), "is not TOML: Exceeds the limit"),
    "a long key": (HEADER + ".".join("a" * 20_000) + " = 1\n", "is not TOML: a line has more than 100 dots"),
    "control characters": (HEADER + '"\\u001b]0;x\\u0007" = 1\n', r"unknown field '\\x1b\]0;x\\x07'"),
    "nesting": (HEADER + "a = " + "[" * 5000, "is not TOML: "),
    "an infinite number": (HEADER + number("clock", "inf", "Hz"), "clock must be a number > 0, got inf"),
    "no number": (HEADER + number("clock", "nan", "Hz"), "clock must be a number > 0, got nan"),
    "a memory level without its scope": (HEADER + "[memory.L2]\n", "memory.L2 .*missing required field `per`"),
    "a memory of everybody": (HEADER + "[memory.L2]\nper = 'all'\n", "memory.L2 Invalid enum value 'all'"),
    "a pipeline without source": (HEADER + "[pipelines]\nsfu = { pipeline = 'alu' }\n", "`source`.*pipelines"),
}


def test_error_in_device_file_names_file_and_field(subtests: pytest.Subtests, tmp_path: Path):
    for name, (text, message) in INVALID.items():
        with subtests.test(name=name):
            with pytest.raises(DeviceFileError, match=message) as error:
                load(tmp_path, text)
            assert "made-up.toml" in str(error.value)


def test_missing_device_file_raises(tmp_path: Path):
    with pytest.raises(DeviceFileError, match=r"cannot read .*nowhere.toml: No such file"):
        load_description(tmp_path / "nowhere.toml")


def test_unknown_scheduling_policy_raises(tmp_path: Path):
    scheduling = 'scheduling = { policy = "oldest-first", source = "a paper" }\n'
    assert load(tmp_path, HEADER + scheduling).scheduler == "oldest-first"
    assert load(tmp_path, HEADER).scheduler == "round-robin"
    with pytest.raises(DeviceFileError, match=r"'fifo'.*scheduling"):
        load(tmp_path, HEADER + scheduling.replace("oldest-first", "fifo"))
