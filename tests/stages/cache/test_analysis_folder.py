"""The folder of counted kernels holds no more than it may, whoever writes there, and nothing of others is touched."""

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
from loopyperf.stages import cache as recent
from loopyperf.stages import case
from loopyperf.stages.cache import BLOCK, FILLED, LEFT_OVER, LOOKS, entries, make_room, remove, trim
from tests.kernels import doubled

TESTS = Path(__file__).parents[2]
FOREIGN = ("notes.txt", "a.json", ".writing-by-hand.txt", f"{'0' * 63}.txt", f"{'0' * 64}.txt.bak", f"{'g' * 64}.txt")
"""files of others that are named a little like ours"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that files are asked for in, with what others have put there."""
    folder = tmp_path / "counted"
    folder.mkdir()
    for name in FOREIGN:
        (folder / name).write_text("not ours")
    (folder / ("0" * 64 + ".txt.d")).mkdir()
    monkeypatch.setenv("LOOPYPERF_CACHE", str(folder))
    return folder


def filed(folder: Path, number: int, nbytes: int = 100, used: float = 0.0) -> Path:
    """Return a file of so many bytes that was used so many seconds after the epoch."""
    path = folder / f"{hashlib.sha256(str(number).encode()).hexdigest()}-{'0' * 16}.txt"
    path.write_bytes(b"x" * nbytes)
    os.utime(path, (used, used))
    return path


def half_written(folder: Path, name: str, age: float) -> Path:
    path = folder / name
    path.write_text("half")
    os.utime(path, (time.time() - age,) * 2)
    return path


def held(folder: Path) -> int:
    return sum(each.nbytes for each in entries(folder))


def everything_else_is_there(folder: Path) -> bool:
    return all((folder / name).exists() for name in (*FOREIGN, "0" * 64 + ".txt.d"))


# {{{ what goes


def test_those_that_were_used_longest_ago_go_first(folder):
    paths = [filed(folder, number, used=1e9 + number) for number in range(10)]
    cache_folder.use(paths[0])
    trim(folder, limit=4 * BLOCK)  # of which three are filled
    assert [path.exists() for path in paths] == [True] + 7 * [False] + 2 * [True]
    assert everything_else_is_there(folder)


def test_nothing_goes_while_there_is_room(folder):
    paths = [filed(folder, number) for number in range(3)]
    trim(folder, limit=4 * BLOCK)
    assert all(path.exists() for path in paths)


def test_a_file_larger_than_the_limit_does_not_stay(folder):
    path = filed(folder, 1, nbytes=4 * BLOCK)
    make_room(path, 4 * BLOCK, limit=4 * BLOCK)
    assert not path.exists()


def test_what_was_left_half_written_goes_once_nobody_can_be_writing_it(folder):
    old = half_written(folder, ".writing-abcd_012", age=LEFT_OVER + 60)
    young = half_written(folder, ".writing-abcd_013", age=0)
    trim(folder, limit=4 * BLOCK)
    assert (old.exists(), young.exists()) == (False, True)
    assert everything_else_is_there(folder)


