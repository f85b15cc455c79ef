"""What models find in graphs is found once: equal kernels at equal sizes on equal devices, in memory and in files."""

import os
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
from loopyperf.calibration.fit import observe
from loopyperf.device.device_files import description_text
from loopyperf.device.device_library import BUNDLED
from loopyperf.errors import ParameterError
from loopyperf.memory.source_launch import KernelStructure
from loopyperf.predict import on_device as device_estimate
from loopyperf.stages import cache as cache_files
from loopyperf.stages import cache as recent
from loopyperf.stages import case
from loopyperf.stages.cache import entries
from tests.kernels import doubled
from tests.known_questions import FIT, QUESTIONS, V100, N, ask, conditional, other_device, unsure, whole

TESTS = Path(__file__).parents[2]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a word for each time that graphs were built so far."""
    seen: list[str] = []
    build = KernelStructure.profile
    monkeypatch.setattr(KernelStructure, "profile", lambda *asked: seen.append("x") or build(*asked))
    return seen


# {{{ the same


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_an_equal_kernel_is_answered_the_same_without_its_graphs(forgets, name, folder, forbid):
    first = lpp.estimate(unsure(), n=N, **QUESTIONS[name])
    assert first.alternatives
    forbid()
    if forgets:
        recent.clear_memory()
    again = lpp.estimate(unsure(), n=N, **QUESTIONS[name])
    assert whole(again) == whole(first)
    assert str(again) == str(first)
    assert again.to_dict() == first.to_dict()


def test_what_is_not_known_needs_graphs(forbid):
    """Else the test above could not fail."""
    forbid()
    with pytest.raises(pytest.fail.Exception, match="a graph"):
        ask()


def test_each_size_of_an_array_is_known_by_itself(folder, forbid):
    sizes = np.array([[64, N], [96, 64]])
    batch = ask(n=sizes)
    forbid()
    again = ask(n=sizes.copy())
    assert whole(again) == whole(batch)
    assert ask(n=96).seconds == batch.seconds[1, 0]
    with pytest.raises(pytest.fail.Exception):
        ask(n=97)


def test_the_files_of_a_description_do_not_matter_but_what_it_says(tmp_path, forbid):
    path = tmp_path / "nvidia-v100.toml"
    path.write_bytes((BUNDLED / "nvidia-v100.toml").read_bytes())
    first = ask(device="nvidia-v100")
    forbid()
    assert ask(device=path) == ask(device=V100) == first


def test_a_ranking_that_comes_by_the_same_variants_asks_for_nothing(folder, forbid):
    variants = {f"groups of {group}": (lambda group=group: doubled(group=group)) for group in (32, 64, 128)}
    for question in ({"model": "roofline", "device": V100}, {"fit": FIT}):
        first = lpp.rank(variants, n=N, **question)
        with pytest.MonkeyPatch.context() as patch:
            recent.clear_memory()
            patch.setattr(case, "load_kernel", lambda *_: pytest.fail("a pass of Loopy's"))
            again = lpp.rank(variants, n=N, **question)
        assert not again.failures
        assert again.estimates == first.estimates


# }}}


# {{{ others


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


def test_any_other_question_is_answered_anew(folder, built):
    numbers, answers = [], []
    for other in OTHERS.values():
        answers.append(whole(other()))
        numbers.append(len(built))
    assert numbers == list(range(1, len(OTHERS) + 1))
    for forgets in (False, True):
        if forgets:
            recent.clear_memory()
        assert [whole(other()) for other in OTHERS.values()] == answers
    assert len(built) == len(OTHERS)
    with lp.CacheMode(False):
        assert [whole(other()) for other in OTHERS.values()] == answers


def test_a_description_that_was_edited_is_another_device(tmp_path, built):
    path = tmp_path / "mine.toml"
    path.write_text(description_text(V100))
    before = ask(device=path)
    path.write_text(description_text(other_device()))
    after = ask(device=path)
    assert len(built) == 2
    assert after.seconds != before.seconds


def test_a_refusal_is_not_remembered(folder, built):
    for _ in range(2):
        with pytest.raises(ParameterError, match="violates the kernel's assumptions"):
            ask(n=0)
    assert entries(folder) == ()


def no_symbol(kernel: lp.LoopKernel, name: str) -> None:
    """Know no symbol."""


def test_a_program_with_code_of_the_users_is_looked_at_each_time(folder, built):
    for _ in range(2):
        unit = doubled()
        ask(unit.with_kernel(unit.default_entrypoint.copy(symbol_manglers=[no_symbol])))
    assert len(built) == 2
    assert entries(folder) == ()


def test_a_fit_of_other_than_plain_data_is_asked_each_time(folder, built):
    odd = msgspec.structs.replace(FIT, options={"sum": sum})
    for _ in range(2):
        ask(model=None, device=None, fit=odd)
    assert len(built) == 2
    assert entries(folder) == ()


# }}}


# {{{ fits


def rows() -> Iterator[tuple[lp.TranslationUnit, dict[str, int], float]]:
    """Yield made-up timings of two kernels, new objects each time."""
    for n in (2**12, 2**14, 2**16):
        yield doubled(group=64), {"n": n}, 1e-6 + n * 1e-10
        yield doubled(group=32), {"n": n}, 1e-6 + n * 2e-10


@pytest.mark.parametrize("forgets", [False, True], ids=["from memory", "from a file"])
def test_kernels_that_are_fitted_again_are_not_looked_at_again(forgets, folder, forbid):
    first = lpp.fit(rows(), device=V100)
    forbid()
    if forgets:
        recent.clear_memory()
    again = lpp.fit(rows(), device=V100)
    assert msgspec.structs.replace(again, created=first.created) == first


@pytest.mark.parametrize("forgets", [False, True], ids=["from memory", "from a file"])
def test_a_fit_that_was_made_again_answers_the_same_without_graphs(forgets, folder, forbid):
    first, again = (lpp.fit(rows(), device=V100, model="overlap") for _ in range(2))
    assert (first.basis, again.created == first.created) == ("pipelines", False)
    answer = ask(model=None, device=None, fit=first)
    forbid()
    if forgets:
        recent.clear_memory()
    assert whole(ask(model=None, device=None, fit=again)) == whole(answer)


def test_that_a_description_lacks_a_number_is_known_too(folder, built):
    bare = replace(V100, clock=None)
    found = [observe(doubled(), {"n": N}, 1.0, kernel_class="", label="", device=bare) for _ in range(2)]
    assert [each.pipelines for each in found] == [{}, {}]
    assert len(built) == 1


def test_an_observation_is_its_owners(folder):
    first = observe(doubled(), {"n": N}, 1.0, kernel_class="", label="", device=V100)
    told = dict(first.pipelines)
    first.pipelines.clear()
    assert observe(doubled(), {"n": N}, 1.0, kernel_class="", label="", device=V100).pipelines == told != {}


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
    # Whole, but nothing that this version writes:
    for other in (b"[]", b'["columns",{"seconds":1.0}]', b'{"DRAM":1.0}', b"not JSON"):
        yield cache_files._digest(path, other) + b"\n" + other


def test_a_damaged_file_is_a_miss_and_is_replaced(folder, built):
    first = whole(ask())
    (entry,) = entries(folder)
    undamaged = entry.path.read_bytes()
    damages = list(damaged(entry.path))
    for each in damages:
        entry.path.write_bytes(each)
        recent.clear_memory()
        assert whole(ask()) == first
        assert entry.path.read_bytes() == undamaged
    assert len(built) == 1 + len(damages)


def test_the_folder_keeps_its_limit_whatever_is_in_it(folder, monkeypatch):
    ask()
    limit = 6 * sum(each.nbytes for each in entries(folder))
    monkeypatch.setenv("LOOPYPERF_CACHE_LIMIT", str(limit))
    for n in range(N, N + 12 * 32, 32):
        ask(n=n)
        lpp.count(doubled(group=n // 32))
        assert sum(each.nbytes for each in entries(folder)) <= limit
    assert 1 < len(entries(folder)) < 24


def test_memory_keeps_what_was_asked_for_last(built, monkeypatch):
    monkeypatch.setattr(device_estimate, "ANSWERS", replace(device_estimate.ANSWERS, kept=2))
    for n in (64, 96, 64, 128, 64):  # 128 drives out 96
        ask(n=n)
    assert len(built) == 3
    ask(n=96)
    assert len(built) == 4


def test_what_has_no_transcript_is_kept_in_memory_alone(folder, built, monkeypatch):
    def refuse(*_: object) -> bytes:
        raise msgspec.ValidationError("an array")

    monkeypatch.setattr(device_estimate, "ANSWERS", replace(device_estimate.ANSWERS, transcribed=refuse))
    assert whole(ask()) == whole(ask())
    assert len(built) == 1
    assert entries(folder) == ()


def test_loopys_switch_turns_it_off(folder, built):
    with lp.CacheMode(False):
        assert whole(ask()) == whole(ask())
        observations = [observe(doubled(), {"n": N}, 1.0, kernel_class="", label="", device=V100) for _ in range(2)]
    assert observations[0] == observations[1]
    assert len(built) == 4
    assert not folder.exists()


# }}}


# {{{ other processes

ASK = """
import sys, warnings; warnings.simplefilter("ignore")
import known_questions as asked
import loopyperf as lpp
from loopyperf.calibration.fit import observe
from loopyperf.stages import case
from loopyperf.stages import cache as recent
if sys.argv[1] == "known":
    def fail(*_, **__): raise SystemExit("looked at anew")
    case.load_kernel = case.KernelStructure = fail
