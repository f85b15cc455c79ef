"""Tests of ``loopyperf cache``: the files that it counts, and those that it removes."""

from pathlib import Path

import loopy as lp
import platformdirs
import pytest
from click.testing import Result

import loopyperf as lpp
from loopyperf.stages import cache as cache_files
from loopyperf.stages.cache import entries
from tests.cli.runner import run
from tests.kernels import doubled


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache folder of a user; it does not exist yet."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, *_: str(tmp_path / name))
    monkeypatch.delenv("LOOPYPERF_CACHE")
    return tmp_path / "loopyperf" / "analyses"


def cache(*arguments: str) -> Result:
    return run("cache", *arguments)


def fill(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cache two kernels, one from another version, and an incomplete file; return a file that is not ours."""
    lpp.count(doubled(group=16))
    with monkeypatch.context() as patch:
        patch.setattr(cache_files, "_versions", lambda: "others")
        lpp.count(doubled(group=32))
    (folder / ".writing-01234567").write_bytes(b"half")
    other = folder / "notes.txt"
    other.write_text("not ours")
    return other


def test_cache_is_off_if_the_folder_is_a_file(tmp_path, monkeypatch):
    file = tmp_path / "a file"
    file.write_text("not ours")
    monkeypatch.setenv("LOOPYPERF_CACHE", str(file))
    assert cache().stdout.splitlines()[1] == (
        f"off: cannot write to {file}: it is not a folder; LOOPYPERF_CACHE=FOLDER sets another folder"
    )


def test_missing_folder_is_on_and_empty(folder):
    lines = cache().stdout.splitlines()
    assert lines[0] == f"folder: {folder}"
    assert lines[1] == "on: LOOPYPERF_CACHE=0 turns it off, LOOPYPERF_CACHE=FOLDER sets another folder"
    assert lines[2] == "limit: 268,435,456 bytes; LOOPYPERF_CACHE_LIMIT=NUMBER sets another limit"
    assert lines[3:] == ["entries: 0 files, 0 bytes"]
    assert not folder.exists()


def test_files_are_counted_with_those_of_other_versions_and_incomplete_ones(folder, monkeypatch):
    fill(folder, monkeypatch)
    sizes = [each.nbytes for each in entries(folder)]
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", "1000000")
    lines = cache().stdout.splitlines()
    assert lines[2].startswith("limit: 1,000,000 bytes")
    assert lines[3:] == [f"entries: 3 files, {sum(sizes):,} bytes"]


def test_clear_removes_only_files_of_the_cache(folder, monkeypatch):
    other = fill(folder, monkeypatch)
    cleared = cache("--clear")
    assert (cleared.exit_code, cleared.stdout.splitlines()[1][:16]) == (0, "removed: 3 files")
    assert list(folder.iterdir()) == [other]


def test_clear_works_while_the_cache_is_off(folder, monkeypatch):
    fill(folder, monkeypatch)
    monkeypatch.setenv("LOOPYPERF_CACHE", "0")
    lines = cache().stdout.splitlines()
    assert lines[1] == "off: LOOPYPERF_CACHE=0; unset LOOPYPERF_CACHE to turn the cache on"
    assert lines[3].startswith("entries: 3 files, ")
    cache("--clear")
    assert entries(folder) == ()


def test_loopyperf_cache_variable_sets_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_CACHE", str(tmp_path / "elsewhere"))
    lpp.count(doubled())
    lines = cache().stdout.splitlines()
    assert lines[0] == f"folder: {tmp_path / 'elsewhere'}"
    assert lines[3].startswith("entries: 1 file, ")


def test_cache_is_off_without_a_home_folder(monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, *_: f"~/.cache/{name}")
    assert cache().stdout.splitlines()[1] == "off: no home folder"


def test_loopy_no_cache_is_reported(monkeypatch):
    with lp.CacheMode(False):
        assert "off: LOOPY_NO_CACHE turns off" in cache().stdout


def test_files_that_cannot_be_removed_give_status_1(folder, monkeypatch):
    fill(folder, monkeypatch)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "unlink", refuse)
    refused = cache("--clear")
    assert refused.exit_code == 1
    assert "cannot be removed: 3 files" in refused.stdout
