"""Reading descriptions: what is refused, and that the refusal names the file and the field."""

from pathlib import Path

import pytest

from loopyperf.device.device_files import load_description
from loopyperf.errors import DeviceFileError

WORDS = 'schema = 1\nname = "Made Up"\nvendor = "Nobody"\narchitecture = "None"\n'
CORES = 'cores = { value = 4, unit = "cores", source = "a paper, table 1" }\n'


def described(folder: Path, text: str):
    (folder / "made-up.toml").write_text(text, encoding="utf-8")
    return load_description(folder / "made-up.toml")


def test_a_description_says_what_stands_in_it(tmp_path: Path):
    device = described(
        tmp_path,
        WORDS
        + CORES
        + 'clock = { value = 1.5, unit = "GHz", source = "a paper, table 1" }\n'
        + '[pipelines]\nsfu = { pipeline = "alu", source = "a paper" }\n'
        + '[limits]\nlocal_memory = { value = 48, unit = "KiB", source = "a paper, table 2" }\n'
        + '[memory.L1]\nper = "core"\nholds_local_memory = true\n'
        + '[memory.L2]\nper = "device"\nsize = { value = 4.5, unit = "MiB", source = "a paper, table 2" }\n',
    )
    assert (device.slug, device.name, device.vendor) == ("made-up", "Made Up", "Nobody")
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


REFUSED = {
    "no TOML": ("schema = 1\nname = \n", "is not TOML: .*line 2"),
    "no schema": (CORES, "must begin with schema = 1, got None"),
    "a schema from the future": ("schema = 2\n" + CORES, "reads schemas up to 1; upgrade: pip install"),
    "no name": ("schema = 1\n" + CORES, "made-up.toml: .*missing required field `name`"),
    "a number without source": (WORDS + number("cores", more=""), "cores .*`source`; write cores = { value"),
    "a number with an empty source": (WORDS + number("cores", more=', source = ""'), r"cores .*length >= 1.*source"),
    "a bare number": (WORDS + "cores = 4\n", "cores Expected `object`, got `int`; write cores = { value"),
    "a number that is a word": (WORDS + number("cores", '"many"'), "cores .*value"),
    "more than value, unit, source": (WORDS + number("cores", more=', source = "s", page = 3'), "cores .*`page`"),
    "an unknown number": (WORDS + number("coers"), "an unknown field 'coers'; the nearest known field is 'cores'"),
    "an unknown number of a part": (
        WORDS + "[limits]\n" + number("warp", unit="warps"),
        "limits has an unknown field 'warp'; the nearest known field is 'warps'",
    ),
    "an unknown table": (WORDS + "[limit]\n", "an unknown field 'limit'"),
    "a table that is none": (WORDS + "limits = 3\n", "limits must be a table, got 3"),
    "a unit of something else": (
        WORDS + "[memory.L2]\nper = 'device'\n" + number("bandwidth", unit="B/cycle"),
        "memory.L2.bandwidth has unit 'B/cycle'; it must be one of B/s, GB/s, TB/s",
    ),
    "a fraction of a core": (WORDS + number("cores", "1.5"), "cores must be a whole number of cores, got 1.5 cores"),
    "a negative number": (WORDS + number("cores", "-1"), "cores must be a number > 0, got -1"),
    "no cores": (WORDS + number("cores", "0"), "cores must be a number > 0, got 0"),
    "a negative time": (WORDS + number("group_start", "-1", "cycles"), "must be a number >= 0, got -1"),
    "a number beyond floats": (WORDS + number("clock", "9" * 400, "Hz"), "clock must be a number > 0, got 9+"),
    "a number beyond use": (WORDS + number("clock", "1e30", "Hz"), r"between 1e-18 and 1e\+18 Hz, got 1e\+30"),
    "a number of no float": (WORDS + number("clock", "9" * 5000, "Hz"), "is not TOML: Exceeds the limit"),
    "nesting": (WORDS + "a = " + "[" * 5000, "is not TOML: "),
    "an infinite number": (WORDS + number("clock", "inf", "Hz"), "clock must be a number > 0, got inf"),
    "no number": (WORDS + number("clock", "nan", "Hz"), "clock must be a number > 0, got nan"),
    "a memory of nobody": (WORDS + "[memory.L2]\n", "memory.L2 .*missing required field `per`"),
    "a memory of everybody": (WORDS + "[memory.L2]\nper = 'all'\n", "memory.L2 Invalid enum value 'all'"),
    "a pipeline without source": (WORDS + "[pipelines]\nsfu = { pipeline = 'alu' }\n", "`source`.*pipelines"),
}


def test_what_is_no_description_is_refused_naming_file_and_field(subtests: pytest.Subtests, tmp_path: Path):
    for name, (text, message) in REFUSED.items():
        with subtests.test(name=name):
            with pytest.raises(DeviceFileError, match=message) as refused:
                described(tmp_path, text)
            assert "made-up.toml" in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(DeviceFileError, match=r"cannot read .*nowhere.toml: No such file"):
        load_description(tmp_path / "nowhere.toml")


def test_the_scheduling_policy_is_one_that_the_simulator_has(tmp_path: Path):
    said = 'scheduling = { policy = "oldest-first", source = "a paper" }\n'
    assert described(tmp_path, WORDS + said).scheduler == "oldest-first"
    assert described(tmp_path, WORDS).scheduler == "round-robin"
    with pytest.raises(DeviceFileError, match=r"'fifo'.*scheduling"):
        described(tmp_path, WORDS + said.replace("oldest-first", "fifo"))