def looks(folder: Path, nbytes: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return how often the folder is looked through while as many bytes are written as it may hold."""
    seen: list[Path] = []
    monkeypatch.setattr(cache_folder, "trim", lambda folder, limit: seen.append(folder))
    number = 20 * limit // cache_folder.on_disk(nbytes)
    for each in range(number):
        make_room(folder / f"{hashlib.sha256(f'{nbytes} {each}'.encode()).hexdigest()}.txt", nbytes, limit)
    return len(seen) / 20


@pytest.mark.parametrize("blocks", [1, 10])
def test_looks_are_rare_and_as_many_however_large_files_are(blocks, folder, monkeypatch):
    # A sum of independent events, 20·64 in the mean: σ is at most √(20·64)/20 = 1.8.
    assert looks(folder, blocks * BLOCK - 1, 1000 * BLOCK, monkeypatch) == pytest.approx(LOOKS, abs=4 * 1.8)


def test_a_folder_of_a_few_files_is_looked_through_each_time(folder, monkeypatch):
    assert looks(folder, 50 * BLOCK - 1, 1000 * BLOCK, monkeypatch) == 20


def test_small_files_count_as_the_blocks_of_disk_that_they_take(folder):
    # 60,000 files of a byte are not 60,000 bytes, and a folder of so many is no small one.
    sizes = {1: BLOCK, BLOCK - 1: BLOCK, BLOCK: 2 * BLOCK, 3 * BLOCK + 7: 4 * BLOCK}
    for nbytes, taken in sizes.items():
        path = filed(folder, nbytes, nbytes)
        assert held(folder) == taken
        path.unlink()


# }}}


# {{{ others are at work in the same folder


def test_a_file_that_vanishes_before_it_is_looked_at_is_none(folder):
    path = filed(folder, 1)
    with os.scandir(folder) as found:
        listed = list(found)
    path.unlink()
    assert list(cache_folder._ours(listed)) == []


def test_a_file_that_another_removes_first_is_gone_all_the_same(folder):
    found = [*entries(folder)]
    filed(folder, 1)
    (entry,) = entries(folder)
    entry.path.unlink()
    assert remove([*found, entry]) == ()


def test_what_may_not_be_removed_stays_and_others_go_in_its_place(folder, monkeypatch):
    paths = [filed(folder, number, used=1e9 + number) for number in range(5)]
    unlink = Path.unlink

    def unless_it_is_anothers(path: Path, missing_ok: bool = False) -> None:
        if path == paths[0]:
            raise PermissionError(1, "Operation not permitted")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unless_it_is_anothers)
    trim(folder, limit=4 * BLOCK)
    assert [path.exists() for path in paths] == [True, False, False, True, True]


def test_a_file_that_vanishes_under_its_reader_is_a_miss(folder, monkeypatch):
    counted = str(lpp.count(doubled()))
    recent.clear_memory()
    read_bytes = Path.read_bytes

    def too_late(path: Path) -> bytes:
        path.unlink()
        return read_bytes(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", too_late)
        assert str(lpp.count(doubled())) == counted
    assert len(entries(folder)) == 1


def test_a_file_that_vanishes_once_it_is_read_is_a_hit(folder, monkeypatch):
    counted = str(lpp.count(doubled()))
    recent.clear_memory()
    read_bytes = Path.read_bytes

    def then_it_goes(path: Path) -> bytes:
        data = read_bytes(path)
        path.unlink()
        return data

    monkeypatch.setattr(Path, "read_bytes", then_it_goes)
    monkeypatch.setattr(case, "load_kernel", lambda program: pytest.fail("counted anew"))
    assert str(lpp.count(doubled())) == counted


def test_a_folder_that_can_only_be_read_is_read(folder, monkeypatch):
    counted = str(lpp.count(doubled()))
    recent.clear_memory()

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(case, "load_kernel", lambda program: pytest.fail("counted anew"))
    assert str(lpp.count(doubled())) == counted


COUNT = """
import sys, warnings; warnings.simplefilter("ignore")
import loopyperf as lpp
from tests.kernels import doubled
from loopyperf.stages import cache as recent
for group in [int(word) for word in sys.argv[1:]]:
    recent.clear_memory()
    print(lpp.count(doubled(group=group)).properties()["work-groups"](n=5040))
"""
GROUPS = [group for group in range(1, 25) if 5040 % group == 0] * 4


def test_processes_at_once_that_write_more_than_the_limit_keep_it_and_read_nothing_wrong(folder):
    lpp.count(doubled(group=1))
    limit = 4 * held(folder)
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    surroundings = os.environ | {"PYTHONPATH": paths, "LOOPYPERF_CACHE_LIMIT": str(limit)}
    command = [sys.executable, "-c", COUNT]
    orders = [GROUPS[place:] + GROUPS[:place] for place in (0, 5, 10)]
    processes = [
        subprocess.Popen([*command, *map(str, order)], env=surroundings, stdout=subprocess.PIPE, text=True)
        for order in orders
    ]
    most = 0
    while any(process.poll() is None for process in processes):
        most = max(most, held(folder))
        time.sleep(0.01)
    answers = [[int(line) for line in process.communicate()[0].split()] for process in processes]
    assert answers == [[5040 // group for group in order] for order in orders]
    # Each may have written a file since it looked: three more than what a look leaves.
    assert 0 < most <= FILLED * limit + 3 * limit / 4 * 1.05
    assert 0 < held(folder) <= limit
    assert all(each.is_whole for each in entries(folder))
    assert everything_else_is_there(folder)


# }}}


# {{{ the limit


def test_the_limit_is_stated_or_a_quarter_of_a_gibibyte(monkeypatch):
    monkeypatch.delenv("LOOPYPERF_CACHE_LIMIT", raising=False)
    assert cache_files.cache_limit() == 2**28
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", " 5000 ")
    assert cache_files.cache_limit() == 5000


@pytest.mark.parametrize("limit", ["0", "-1", "1e9", "2G", "many"])
def test_a_limit_that_is_no_number_of_bytes_is_refused(limit, folder, monkeypatch):
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", limit)
    with pytest.raises(ParameterError, match=r"LOOPYPERF_CACHE_LIMIT must be a positive number of bytes.*got"):
        lpp.count(doubled())


def test_what_is_counted_keeps_the_limit(folder, monkeypatch):
    lpp.count(doubled(group=1))
    limit = 3 * held(folder)
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", str(limit))
    for power in range(1, 8):
        lpp.count(doubled(group=2**power))
        assert held(folder) <= FILLED * limit
    assert entries(folder)


# }}}
