"""Results of models are cached by kernel, sizes and device, in memory and in files."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import loopy as lp
import msgspec
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration import fit
from loopyperf.calibration.fit import observe
from loopyperf.device.device_library import BUNDLED
from loopyperf.errors import ParameterError
from loopyperf.predict import on_device as device_estimate
from loopyperf.stages import cache as cache_files
from loopyperf.stages import case
from loopyperf.stages.cache import CACHE, entries
from loopyperf.stages.timing import timed_program
from tests.kernels import doubled
from tests.repeated_estimates import FIT, QUESTIONS, V100, N, ask, conditional, other_device, unsure, whole

TESTS = Path(__file__).parents[2]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list with one entry for each result that was computed from graphs so far."""
    seen: list[str] = []
    for module in (device_estimate, fit):
        monkeypatch.setattr(
            module, "timed_program", lambda *given, **by: seen.append("x") or timed_program(*given, **by)
        )
    return seen


# {{{ hits


@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_repeated_estimate_is_equal_and_needs_no_graphs(name, folder, forbid):
    first = lpp.estimate(unsure(), n=N, **QUESTIONS[name])
    assert first.alternatives
    forbid()
    for forgets in (False, True):
        if forgets:
            CACHE.clear()
        again = lpp.estimate(unsure(), n=N, **QUESTIONS[name])
        assert whole(again) == whole(first), forgets
        assert str(again) == str(first)
        assert again.to_dict() == first.to_dict()


