"""Tests of paths that the system rejects: too long, a loop of links, or in a forbidden folder."""

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf import files
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED
from loopyperf.errors import LoopyperfWarning
from tests.cli.runner import run
from tests.kernels import doubled

DOUBLED = f"{Path(__file__).parents[1] / 'kernels.py'}:doubled"
OPTIONS = ("--set", "n=4096", "--device", "nvidia-v100", "--model", "roofline")


@pytest.fixture(params=["too long", "a loop", "forbidden"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Yield a path for which the system reports an error other than a missing file."""
    if request.param == "too long":
        yield tmp_path / ("x" * 300)
    elif request.param == "a loop":
        (tmp_path / "loop").symlink_to("loop")
        yield tmp_path / "loop"
    else:
        folder = Path(tempfile.mkdtemp())  # other users cannot enter pytest's temporary folder
        folder.chmod(0o777)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        (folder / "closed").mkdir(mode=0)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        yield folder / "closed" / "inside"
        if root:
            os.seteuid(0)
        (folder / "closed").chmod(0o700)
        shutil.rmtree(folder)


REFUSED: dict[str, Callable[[Path], tuple[object, ...]]] = {
    "kernel": lambda path: ("estimate", f"{path / 'k.py'}:f", *OPTIONS),
    "output": lambda path: ("report", DOUBLED, *OPTIONS[:-2], "-o", path / "page.html"),
    "fit": lambda path: ("estimate", DOUBLED, "--set", "n=4096", "--fit", path / "fit.json"),
    "description": lambda path: ("estimate", DOUBLED, *OPTIONS[:2], "--device", path / "x.toml", "--model", "roofline"),
    "archive": lambda path: ("fit", path / "archive.jsonl"),
    "archives": lambda path: ("train", path / "archive.jsonl"),
    "kernels": lambda path: ("fit", path / "archive.jsonl", "--kernels", path / "kernels"),
}


def test_inaccessible_path_gives_a_one_line_error(hostile: Path) -> None:
    for what, words in REFUSED.items():
        refused = run(*words(hostile))
        assert (refused.exit_code, refused.stdout) == (1, ""), what
        assert refused.stderr.startswith("Error: ")
        assert refused.stderr.count("\n") == 1


def test_inaccessible_user_data_gives_one_warning_and_bundled_data(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = load_description(BUNDLED / "nvidia-v100.toml")
    monkeypatch.setenv("LOOPYPERF_DATA", str(hostile))
    files._warn.cache_clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", LoopyperfWarning)
        found = lpp.estimate(doubled(), n=4096, device="nvidia-v100", model="roofline")
        assert "nvidia-v100" in lpp.devices()
    assert [each.category for each in warned] == [LoopyperfWarning]
    assert found.seconds == lpp.estimate(doubled(), n=4096, device=described, model="roofline").seconds


def test_inaccessible_cache_is_reported_as_off(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPYPERF_CACHE", str(hostile))
    shown = run("cache")
    assert shown.exit_code == 0
    assert f"off: cannot write to {hostile}: " in shown.stdout


@pytest.mark.parametrize("limit", ["9" * 5000, "1.5", "0"])
def test_invalid_cache_limit_gives_a_one_line_error(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", limit)
    refused = run("cache")
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert len(refused.stderr) < 250
