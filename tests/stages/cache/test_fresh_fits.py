"""Looking a fit up is cheap, and never answers with one that is no longer there."""

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
    """The estimate of a kernel that is launched once."""
    return float(lpp.estimate(KERNEL, n=1, device=device))


@pytest.fixture
def launch(make_fit):
    """Return what makes a fit by which a launch takes so many seconds, and all else nothing."""
    free = dict.fromkeys(lpp.count(doubled()).properties(), 0.0)
    return lambda seconds, **changes: make_fit(weights={**free, "launches": seconds}, **changes)


@pytest.fixture
def own(own_data: Path) -> Path:
    return own_data / "fits" / "made-up-1" / "linear.json"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices whose fit files were read, in order."""
    read: list[str] = []
    load_fit = library.load_fit

    def watched(path):
        read.append(Path(path).parent.name)
        return load_fit(path)

    monkeypatch.setattr(library, "load_fit", watched)
    return read


@pytest.fixture
def everything_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file pass for one that has lain there for long, and be remembered."""
    monkeypatch.setattr(library, "_SETTLING", -YESTERDAY)


@pytest.mark.usefixtures("everything_is_settled")
def test_an_unchanged_file_is_read_once(own, launch, reads):
    save_fit(launch(1e-6), own)
    assert [seconds() for _ in range(3)] == [1e-6] * 3
    assert reads == ["made-up-1"]


def test_a_file_that_has_just_changed_is_read_again(own, launch, reads):
    save_fit(launch(1e-6), own)
    assert seconds() == seconds()
    assert reads == ["made-up-1"] * 2


@pytest.mark.usefixtures("everything_is_settled")
def test_a_fit_saved_again_is_taken_at_once(own, launch):
    save_fit(launch(1e-6), own)
    first = seconds()
    save_fit(launch(2e-6), own)
    assert (first, seconds()) == (1e-6, 2e-6)


def test_states_of_a_file_that_follow_each_other_faster_than_its_clock_ticks_are_each_taken(own, launch):
    save_fit(launch(1e-6), own)
    text = own.read_text()
    for number in range(1, 10):
        own.write_text(text.replace("1e-6", f"{number}e-6"))
        assert seconds() == float(f"{number}e-6")


@pytest.mark.usefixtures("everything_is_settled")
def test_a_file_edited_in_place_is_taken_at_once(own, launch):
    save_fit(launch(1e-6), own)
    first = seconds()
    status = own.stat()
    time.sleep(0.05)  # a few ticks of the file system's clock
    own.write_text(own.read_text().replace("1e-6", "3e-6"))
    os.utime(own, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (own.stat().st_size, own.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert (first, seconds()) == (1e-6, 3e-6)


@pytest.mark.usefixtures("everything_is_settled")
def test_ones_own_fit_is_taken_as_soon_as_it_is_there_and_no_longer(own_data, launch):
    own = own_data / "fits" / "amd-r9-fury" / "linear.json"
    bundled = seconds("amd-r9-fury")
    save_fit(launch(1e-6, slug="amd-r9-fury"), own)
    calibrated = seconds("amd-r9-fury")
    own.unlink()
    assert (calibrated, seconds("amd-r9-fury")) == (1e-6, bundled)


@pytest.mark.usefixtures("everything_is_settled")
def test_another_data_folder_has_other_fits(own_data, launch, tmp_path, monkeypatch):
    for folder, length in ((own_data, 1e-6), (tmp_path / "elsewhere", 5e-6)):
        save_fit(launch(length), folder / "fits" / "made-up-1" / "linear.json")
    first = seconds()
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "elsewhere"))
    assert (first, seconds()) == (1e-6, 5e-6)


@pytest.mark.usefixtures("everything_is_settled")
def test_a_relative_path_means_the_file_in_the_present_folder(launch, tmp_path, monkeypatch):
    answers = []
    for folder, length in (("here", 1e-6), ("there", 5e-6)):
        save_fit(launch(length), tmp_path / folder / "mine.json")
        monkeypatch.chdir(tmp_path / folder)
        answers.append(float(lpp.estimate(KERNEL, n=1, fit="mine.json")))
    assert answers == [1e-6, 5e-6]
