"""Tests of ``loopyperf microbenchmark``, from a recorded archive and end to end on PoCL."""

import gzip
import json
import os
import re
from pathlib import Path
from statistics import median

import pytest
from click.testing import Result

import loopyperf as lpp
from loopyperf.measurement.microbenchmarks.measured_description import described_by
from tests.cli.runner import run

RECORDED = Path(__file__).parents[1] / "measurement" / "microbenchmarks" / "recorded" / "pocl.jsonl.gz"
"""without the probes and most strides; samples rounded to four digits"""

# PoCL reads this when its platform is first queried; `make test` sets it too.
os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")


def microbenchmark(*arguments: object) -> Result:
    return run("microbenchmark", *arguments)


def recorded_cycles(kind: str) -> float:
    """Return the cycles per instruction of one work-item: the median over grids of one to eight work-items."""
    records = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]
    times: dict[int, dict[int, float]] = {}
    for record in records[1:]:
        if record["label"] == f"{kind}, group 1":
            sizes, counted = record["sizes"], record["samples"][records[0]["protocol"]["dropped"] :]
            times.setdefault(sizes["groups"], {})[sizes["rounds"] * sizes["steps"]] = min(counted)
    each = [
        (max(steps.values()) - min(steps.values())) / (max(steps) - min(steps)) / groups
        for groups, steps in times.items()
    ]
    return median(each) * records[0]["limits"]["clock"]


def test_recorded_archive_gives_a_device_file(tmp_path: Path) -> None:
    path = tmp_path / "my-cpu.toml"
    printed = microbenchmark("--from-archive", RECORDED, "-o", path)
    assert printed.exit_code == 0
    assert re.search(rf"^wrote {path} in \d+ s; show it with: loopyperf devices show {path}$", printed.stdout, re.M)
    device = lpp.load_device(path)
    assert (device.name, device.cores, device.clock) == ("pthread-AMD EPYC", 1, 2596e6)
    assert device.limits.local_memory_per_group == 2**20
    # A CPU executes work-items one after another, so a dependent chain takes as long for each of eight work-items as
    # for a single one. The fit also includes larger groups; these times differ from it by 1 to 3 %.
    assert device.issue_latency("mul", "i32") == pytest.approx(recorded_cycles("mul i32"), rel=0.05)
    assert device.issue_latency("div", "f64") == pytest.approx(recorded_cycles("div f64"), rel=0.05)
    assert (device.level("L1").size, device.level("L2").size) == (32 * 1024, 256 * 1024)


def test_unwritable_default_folder_is_refused_before_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Everything is writable for root.
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK or tmp_path.name in str(path))
    monkeypatch.setattr("loopyperf.cli.measuring.run_microbenchmarks", pytest.fail)
    refused = microbenchmark()
    assert refused.exit_code == 1
    assert "file here: it is not writable; give a path with --output" in " ".join(refused.stderr.split())
    assert microbenchmark("--from-archive", RECORDED, "-o", tmp_path / "my-cpu.toml").exit_code == 0


def test_parameters_not_measured_are_listed_with_the_reason(tmp_path: Path) -> None:
    printed = microbenchmark("--from-archive", RECORDED, "-o", tmp_path / "my-cpu.toml")
    assert re.search(r"^not measured: barrier: .*its cost is close to 0$", printed.stderr, re.M)
    device = lpp.load_device(tmp_path / "my-cpu.toml")
    assert "barrier" not in [each.name for each in device.instructions]
    assert "a warp is one work-item" in device.note


def test_json_contains_the_path_and_the_absent_parameters(tmp_path: Path) -> None:
    path = tmp_path / "my-cpu.toml"
    output = json.loads(microbenchmark("--from-archive", RECORDED, "-o", path, "--json").stdout)
    assert (output["path"], output["device"]) == (str(path), "pocl-amd-epyc")
    assert output["absent"].keys() == {"barrier", "loop"}
    assert output["absent"]["barrier"].endswith("its cost is close to 0")