for name in sys.argv[2:]:
    recent.clear_memory()
    print(asked.whole(lpp.estimate(asked.unsure(), n=asked.N, **asked.QUESTIONS[name])))
    told = observe(asked.unsure(), {"n": asked.N}, 1.0, kernel_class="", label="", device=asked.V100)
    print(told.pipelines)
"""
ASKED = ("roofline", "gpuperf", "a fit of pipelines")


def start(how: str, names: tuple[str, ...], seed: int = 0) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    surroundings = os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": str(seed)}
    return subprocess.Popen(
        [sys.executable, "-c", ASK, how, *names], env=surroundings, stdout=subprocess.PIPE, text=True
    )


def expected(names: tuple[str, ...]) -> list[str]:
    told = observe(unsure(), {"n": N}, 1.0, kernel_class="", label="", device=V100).pipelines
    return [line for name in names for line in (whole(lpp.estimate(unsure(), n=N, **QUESTIONS[name])), str(told))]


def test_another_process_finds_what_this_one_found(folder):
    lpp.count(unsure())
    said = expected(ASKED)
    process = start("known", ASKED, seed=7)
    assert process.communicate()[0].splitlines() == said
    assert process.returncode == 0


def test_processes_at_once_read_nothing_wrong(folder):
    orders = [ASKED, ASKED[::-1], ASKED[1:] + ASKED[:1]]
    processes = [start("new", order, seed=place) for place, order in enumerate(orders)]
    answers = [process.communicate()[0].splitlines() for process in processes]
    assert answers == [expected(order) for order in orders]
    # The answers, what a fit is told, and the counts that it is told: of contiguous arrays, and of the given stride n.
    assert len(entries(folder)) == len(ASKED) + 3
    assert all(each.is_whole for each in entries(folder))


# }}}
