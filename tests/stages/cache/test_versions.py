"""Cached results are used only with the same versions and the same source."""

import os
from pathlib import Path

import loopy as lp
import pytest

import loopyperf as lpp
from loopyperf.stages import cache as cache_files


def test_versions_include_all_dependencies(monkeypatch):
    monkeypatch.setattr(cache_files, "_source", lambda package: f"the source of {package.name}")
    versions = cache_files._versions.__wrapped__()
    names = (
        "loopyperf 0",
        "loopy 20",
        "islpy",
        "cgen",
        "pymbolic",
        "numpy",
        "scipy",
        "scikit-learn",
        "Python 3.",
    )
    sources = [f"the source of {Path(package.__file__).parent.name}" for package in (lpp, lp)]
    assert all(name in versions for name in (*names, *sources))


SOURCES = ("kernel/kernel.py", "device/catalog/mine.toml", "pipeline/core.c")


def package_of_old_files(folder: Path) -> Path:
    """Return a package whose files were written a minute before this process started."""
    for name in SOURCES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"it = {name!r}")
        os.utime(folder / name, (cache_files.LOADED - 60,) * 2)
    return folder


@pytest.mark.parametrize("changed", SOURCES)
def test_changed_source_is_another_version(changed, tmp_path):
    before = cache_files._source(package_of_old_files(tmp_path))
    assert cache_files._source(tmp_path) == before
    (tmp_path / changed).write_text("it = 0")
    os.utime(tmp_path / changed, (cache_files.LOADED - 60,) * 2)
    assert cache_files._source(tmp_path) not in (before, "")


def test_source_changed_after_it_was_loaded_is_specific_to_the_process(tmp_path, monkeypatch):
    """The process runs the old code, so processes that load the changed files must not use its results."""
    before = cache_files._source(package_of_old_files(tmp_path))
    os.utime(tmp_path / SOURCES[0], (cache_files.LOADED + 60,) * 2)
    edited = cache_files._source(tmp_path)
    assert edited != before
    monkeypatch.setattr(os, "getpid", lambda: 0)
    assert cache_files._source(tmp_path) != edited
    monkeypatch.setattr(cache_files, "LOADED", cache_files.LOADED + 120)
    assert cache_files._source(tmp_path) == before
