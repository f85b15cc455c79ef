"""Tests of ``loopyperf diff``: its output on a terminal, as JSON and as a page."""

import json
import re
import sys
from pathlib import Path

import pytest

import loopyperf as lpp
from tests.cli.runner import run
from tests.slow_kernels import product

FILE = """from tests.slow_kernels import product

def slow():
    return product()

def padded():
    return product(mended=True)
"""
V100 = ("--device", "nvidia-v100")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file with a slow kernel and a fixed version of it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "two_products.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_output_equals_diff_of_two_variants(file: Path):
    printed = run("diff", f"{file}:slow", f"{file}:padded", "--set", "n=512", *V100)
    expected = lpp.diff(product(), product(mended=True), n=512, device="nvidia-v100")
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert max(map(len, printed.stdout.splitlines()[1:])) <= 200
    assert " ".join(expected.why.split()) in " ".join(printed.stdout.split())
    assert re.search(r"wavefronts per load of b_fetch +8 +1", printed.stdout)


def test_json_equals_the_difference(file: Path):
    printed = run("diff", f"{file}:slow", f"{file}:padded", "--set", "n=512", *V100, "--json")
    expected = lpp.diff(product(), product(mended=True), n=512, device="nvidia-v100")
    assert json.loads(printed.stdout) == json.loads(json.dumps(expected.to_dict()))


def test_one_kernel_is_compared_at_two_sizes_and_on_two_devices(file: Path):
    sizes = run("diff", f"{file}:slow", "--set", "n=256", "--set-after", "n=512", *V100, "--json")
    assert [each["sizes"] for each in json.loads(sizes.stdout)["compared"]] == [{"n": 256}, {"n": 512}]
    devices = run("diff", f"{file}:slow", "--set", "n=256", *V100, "--device", "nvidia-a100", "--json")
    assert [each["device"] for each in json.loads(devices.stdout)["compared"]] == ["nvidia-v100", "nvidia-a100"]


def test_single_kernel_is_a_usage_error(file: Path):
    refused = run("diff", f"{file}:slow", "--set", "n=256", *V100)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "give a second FILE.py:FUNCTION, --set-after, or a second --device" in refused.stderr
