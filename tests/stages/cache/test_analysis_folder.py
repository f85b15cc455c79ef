"""The cache folder keeps its size limit, also with concurrent writers, and leaves foreign files alone."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.stages import cache as cache_files
from loopyperf.stages import cache as cache_folder
from loopyperf.stages import case
from loopyperf.stages.cache import ABANDONED_SECONDS, BLOCK, CACHE, KEPT_SHARE, entries, make_room, trim
from tests.kernels import doubled

TESTS = Path(__file__).parents[2]
FOREIGN = ("notes.txt", "a.json", ".writing-by-hand.txt", f"{'0' * 63}.txt", f"{'0' * 64}.txt.bak", f"{'g' * 64}.txt")
"""foreign files with names similar to those of cache files"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache folder, with foreign files in it."""
    folder = tmp_path / "counted"
    folder.mkdir()
    for name in FOREIGN:
        (folder / name).write_text("not ours")
    (folder / ("0" * 64 + ".txt.d")).mkdir()
    monkeypatch.setenv("LOOPYPERF_CACHE", str(folder))
    return folder


def cache_file(folder: Path, number: int, nbytes: int = 100, used: float = 0.0) -> Path:
    """Create a file of *nbytes* bytes that was last used *used* seconds after the epoch."""
    path = folder / f"{hashlib.sha256(str(number).encode()).hexdigest()}-{'0' * 16}.txt"
    path.write_bytes(b"x" * nbytes)
    os.utime(path, (used, used))
    return path


def half_written(folder: Path, name: str, age: float) -> Path:
    path = folder / name
    path.write_text("half")
    os.utime(path, (time.time() - age,) * 2)
    return path


def total_bytes(folder: Path) -> int:
    return sum(each.nbytes for each in entries(folder))


def foreign_files_exist(folder: Path) -> bool:
    return all((folder / name).exists() for name in (*FOREIGN, "0" * 64 + ".txt.d"))


# {{{ removal


def test_least_recently_used_files_are_removed_first(folder):
    paths = [cache_file(folder, number, used=1e9 + number) for number in range(10)]
    cache_folder.use(paths[0])
    trim(folder, limit=4 * BLOCK)  # three of these four may remain
    assert [path.exists() for path in paths] == [True] + 7 * [False] + 2 * [True]
    assert foreign_files_exist(folder)


def test_file_larger_than_the_limit_is_removed(folder):
    path = cache_file(folder, 1, nbytes=4 * BLOCK)
    make_room(path, 4 * BLOCK, limit=4 * BLOCK)
    assert not path.exists()


def test_old_partially_written_files_are_removed(folder):
    old = half_written(folder, ".writing-abcd_012", age=ABANDONED_SECONDS + 60)
    young = half_written(folder, ".writing-abcd_013", age=0)
    trim(folder, limit=4 * BLOCK)
    assert (old.exists(), young.exists()) == (False, True)
    assert foreign_files_exist(folder)


def test_sizes_of_files_are_rounded_up_to_disk_blocks(folder):
    # 60,000 files of one byte occupy more than 60,000 bytes.
    sizes = {1: BLOCK, BLOCK - 1: BLOCK, BLOCK: 2 * BLOCK, 3 * BLOCK + 7: 4 * BLOCK}
    for nbytes, occupied in sizes.items():
        path = cache_file(folder, nbytes, nbytes)
        assert total_bytes(folder) == occupied
        path.unlink()


# }}}


# {{{ concurrent changes to the folder


def test_other_files_are_removed_in_place_of_one_that_cannot_be(folder, monkeypatch):
    paths = [cache_file(folder, number, used=1e9 + number) for number in range(5)]
    unlink = Path.unlink

    def refuse_the_first(path: Path, missing_ok: bool = False) -> None:
        if path == paths[0]:
            raise PermissionError(1, "Operation not permitted")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse_the_first)
    trim(folder, limit=4 * BLOCK)
    assert [path.exists() for path in paths] == [True, False, False, True, True]


