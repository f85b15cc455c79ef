"""``loopyperf calibrate`` on a device made of arithmetic: what it says of how it measured."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from small_campaign import write_kernel_files

from loopyperf.cli.program import program
from loopyperf.measurement import backends


@pytest.fixture(autouse=True)
def synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``--backend synthetic`` open it."""
    monkeypatch.setattr(backends, "BACKENDS", {"synthetic": ("small_campaign", "device")})


def calibrate(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(program, ["calibrate", "--backend", "synthetic", "--kernels", str(folder), *options])


def test_calibrate_says_by_which_protocol_and_how_well_times_repeat(tmp_path: Path):
    folder = write_kernel_files(tmp_path / "kernels")
    printed = calibrate(folder)
    assert "at most 30 runs, the first 4 dropped, warm caches, order of seed 0; noise floor 0.0%: so" in printed.stdout


def test_calibrate_with_cold_caches_needs_a_backend_that_empties_them(tmp_path: Path):
    folder = write_kernel_files(tmp_path / "kernels")
    refused = calibrate(folder, "--caches", "cold")
    assert refused.exit_code == 2
    assert "cannot empty the caches" in refused.stderr
