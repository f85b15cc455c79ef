"""Paths that the system refuses: a name too long, a loop of links, a folder that may not be read; one line each."""

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
from tests.cli.invoked import run
from tests.kernels import doubled

DOUBLED = f"{Path(__file__).parents[1] / 'kernels.py'}:doubled"
ASKED = ("--set", "n=4096", "--device", "nvidia-v100", "--model", "roofline")


@pytest.fixture(params=["too long", "a loop", "forbidden"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Yield a path that the system says something else of than that nothing is there."""
    if request.param == "too long":
        yield tmp_path / ("x" * 300)
    elif request.param == "a loop":
        (tmp_path / "loop").symlink_to("loop")
        yield tmp_path / "loop"
    else:
        folder = Path(tempfile.mkdtemp())  # that of pytest is forbidden itself to whom root becomes
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
    "kernel": lambda path: ("estimate", f"{path / 'k.py'}:f", *ASKED),
    "output": lambda path: ("report", DOUBLED, *ASKED[:-2], "-o", path / "page.html"),
    "fit": lambda path: ("estimate", DOUBLED, "--set", "n=4096", "--fit", path / "fit.json"),
    "description": lambda path: ("estimate", DOUBLED, *ASKED[:2], "--device", path / "x.toml", "--model", "roofline"),
    "archive": lambda path: ("fit", path / "archive.jsonl"),
    "archives": lambda path: ("train", path / "archive.jsonl"),
    "kernels": lambda path: ("coverage", "--kernels", path / "kernels", "--group-size", 256),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_named_and_cannot_be_looked_at_is_refused_in_one_line(what: str, hostile: Path) -> None:
    refused = run(*REFUSED[what](hostile))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: ")
    assert refused.stderr.count("\n") == 1


def test_data_of_ones_own_that_cannot_be_read_are_warned_of_once_and_the_bundled_ones_answer(
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


def test_a_cache_that_cannot_be_looked_at_is_said_to_be_off(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPYPERF_CACHE", str(hostile))
    shown = run("cache")
    assert shown.exit_code == 0
    assert f"off: cannot write to {hostile}: " in shown.stdout


@pytest.mark.parametrize("limit", ["9" * 5000, "9" * 19, "-1", "1.5", "0", "ten"])
def test_a_senseless_limit_of_the_cache_is_refused_in_one_line(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", limit)
    refused = run("cache")
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert len(refused.stderr) < 250