def test_file_that_vanishes_before_it_is_read_is_a_miss(folder, monkeypatch):
    counted = str(lpp.count(doubled()))
    CACHE.clear()
    read_bytes = Path.read_bytes

    def remove_and_read(path: Path) -> bytes:
        path.unlink()
        return read_bytes(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", remove_and_read)
        assert str(lpp.count(doubled())) == counted
    assert len(entries(folder)) == 1


def test_file_that_vanishes_after_it_is_read_is_a_hit(folder, monkeypatch):
    counted = str(lpp.count(doubled()))
    CACHE.clear()
    read_bytes = Path.read_bytes

    def read_and_remove(path: Path) -> bytes:
        data = read_bytes(path)
        path.unlink()
        return data

    monkeypatch.setattr(Path, "read_bytes", read_and_remove)
    monkeypatch.setattr(case, "load_kernel", lambda program: pytest.fail("counted anew"))
    assert str(lpp.count(doubled())) == counted


def test_folder_without_write_permission_is_read(folder, monkeypatch):
    counted = str(lpp.count(doubled()))
    CACHE.clear()

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(case, "load_kernel", lambda program: pytest.fail("counted anew"))
    assert str(lpp.count(doubled())) == counted


COUNT = """
import sys, warnings; warnings.simplefilter("ignore")
import loopyperf as lpp
from tests.kernels import doubled
from loopyperf.stages.cache import CACHE
for group in [int(word) for word in sys.argv[1:]]:
    CACHE.clear()
    print(lpp.count(doubled(group=group)).properties()["work-groups"](n=5040))
"""
GROUPS = [group for group in range(1, 25) if 5040 % group == 0] * 4


@pytest.mark.slow
def test_concurrent_processes_keep_the_limit_and_read_correct_counts(folder):
    lpp.count(doubled(group=1))
    limit = 4 * total_bytes(folder)
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment = os.environ | {"PYTHONPATH": paths, "LOOPYPERF_CACHE_LIMIT": str(limit)}
    command = [sys.executable, "-c", COUNT]
    orders = [GROUPS[place:] + GROUPS[:place] for place in (0, 5, 10)]
    processes = [
        subprocess.Popen([*command, *map(str, order)], env=environment, stdout=subprocess.PIPE, text=True)
        for order in orders
    ]
    peak = 0
    while any(process.poll() is None for process in processes):
        peak = max(peak, total_bytes(folder))
        time.sleep(0.01)
    answers = [[int(line) for line in process.communicate()[0].split()] for process in processes]
    assert answers == [[5040 // group for group in order] for order in orders]
    # Each process may have written one file since its last scan, so there are up to three more than a scan leaves.
    assert 0 < peak <= KEPT_SHARE * limit + 3 * limit / 4 * 1.05
    assert 0 < total_bytes(folder) <= limit
    assert all(each.is_whole for each in entries(folder))
    assert foreign_files_exist(folder)


# }}}


# {{{ the limit


def test_limit_is_set_by_the_environment_or_256_mib(monkeypatch):
    monkeypatch.delenv("LOOPYPERF_CACHE_LIMIT", raising=False)
    assert cache_files.cache_limit() == 2**28
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", " 5000 ")
    assert cache_files.cache_limit() == 5000


@pytest.mark.parametrize("limit", ["0", "-1", "1e9", "2G", "many"])
def test_invalid_limit_is_refused(limit, folder, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", limit)
    with pytest.raises(ParameterError, match=r"LOOPYPERF_CACHE_LIMIT must be a positive number of bytes.*got"):
        lpp.count(doubled())


def test_counting_keeps_the_limit(folder, monkeypatch):
    lpp.count(doubled(group=1))
    limit = 3 * total_bytes(folder)
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", str(limit))
    for power in range(1, 8):
        lpp.count(doubled(group=2**power))
        assert total_bytes(folder) <= KEPT_SHARE * limit
    assert entries(folder)


# }}}
