"""What is found in files was found by the same versions and the same source."""

import os
from pathlib import Path

import loopy as lp
import pytest

import loopyperf as lpp
from loopyperf.stages import cache as cache_files


def test_versions_name_all_that_is_depended_on(monkeypatch):
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


def test_a_package_that_is_not_installed_is_a_version_too():
    assert cache_files._installed("loopyperf-of-nobody") == "none"


SOURCES = ("kernel/kernel.py", "device/catalog/mine.toml", "pipeline/core.c")


def written_before(folder: Path) -> Path:
    """Return a package whose files are a minute old."""
    for name in SOURCES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"it = {name!r}")
        os.utime(folder / name, (cache_files.LOADED - 60,) * 2)
    return folder


@pytest.mark.parametrize("changed", SOURCES)
def test_source_that_was_changed_is_another_version(changed, tmp_path):
    before = cache_files._source(written_before(tmp_path))
    assert cache_files._source(tmp_path) == before
    (tmp_path / changed).write_text("it = 0")
    os.utime(tmp_path / changed, (cache_files.LOADED - 60,) * 2)
    assert cache_files._source(tmp_path) not in (before, "")


def test_source_that_was_changed_since_it_was_loaded_is_of_this_process_alone(tmp_path, monkeypatch):
    """It runs with what the files said before: nobody who reads the new ones is to find what it computes."""
    before = cache_files._source(written_before(tmp_path))
    os.utime(tmp_path / SOURCES[0], (cache_files.LOADED + 60,) * 2)
    edited = cache_files._source(tmp_path)
    assert edited != before
    monkeypatch.setattr(os, "getpid", lambda: 0)
    assert cache_files._source(tmp_path) != edited
    monkeypatch.setattr(cache_files, "LOADED", cache_files.LOADED + 120)
    assert cache_files._source(tmp_path) == before
