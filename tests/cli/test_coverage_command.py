"""Tests of ``loopyperf coverage``, and of the gaps that ``loopyperf calibrate`` prints."""

import json
import re
from pathlib import Path

import pytest

from loopyperf.measurement import backends
from tests.cli.runner import run
from tests.small_campaign import write_kernel_files


@pytest.fixture
def synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the backend ``synthetic``."""
    monkeypatch.setattr(backends, "BACKENDS", {"synthetic": ("tests.small_campaign", "device")})


@pytest.mark.usefixtures("synthetic")
def test_calibrate_prints_gaps_and_the_whole_table_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "400")
    fit = tmp_path / "fit.json"
    folder = write_kernel_files(tmp_path / "kernels")
    calibrated = run("calibrate", "--backend", "synthetic", "--kernels", folder, "--output", fit)
    # 7 of the paper's 154 properties occur: additions, multiplications, 32-bit accesses of stride 1, overheads
    assert "in no kernel: barriers, f32 div, f32 pow, " in calibrated.stdout
    assert "and 135 more" in calibrated.stdout
    assert re.search(r"^f32 add: only 2 of the kernels have it$", calibrated.stdout, re.MULTILINE)
    assert "global load 32-bit stride 1:" not in calibrated.stdout
    assert "local store 64-bit" not in calibrated.stdout
    # two "sum" kernels at three sizes each, with 2 additions for each of 2^14 to 2^19 elements
    whole = run("calibrate", "--backend", "synthetic", "--kernels", folder, "--output", fit, "--coverage").stdout
    assert re.search(r" +f32 add +2 +3.3e\+04 to 1e\+06 +[\d.]+ +long vectors, vectors", whole)


def test_coverage_of_kernels_needs_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    folder = write_kernel_files(tmp_path / "kernels", "vectors")
    printed = run("coverage", "--group-size", "256", "--kernels", folder)
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert re.search(r" +global store 32-bit stride 1 +5 +1.6e\+04 to 6.6e\+04 +vectors", printed.stdout)


def test_json_has_a_row_for_each_property_with_its_gap(tmp_path: Path):
    folder = write_kernel_files(tmp_path / "kernels", "vectors")
    rows = json.loads(run("coverage", "--group-size", 256, "--kernels", folder, "--json").stdout)
    by_name = {row.pop("name"): row for row in rows}
    # "sum" has 2 additions for each of 2^14, 2^15 and 2^16 elements
    assert by_name["f32 add"] == {
        "classes": ["vectors"],
        "configurations": 1,
        "least": 2**15,
        "most": 2**17,
        "inflation": None,
        "resembles": [],
        "gap": "only 1 of the kernels has it",
    }
    assert by_name["f32 div"] == {
        "classes": [],
        "configurations": 0,
        "least": 0,
        "most": 0,
        "inflation": None,
        "resembles": [],
        "gap": "no kernel has it",
    }
