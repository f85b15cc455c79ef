"""Reading of device files, and errors that name the file and the field."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.device.description import CoreLimits, Device, Throughput
from loopyperf.device.device_files import description_text, device_slug, load_description
from loopyperf.device.device_library import BUNDLED, known_descriptions, load_device, slug_of
from loopyperf.device.lambdas import bytes_per_cycle, global_levels, level_issue, level_latency, with_traffic
from loopyperf.device.parts import Quantity, Scheduling, SharedPipeline
from loopyperf.errors import DeviceFileError, MissingNumberError, UnknownDeviceError
from loopyperf.testing import check_device
from tests.kernels import doubled

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


# {{{ device files that are written and read again are equal

CATALOG = sorted(BUNDLED.glob("*.toml"))
PROCESSOR = BUNDLED.parent / "processor.toml"


def test_generic_processor_passes_check_device() -> None:
    """check_device includes the round trip through a file; test_catalog.py applies it to the catalog."""
    check_device(load_description(PROCESSOR))


def test_catalog_covers_all_kinds_of_fields() -> None:
    devices = [load_description(path) for path in [*CATALOG, PROCESSOR]]
    assert any(device.lanes == "in turn" for device in devices)
    assert any(device.pipelines for device in devices)
    assert any(device.scheduling for device in devices)
    assert any(device.register_allocation == "group" for device in devices)
    assert any(level.holds_local_memory for device in devices for level in device.memory)


def small(**changes: object) -> Device:
    device = Device(
        slug="small",
        name="Small",
        vendor="nobody",
        architecture="none",
        limits=CoreLimits(slug="small", place="limits"),
        throughput=Throughput(slug="small", place="throughput"),
    )
    return replace(device, **changes)


@pytest.mark.parametrize(
    "words", ['a "quoted" word', "back\\slash", "two\nlines\ttabbed", "λ ± 1 %", "\x7f", "[x] # y"]
)
def test_special_characters_survive_a_round_trip(words: str, tmp_path: Path) -> None:
    device = small(note=words).stating(cores=Quantity(3, "cores", words))
    file = tmp_path / "small.toml"
    file.write_text(description_text(device), encoding="utf-8")
    assert load_description(file) == device


def test_facts_are_saved_with_their_sources() -> None:
    shared, scheduling = SharedPipeline("alu", "measured by me"), Scheduling("oldest-first", "a thesis")
    text = description_text(small(pipelines=(("sfu", shared),), scheduling=scheduling))
    assert 'sfu = { pipeline = "alu", source = "measured by me" }' in text
    assert 'scheduling = { policy = "oldest-first", source = "a thesis" }' in text


# }}}


# {{{ resolution of device names and paths to device files


def test_device_is_found_by_driver_and_product_names(subtests: pytest.Subtests):
    for name, slug in [
        ("NVIDIA TITAN V", "nvidia-titan-v"),
        ("TITAN V", "nvidia-titan-v"),
        ("Tesla K40c", "nvidia-tesla-k40"),
        ("NVIDIA GeForce RTX 2070", "nvidia-rtx-2070"),
        ("Tesla V100-PCIE-16GB", "nvidia-v100"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100"),
        ("NVIDIA A100-SXM4-40GB", "nvidia-a100-40"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100"),
        ("AMD Radeon R9 Fury", "amd-r9-fury"),
        ("Tesla T4", "nvidia-t4"),
        ("NVIDIA GH200 480GB", "nvidia-gh200"),
    ]:
        with subtests.test(name=name, slug=slug):
            assert lpp.load_device(name).slug == slug


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
        for model in [None, "pipeline"]:
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


# }}}


# {{{ slugs of device names


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA TITAN V", "nvidia-titan-v"),
        ("pthread-AMD EPYC", "pocl-amd-epyc"),
        ("cpu-znver3-AMD EPYC 7B13", "pocl-znver3-amd-epyc-7b13"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "intel-xeon-cpu-2-20ghz"),
        (" Tesla K40c ", "tesla-k40c"),
        ("../../etc/passwd", "etc-passwd"),
    ],
)
def test_slug_is_a_folder_name(name, slug):
    assert slug == device_slug(name) == device_slug(slug)


# }}}


# {{{ λ and Λ of memory levels, derived by hand from device parameters

V100 = load_device("nvidia-v100")


def test_issue_latency_follows_the_bandwidth_per_core() -> None:
    # 869 GB/s for 80 cores at 1.38 GHz are 7.871 bytes per cycle and core: 256 bytes take 32.5 cycles.
    assert level_issue(V100, "DRAM", 256) == pytest.approx(256 / (869e9 / (80 * 1.38e9)))
    assert level_issue(V100, "DRAM", 256) == pytest.approx(32.52, abs=0.01)
    assert level_latency(V100, "DRAM") == 433


def test_measured_loads_replace_missing_memory_latency() -> None:
    # Lemeire, Table 5, GTX 1060: a coalesced load of 128 bytes; a load of 256 bytes takes twice as long to issue.
    device = load_device("nvidia-gtx-1060")
    (measured,) = (each for each in device.instructions if each.name == "load global b32")
    assert level_issue(device, "DRAM", 256) == 2 * measured.issue
    assert level_latency(device, "DRAM") == measured.completion


def test_device_without_memory_levels_raises() -> None:
    device = replace(V100, memory=tuple(level for level in V100.memory if level.name == "local"))
    with pytest.raises(MissingNumberError, match=r"\[memory.DRAM\]"):
        global_levels(device)


def test_unpublished_bandwidth_raises() -> None:
    with pytest.raises(MissingNumberError, match=r"'nvidia-gtx-680' lacks memory.L2"):
        level_issue(load_device("nvidia-gtx-680"), "L2", 128)


def test_measured_bandwidth_is_preferred_to_the_peak() -> None:
    assert bytes_per_cycle(V100, V100.level("DRAM")) < 897e9 / (80 * 1.38e9)
    assert bytes_per_cycle(V100, V100.level("local")) == 128


def test_bandwidth_depends_on_the_share_of_stores() -> None:
    device = load_device("nvidia-v100")  # reads 867, copies 809, writes 897 GB/s
    expected = {0: 867, 0.25: 838, 0.5: 809, 0.75: 853, 1: 897}
    for written, bandwidth in expected.items():
        found = with_traffic(device, written).level("DRAM").sustained_bandwidth
        assert found == pytest.approx(bandwidth * 1e9), written
    unmeasured = load_device("nvidia-titan-v")
    assert with_traffic(unmeasured, 0.5) is unmeasured


# }}}
