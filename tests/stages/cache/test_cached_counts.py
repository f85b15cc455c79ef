"""Equal programs are counted once in a process, and with files once across processes."""

import errno
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
import platformdirs
import pytest

import loopyperf as lpp
from loopyperf.errors import LoopyperfWarning, ParameterError
from loopyperf.stages import cache as cache_files
from loopyperf.stages import case, counting
from loopyperf.stages.cache import CACHE
from tests.kernels import doubled, outer_product

TESTS = Path(__file__).parents[2]


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list with one entry for each program preprocessed by Loopy so far, which each analysis does once."""
    seen: list[str] = []
    monkeypatch.setattr(case, "PREPARED", replace(case.PREPARED, kept=0))
    load_kernel = case.load_kernel
    monkeypatch.setattr(case, "load_kernel", lambda program: seen.append("x") or load_kernel(program))
    return seen


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


# {{{ in memory


def test_equal_programs_are_preprocessed_and_counted_once(prepared):
    first, second = lpp.count(doubled()), lpp.count(doubled())
    assert first is second
    assert len(prepared) == 1


def test_different_programs_are_counted_separately(prepared):
    others = [doubled(), doubled(group=32), doubled(size="m"), lp.rename_iname(doubled(), "i_inner", "lane")]
    others += [lp.assume(doubled(), "n >= 2"), doubled().default_entrypoint]
    assert len({id(lpp.count(other)) for other in others}) == len(others) == len(prepared)


def test_different_options_are_counted_separately(prepared):
    ways = [{}, {"counting": "paper"}, {"sub_group_size": 32}, {"sub_group_size": 16}]
    counts = [lpp.count(doubled(), **options) for options in ways]
    assert len({id(counted) for counted in counts}) == len(ways)
    assert [lpp.count(doubled(), **options) for options in ways] == counts
    assert len(prepared) == len(ways)


def foreign_code() -> lp.TranslationUnit:
    code = lp.CInstruction("i", "b[i] = 2;", assignees=("b[i]",), id="text")
    args = [lp.GlobalArg("b", np.float32, shape="n"), lp.ValueArg("n", np.int32)]
    return lp.make_kernel("{[i]: 0<=i<n}", [code], args, lang_version=(2018, 2))


def test_different_typical_values_are_counted_separately(prepared):
    costs = [{"f32 add": 1}, {"f32 add": 2}, {"f32 mul": 1}, {"f32 add": np.float32(0.1)}, {"f32 add": 0.1}]
    counts = [str(lpp.count(foreign_code(), typical={"text": cost})) for cost in costs]
    assert len(prepared) == len(costs)
    assert [str(lpp.count(foreign_code(), typical={"text": cost})) for cost in costs] == counts
    assert len(prepared) == len(costs)


# }}}


# {{{ in files


def test_home_folder_of_an_unknown_user_is_refused(monkeypatch):
    monkeypatch.setenv("LOOPYPERF_CACHE", "~no-such-person/counted")
    with pytest.raises(
        ParameterError,
        match=r"LOOPYPERF_CACHE=~no-such-person/.* the home folder of an unknown user",
    ):
        lpp.count(doubled())


def test_files_are_in_the_user_cache_folder_unless_turned_off(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, *_: str(tmp_path / name))
    for off in ("0", "no", "off", "False"):
        monkeypatch.setenv("LOOPYPERF_CACHE", off)
        CACHE.clear()
        lpp.count(doubled())
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv("LOOPYPERF_CACHE")
    CACHE.clear()
    lpp.count(doubled())
    (path,) = files(tmp_path / "loopyperf" / "analyses")
    for on in ("", "1", "yes", "on", "True"):
        path.unlink()
        monkeypatch.setenv("LOOPYPERF_CACHE", on)
        CACHE.clear()
        lpp.count(doubled())
        assert files(tmp_path / "loopyperf" / "analyses") == [path]


def test_files_are_not_read_if_turned_off(folder, prepared, monkeypatch):
    lpp.count(doubled())
    monkeypatch.setenv("LOOPYPERF_CACHE", "0")
    CACHE.clear()
    lpp.count(doubled())
    assert len(prepared) == 2


def test_user_without_a_home_folder_gets_counts_but_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, *_: f"~/.cache/{name}")
    monkeypatch.setenv("LOOPYPERF_CACHE", "")
    monkeypatch.chdir(tmp_path)
    assert lpp.count(doubled()).properties()["f32 mul"](n=64) == 64
    assert list(tmp_path.iterdir()) == []


def test_program_with_a_cache_file_is_not_preprocessed(folder, prepared):
    counted = lpp.count(outer_product())
    CACHE.clear()
    restored = lpp.count(outer_product())
    assert len(prepared) == 1
    assert restored is not counted
    assert restored is lpp.count(outer_product())
    assert str(restored) == str(counted)
    assert restored.shares({"n": 5, "m": 16}) == counted.shares({"n": 5, "m": 16})


def test_estimate_from_a_file_is_equal_and_has_its_notes(folder, make_fit):
    fit = make_fit(weights={"f32 mul": 1e-9})
    ways = [{}, {"counting": "paper"}]
    first = [lpp.estimate(doubled(), n=64, fit=fit, **options) for options in ways]
    CACHE.clear()
    second = [lpp.estimate(doubled(), n=64, fit=fit, **options) for options in ways]
    assert any(second[1].notes)
    assert [estimate.to_dict() for estimate in second] == [estimate.to_dict() for estimate in first]


@pytest.mark.parametrize("other", ["loopyperf 0.0", "loopy 2026", "source"])
def test_counts_of_other_versions_are_misses(other, folder, prepared, monkeypatch):
    lpp.count(doubled())
    monkeypatch.setattr(cache_files, "_versions", lambda: other)
    CACHE.clear()
    lpp.count(doubled())
    assert len(prepared) == len(files(folder)) == 2


NO_ROOM = {
    "a full disk": OSError(errno.ENOSPC, "No space left on device"),
    "a folder that can only be read": OSError(errno.EROFS, "Read-only file system"),
    "the folder of another user": PermissionError(errno.EACCES, "Permission denied"),
}


@pytest.mark.parametrize("what", NO_ROOM)
def test_unwritable_folder_gives_one_warning_and_correct_counts(what, folder, monkeypatch, recwarn):
    def refuse(*_: object, **__: object) -> None:
        raise NO_ROOM[what]

    cache_files._warn.cache_clear()
    monkeypatch.setattr(cache_files, "write_whole", refuse)
    if what == "the folder of another user":
        monkeypatch.setattr(cache_files, "read_bytes", refuse)
    counts = [lpp.count(doubled(group=group)).properties()["f32 mul"](n=64) for group in (16, 32)]
    assert counts == [64, 64]
    messages = [str(warning.message) for warning in recwarn if issubclass(warning.category, LoopyperfWarning)]
    assert len(messages) == 1
    assert f"{NO_ROOM[what].strerror}; set LOOPYPERF_CACHE to a writable folder, or to 0" in messages[0]


def test_file_in_place_of_the_folder_gives_one_warning(tmp_path, monkeypatch, recwarn):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LOOPYPERF_CACHE", str(tmp_path / "file" / "folder"))
    with pytest.warns(LoopyperfWarning, match=r"cannot be cached in "):
        assert lpp.count(doubled()).properties()["f32 mul"](n=64) == 64
    recwarn.clear()
    lpp.count(outer_product())
    assert [warning for warning in recwarn if issubclass(warning.category, LoopyperfWarning)] == []


def test_only_the_owner_can_read_the_files(folder):
    lpp.count(doubled())
    assert [stat.S_IMODE(path.stat().st_mode) for path in files(folder)] == [0o600]


def test_cache_files_are_never_unpickled():
    """Files may come from a folder that others can write to."""
    sources = [Path(module.__file__).read_text() for module in (case, counting, cache_files)]
    assert not any("pickle" in source or "shelve" in source or "persistent_dict" in source for source in sources)


# }}}


INVALID: dict[str, Callable[[dict[str, Any]], object]] = {
    "a division by 0": lambda document: document["tallies"][0].__setitem__(3, "1/0"),
    "a place beyond the end": lambda document: document["tallies"][0].__setitem__(2, 99),
    "an integer of thousands of digits": lambda document: document["tallies"][0].__setitem__(3, "9" * 10**5),
}
"""changes that keep the JSON valid, by name"""


@pytest.mark.parametrize("what", INVALID)
def test_file_with_invalid_content_is_a_miss_and_is_replaced(what, folder, prepared):
    counted = str(lpp.count(doubled()))
    (path,) = files(folder)
    whole = path.read_bytes()
    document = json.loads(whole.partition(b"\n")[2])
    INVALID[what](document)
    transcript = json.dumps(document).encode()
    path.write_bytes(cache_files._digest(path, transcript) + b"\n" + transcript)
    CACHE.clear()
    assert str(lpp.count(doubled())) == counted
    assert path.read_bytes() == whole
    assert len(prepared) == 2


def test_file_under_the_name_of_another_key_is_a_miss(folder, prepared):
    lpp.count(doubled())
    (first,) = files(folder)
    lpp.count(doubled(group=32))
    (second,) = set(files(folder)) - {first}
    kept = second.read_bytes()
    second.write_bytes(first.read_bytes())
    CACHE.clear()
    lpp.count(doubled(group=32))
    assert second.read_bytes() == kept
    assert len(prepared) == 3
