"""Lookups of fits are cached, but never return a fit that has changed or is gone."""

import os
import time
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.calibration import fit_library as library
from loopyperf.calibration.fits import save_fit
from tests.kernels import doubled

KERNEL = doubled()
YESTERDAY = 86_400 * 10**9


def seconds(device: str = "made-up-1") -> float:
    """Return the estimate of a kernel that is launched once."""
    return float(lpp.estimate(KERNEL, n=1, device=device))


@pytest.fixture
def launch(make_fit):
    """Return a function that makes a fit in which a launch takes the given seconds and all else is free."""
    free = dict.fromkeys(lpp.count(doubled()).properties(), 0.0)
    return lambda seconds, **changes: make_fit(weights={**free, "launches": seconds}, **changes)


@pytest.fixture
def own(own_data: Path) -> Path:
    return own_data / "fits" / "made-up-1" / "linear.json"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the devices whose fit files were read, in order."""
    read: list[str] = []
    load_fit = library.load_fit

    def recording(path):
        read.append(Path(path).parent.name)
        return load_fit(path)

    monkeypatch.setattr(library, "load_fit", recording)
    return read


def test_unchanged_file_is_read_once(own, launch, reads):
    save_fit(launch(1e-6), own)
    assert [seconds() for _ in range(3)] == [1e-6] * 3
    assert reads == ["made-up-1"]


def test_fit_saved_again_is_used_at_once(own, launch):
    save_fit(launch(1e-6), own)
    first = seconds()
    save_fit(launch(2e-6), own)
    assert (first, seconds()) == (1e-6, 2e-6)


def test_file_changes_within_one_clock_tick_are_all_used(own, launch):
    save_fit(launch(1e-6), own)
    text = own.read_text()
    for number in range(1, 10):
        own.write_text(text.replace("1e-6", f"{number}e-6"))
        assert seconds() == float(f"{number}e-6")


def test_file_edited_in_place_is_used_at_once(own, launch):
    save_fit(launch(1e-6), own)
    first = seconds()
    status = own.stat()
    time.sleep(0.05)  # a few ticks of the file system's clock
    own.write_text(own.read_text().replace("1e-6", "3e-6"))
    os.utime(own, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (own.stat().st_size, own.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert (first, seconds()) == (1e-6, 3e-6)


def test_user_fit_replaces_the_bundled_one_while_it_exists(own_data, launch):
    own = own_data / "fits" / "amd-r9-fury" / "linear.json"
    bundled = seconds("amd-r9-fury")
    save_fit(launch(1e-6, slug="amd-r9-fury"), own)
    calibrated = seconds("amd-r9-fury")
    own.unlink()
    assert (calibrated, seconds("amd-r9-fury")) == (1e-6, bundled)


def test_another_data_folder_has_other_fits(own_data, launch, tmp_path, monkeypatch):
    for folder, length in ((own_data, 1e-6), (tmp_path / "elsewhere", 5e-6)):
        save_fit(launch(length), folder / "fits" / "made-up-1" / "linear.json")
    first = seconds()
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "elsewhere"))
    assert (first, seconds()) == (1e-6, 5e-6)


def test_relative_path_refers_to_the_current_folder(launch, tmp_path, monkeypatch):
    answers = []
    for folder, length in (("here", 1e-6), ("there", 5e-6)):
        save_fit(launch(length), tmp_path / folder / "mine.json")
        monkeypatch.chdir(tmp_path / folder)
        answers.append(float(lpp.estimate(KERNEL, n=1, fit="mine.json")))
    assert answers == [1e-6, 5e-6]