def test_options_are_passed_to_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: dict[str, object] = {}

    def measured(backend: str, **options: object) -> object:
        passed.update(options, backend=backend)
        return described_by(RECORDED)

    monkeypatch.setattr("loopyperf.cli.measuring.run_microbenchmarks", measured)
    options = ("--backend", "cuda", "--device", "V100", "--clock", 1380, "--quick", "-o", tmp_path / "v100.toml")
    assert microbenchmark(*options).exit_code == 0
    del passed["progress"]
    assert passed == {"backend": "cuda", "device": "V100", "archive": None, "clock": 1.38e9, "quick": True}


def test_source_of_every_number_describes_the_measurement(tmp_path: Path) -> None:
    microbenchmark("--from-archive", RECORDED, "-o", tmp_path / "my-cpu.toml")
    device = lpp.load_device(tmp_path / "my-cpu.toml")
    sources = {quantity.source for part in device.parts for _, quantity in part.known()}
    measured = [source for source in sources if source != "reported by the driver"]
    assert all(re.match(r"measured \d{4}-\d\d-\d\d, .*; opencl driver 3.0", source) for source in measured)
    assert len(measured) > 20


def test_given_clock_scales_all_cycles(tmp_path: Path) -> None:
    microbenchmark("--from-archive", RECORDED, "-o", tmp_path / "one.toml")
    microbenchmark("--from-archive", RECORDED, "-o", tmp_path / "two.toml", "--clock", 2 * 2596)
    one, two = (lpp.load_device(tmp_path / f"{name}.toml") for name in ("one", "two"))
    assert two.level("L1").latency == pytest.approx(2 * one.level("L1").latency, rel=1e-3)
    assert two.level("L2").sustained_bandwidth == one.level("L2").sustained_bandwidth


def test_default_file_name_is_the_device_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert microbenchmark("--from-archive", RECORDED).exit_code == 0
    assert [path.name for path in tmp_path.glob("*.toml")] == ["pocl-amd-epyc.toml"]
    assert lpp.load_device(tmp_path / "pocl-amd-epyc.toml").lanes == "in turn"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from-archive", "nowhere.jsonl"), "cannot read nowhere.jsonl: No such file or directory; pass a"),
        (("--from-archive", RECORDED, "-o", "/dev/full"), "the device file cannot be written to"),
        (("--from-archive", __file__), "is not a measurement archive|line 1"),
    ],
)
def test_bad_input_gives_a_one_line_error_and_status_1(arguments, message: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = microbenchmark(*arguments)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert re.search(f"^Error: .*({message})", refused.stderr, re.M)


@pytest.mark.parametrize("option", ["--quick", "--archive=raw.jsonl", "--device=pthread"])
def test_measurement_options_are_refused_with_an_archive(option: str) -> None:
    refused = microbenchmark("--from-archive", RECORDED, option)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--from-archive does not measure" in refused.stderr


@pytest.mark.slow
def test_microbenchmark_runs_end_to_end_on_pocl(tmp_path: Path, own_data: Path) -> None:
    path, archive = tmp_path / "measured.toml", tmp_path / "raw.jsonl"
    printed = microbenchmark("--quick", "--archive", archive, "-o", path)
    assert printed.exit_code == 0, printed.stderr
    device = lpp.load_device(path)
    # Which instructions can be measured depends on the load of the machine; the others are reported as absent.
    found = {each.name for each in device.instructions}
    reported = found | set(re.findall(r"^not measured: ([^:]+):", printed.stderr, re.M))
    assert {"fma f32", "div f64", "mul i32", "load local b32", "barrier", "loop"} <= reported
    assert device.host_wait > 0
    assert not own_data.exists()
    again = microbenchmark("--from-archive", archive, "-o", tmp_path / "again.toml")
    assert again.exit_code == 0
    assert (tmp_path / "again.toml").read_text(encoding="utf-8") == path.read_text(encoding="utf-8")