def test_what_is_not_cached_is_logged_with_its_time(folder: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG", "loopyperf")
    ask()
    assert [each for each in caplog.messages if re.fullmatch(r"answer: not in the cache, computed in .* .?s", each)]
    caplog.clear()
    CACHE.clear()
    ask()
    assert caplog.messages == []


def test_uncached_estimate_needs_graphs(forbid):
    """Shows that the test above can fail."""
    forbid()
    with pytest.raises(pytest.fail.Exception, match="a graph"):
        ask()


def test_each_size_of_an_array_is_cached_separately(folder, forbid):
    sizes = np.array([[64, N], [96, 64]])
    batch = ask(n=sizes)
    forbid()
    again = ask(n=sizes.copy())
    assert whole(again) == whole(batch)
    assert ask(n=96).seconds == batch.seconds[1, 0]
    with pytest.raises(pytest.fail.Exception):
        ask(n=97)


def test_equal_devices_from_different_files_share_cached_results(tmp_path, forbid):
    path = tmp_path / "nvidia-v100.toml"
    path.write_bytes((BUNDLED / "nvidia-v100.toml").read_bytes())
    first = ask(device="nvidia-v100")
    forbid()
    assert ask(device=path) == ask(device=V100) == first


def test_repeated_ranking_uses_the_cache(folder, forbid):
    variants = {f"groups of {group}": (lambda group=group: doubled(group=group)) for group in (32, 64, 128)}
    for model_options in ({"model": "roofline", "device": V100}, {"fit": FIT}):
        first = lpp.rank(variants, n=N, **model_options)
        with pytest.MonkeyPatch.context() as patch:
            CACHE.clear()
            patch.setattr(case, "load_kernel", lambda *_: pytest.fail("a pass of Loopy's"))
            again = lpp.rank(variants, n=N, **model_options)
        assert not again.failures
        assert again.estimates == first.estimates


# }}}


# {{{ misses


OTHERS: dict[str, Callable[[], object]] = {
    "as it is": ask,
    "another size": lambda: ask(n=N + 32),
    "another kernel": lambda: ask(doubled()),
    "another model": lambda: ask(model="wfg"),
    "another device": lambda: ask(device="nvidia-a100"),
    "a device of another number": lambda: ask(device=other_device()),
    "a device of another name": lambda: ask(device=replace(V100, slug="mine")),
    "a device in other words": lambda: ask(device=replace(V100, lanes="in turn")),
    "without alternatives": lambda: ask(alternatives=False),
    "a typical value": conditional,
    "another typical value": lambda: conditional(share=0.25),
    "a fit": lambda: ask(model=None, device=None, fit=FIT),
    "a fit of another weight": lambda: ask(
        model=None, device=None, fit=msgspec.structs.replace(FIT, weights={**FIT.weights, "DRAM": 1.0000000000000002})
    ),
    "a fit of another sharpness": lambda: ask(model=None, device=None, fit=msgspec.structs.replace(FIT, sharpness=2)),
    "a fit that knows no interval": lambda: ask(
        model=None, device=None, fit=msgspec.structs.replace(FIT, uncertainty=None)
    ),
    "what a fit is told": lambda: observe(unsure(), {"n": N}, 1.0, kernel_class="", label="", device=V100),
    "what it is told of another device": lambda: observe(
        unsure(), {"n": N}, 1.0, kernel_class="", label="", device=other_device()
    ),
}


def test_any_change_of_the_request_is_a_cache_miss(folder, built):
    numbers, answers = [], []
    for other in OTHERS.values():
        answers.append(whole(other()))
        numbers.append(len(built))
    assert numbers == list(range(1, len(OTHERS) + 1))
    for forgets in (False, True):
        if forgets:
            CACHE.clear()
        assert [whole(other()) for other in OTHERS.values()] == answers
    assert len(built) == len(OTHERS)
    with lp.CacheMode(False):
        assert [whole(other()) for other in OTHERS.values()] == answers


def test_errors_are_not_cached(folder, built):
    for _ in range(2):
        with pytest.raises(ParameterError, match="violates the kernel's assumptions"):
            ask(n=0)
    assert entries(folder) == ()


def no_symbol(kernel: lp.LoopKernel, name: str) -> None:
    """Return None for every symbol."""


def test_program_with_user_defined_code_or_fit_with_other_than_plain_data_is_not_cached(folder, built):
    odd = msgspec.structs.replace(FIT, options={"sum": sum})
    for _ in range(2):
        unit = doubled()
        ask(unit.with_kernel(unit.default_entrypoint.copy(symbol_manglers=[no_symbol])))
        ask(model=None, device=None, fit=odd)
    assert len(built) == 4
    assert entries(folder) == ()


# }}}


# {{{ fits


def rows() -> Iterator[tuple[lp.TranslationUnit, dict[str, int], float]]:
    """Yield made-up timings of two kernels, new objects each time."""
    for n in (2**12, 2**14, 2**16):
        yield doubled(group=64), {"n": n}, 1e-6 + n * 1e-10
        yield doubled(group=32), {"n": n}, 1e-6 + n * 2e-10


def test_repeated_fit_uses_the_cache_and_shares_cached_results(folder, forbid):
    first, again = (lpp.fit(rows(), device=V100, model="overlap") for _ in range(2))
    assert (first.basis, again.created == first.created) == ("pipelines", False)
    answer = whole(ask(model=None, device=None, fit=first))
    forbid()
    for forgets in (False, True):
        if forgets:
            CACHE.clear()
        fitted = lpp.fit(rows(), device=V100, model="overlap")
        assert msgspec.structs.replace(fitted, created=first.created) == first, forgets
        assert whole(ask(model=None, device=None, fit=fitted)) == answer


def test_lack_of_a_device_parameter_is_cached(folder, built):
    bare = replace(V100, clock=None)
    found = [observe(doubled(), {"n": N}, 1.0, kernel_class="", label="", device=bare) for _ in range(2)]
    assert [each.pipelines for each in found] == [{}, {}]
    assert len(built) == 1


def test_change_of_an_observation_does_not_affect_the_cache(folder):
    first = observe(doubled(), {"n": N}, 1.0, kernel_class="", label="", device=V100)
    pipelines_before = dict(first.pipelines)
    first.pipelines.clear()
    assert observe(doubled(), {"n": N}, 1.0, kernel_class="", label="", device=V100).pipelines == pipelines_before != {}


# }}}


# {{{ files


def damaged(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    digest, _, transcript = data.partition(b"\n")
    yield b""
    yield data[: len(data) // 2]
    yield data[:-1]
    yield data + b" "
    yield digest + b"\n" + transcript.replace(b"1", b"2", 1)
    # With a correct digest, but not in the format of this version:
    for other in (b"[]", b'["columns",{"seconds":1.0}]', b'{"DRAM":1.0}', b"not JSON"):
        yield cache_files._digest(path, other) + b"\n" + other


def test_damaged_file_is_a_miss_and_is_replaced(folder, built):
    first = whole(ask())
    (entry,) = entries(folder)
    undamaged = entry.path.read_bytes()
    damages = list(damaged(entry.path))
    for each in damages:
        entry.path.write_bytes(each)
        CACHE.clear()
        assert whole(ask()) == first
        assert entry.path.read_bytes() == undamaged
    assert len(built) == 1 + len(damages)


def test_memory_keeps_the_most_recently_used_results(built, monkeypatch):
    monkeypatch.setattr(device_estimate, "ANSWERS", replace(device_estimate.ANSWERS, kept=2))
    for n in (64, 96, 64, 128, 64):  # 128 evicts 96
        ask(n=n)
    assert len(built) == 3
    ask(n=96)
    assert len(built) == 4


def test_result_without_a_transcript_is_cached_only_in_memory(folder, built, monkeypatch):
    def refuse(*_: object) -> bytes:
        raise msgspec.ValidationError("an array")

    monkeypatch.setattr(device_estimate, "ANSWERS", replace(device_estimate.ANSWERS, transcribed=refuse))
    assert whole(ask()) == whole(ask())
    assert len(built) == 1
    assert entries(folder) == ()


def test_loopys_cache_switch_turns_the_cache_off(folder, built):
    with lp.CacheMode(False):
        assert whole(ask()) == whole(ask())
        observations = [observe(doubled(), {"n": N}, 1.0, kernel_class="", label="", device=V100) for _ in range(2)]
    assert observations[0] == observations[1]
    assert len(built) == 4
    assert not folder.exists()


# }}}


# {{{ other processes

SCRIPT = """
import sys, warnings; warnings.simplefilter("ignore")
from tests import repeated_estimates as asked
import loopyperf as lpp
from loopyperf.calibration.fit import observe
from loopyperf.stages import case, profile
from loopyperf.stages.cache import CACHE
if sys.argv[1] == "known":
    def fail(*_, **__): raise SystemExit("looked at anew")
    case.load_kernel = profile.KernelStructure = fail
for name in sys.argv[2:]:
    CACHE.clear()
    print(asked.whole(lpp.estimate(asked.unsure(), n=asked.N, **asked.QUESTIONS[name])))
    told = observe(asked.unsure(), {"n": asked.N}, 1.0, kernel_class="", label="", device=asked.V100)
    print(told.pipelines)
"""
NAMES = ("roofline", "gpuperf", "a fit of pipelines")


def start(how: str, names: tuple[str, ...], seed: int = 0) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": str(seed)}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how, *names], env=environment, stdout=subprocess.PIPE, text=True
    )


def expected(names: tuple[str, ...]) -> list[str]:
    pipelines_before = observe(unsure(), {"n": N}, 1.0, kernel_class="", label="", device=V100).pipelines
    return [
        line
        for name in names
        for line in (whole(lpp.estimate(unsure(), n=N, **QUESTIONS[name])), str(pipelines_before))
    ]


def test_another_process_uses_the_results_of_this_one(folder):
    lpp.count(unsure())
    expected_lines = expected(NAMES)
    process = start("known", NAMES, seed=7)
    assert process.communicate()[0].splitlines() == expected_lines
    assert process.returncode == 0


# }}}
