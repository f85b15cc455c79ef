"""What ``compare``, ``explain``, ``report``, ``rank``, ``roofline`` and ``advise`` ask is served by the cache, too."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopy as lp
import msgspec
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.explain.explanation import Explanation
from loopyperf.predict.compare import OccupancyComparison
from loopyperf.stages import cache as cache_files
from loopyperf.stages import cache as recent
from loopyperf.stages.cache import entries, json_result_kind
from tests.kernels import doubled
from tests.known_questions import V100, N, doubled_where_positive, other_device, unsure

TESTS = Path(__file__).parents[2]


def guarded(share: float = 0.5) -> dict[str, Any]:
    """Return a question about a kernel with a condition on data."""
    return {"program": doubled_where_positive(), "n": N, "typical": {"positive": share}}


def asked(ask: Callable[..., Any], program: lp.TranslationUnit | None = None, n: Any = N, **options: Any) -> Any:
    return ask(program or unsure(), n=n, **{"device": V100} | options)


def explained(*args: Any, **options: Any) -> Explanation:
    return lpp.report(*args, **options).explanation


QUESTIONS: dict[str, Callable[[], Any]] = {
    "compare": lambda: asked(lpp.compare),
    "compare by a fit of counts": lambda: asked(lpp.compare, device="amd-r9-fury", models=["linear", "roofline"]),
    "compare occupancies": lambda: asked(lpp.compare_occupancies, models=["roofline", "wfg", "linear"]),
    "compare some": lambda: asked(lpp.compare_occupancies, models=["wfg"], concurrent_groups=np.array([1, 3])),
    "explain": lambda: asked(lpp.explain),
    "explain on two devices": lambda: asked(lpp.explain, device=["amd-r9-fury", V100], models=["linear", "roofline"]),
    "explain what is typical": lambda: asked(lpp.explain, **guarded()),
    "diff": lambda: lpp.diff(unsure(), n=(N, 2 * N), device=V100),
    "report": lambda: asked(explained, models=["roofline", "gpuperf"]),
    "roofline": lambda: asked(lpp.roofline),
    "roofline of what is typical": lambda: asked(lpp.roofline, **guarded()),
    "advise": lambda: asked(lpp.advise),
    "rank": lambda: lpp.rank({"one": unsure(), "other": doubled()}, n=N, device=V100, model="wfg").estimates,
}


def whole(answer: Any) -> str:
    """Return all that an answer says, to the last bit."""
    return repr(answer.to_dict() if isinstance(answer, lpp.Comparison | OccupancyComparison | Explanation) else answer)


def all_of(answer: Any) -> Any:
    """Return what answers are compared by beside what they say."""
    return list(answer) if isinstance(answer, lpp.AdviceOnKernel) else answer


# {{{ the same


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("name", QUESTIONS)
def test_an_equal_question_has_an_equal_answer_without_passes_of_loopys_and_graphs(forgets, name, folder, forbid):
    first = QUESTIONS[name]()
    forbid()
    if forgets:
        recent.clear_memory()
    again = QUESTIONS[name]()
    assert all_of(again) == all_of(first)
    assert whole(again) == whole(first)
    assert str(again) == str(first)


@pytest.mark.parametrize("name", sorted(QUESTIONS.keys() - {"rank"}))
def test_a_new_question_needs_passes_of_loopys_and_graphs(name, folder, forbid):
    """Else the test above could not fail."""
    forbid()
    with pytest.raises(pytest.fail.Exception):
        QUESTIONS[name]()


def test_what_explain_has_found_serves_roofline_advise_and_estimate(folder, forbid):
    explanation = QUESTIONS["explain"]()
    forbid()
    recent.clear_memory()
    (on,) = explanation.devices
    assert QUESTIONS["roofline"]() == on.roofline
    assert tuple(QUESTIONS["advise"]()) == on.advice
    assert asked(lpp.estimate, model="pipeline") == on.estimates["pipeline"]


def test_sizes_and_typical_values_are_those_of_who_asks(folder, forbid):
    first = asked(lpp.roofline, **guarded())
    first.sizes["n"] = 1
    first.typical.clear()
    assert asked(lpp.roofline, **guarded()) == replace(first, sizes={"n": N}, typical={"positive": 0.5})


OTHERS: dict[str, Callable[[Callable[..., Any]], object]] = {
    "another size": lambda ask: asked(ask, n=N + 32),
    "another kernel": lambda ask: asked(ask, doubled()),
    "a device of another number": lambda ask: asked(ask, device=other_device()),
    "another typical value": lambda ask: asked(ask, **guarded(0.25)),
}


@pytest.mark.parametrize("ask", [lpp.roofline, lpp.advise], ids=["roofline", "advise"])
@pytest.mark.parametrize("other", OTHERS)
def test_any_other_question_is_answered_anew(ask, other, folder, forbid):
    asked(ask)
    asked(ask, **guarded())
    forbid()
    with pytest.raises(pytest.fail.Exception):
        OTHERS[other](ask)


def test_what_is_wrong_with_a_question_is_said_though_models_have_answered(folder):
    for ask in (lpp.compare, lpp.explain):
        asked(ask, doubled(), models=["linear", "roofline"])
        for _ in range(2):
            with pytest.raises(ParameterError, match="has no size m"):
                asked(ask, doubled(), models=["linear", "roofline"], m=1)


@pytest.mark.parametrize("other", [b"[]", b'{"a":1}', b"not JSON"])
def test_files_that_make_no_sense_are_misses_and_are_replaced(other, folder):
    first = QUESTIONS["report"]()
    undamaged = {each.path: each.path.read_bytes() for each in entries(folder)}
    for path in undamaged:
        path.write_bytes(cache_files._digest(path, other) + b"\n" + other)
    recent.clear_memory()
    assert QUESTIONS["report"]() == first
    assert {each.path: each.path.read_bytes() for each in entries(folder)} == undamaged


# }}}


# {{{ as JSON


@pytest.mark.parametrize("found", [math.inf, {"a": math.nan}, np.float64(0.1), 1j])
def test_what_json_does_not_hold_is_kept_in_memory_alone(found, folder):
    kind = json_result_kind("odd", 2, Any)
    with pytest.raises(msgspec.ValidationError):
        kind.transcribed(found)
    assert recent.recalled(kind, "key", lambda: found) is found
    assert entries(folder) == ()


# }}}


# {{{ other processes

ASK = """
import sys, warnings; warnings.simplefilter("ignore")
from tests.stages.cache import test_known_explanations as asked
for name in sys.argv[1:]:
    print(asked.whole(asked.QUESTIONS[name]()))
"""
ASKED = ("compare", "explain", "rank", "roofline of what is typical")


def start(order: tuple[str, ...], cache: Path, seed: int) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    surroundings = os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": str(seed), "XDG_CACHE_HOME": str(cache)}
    del surroundings["LOOPYPERF_CACHE"]
    command = [sys.executable, "-c", ASK, *order]
    return subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, text=True)


def test_processes_at_once_that_fill_the_users_cache_and_read_it_say_the_same(tmp_path):
    computed = {name: whole(QUESTIONS[name]()) for name in ASKED}
    orders = [ASKED, ASKED[::-1]]
    processes = [start(order, tmp_path, place) for place, order in enumerate(orders)]
    answers = [process.communicate()[0].splitlines() for process in processes]
    assert answers == [[computed[name] for name in order] for order in orders]
    kept = entries(tmp_path / "loopyperf" / "analyses")
    assert kept
    assert all(each.is_whole for each in kept)
    assert start(ASKED, tmp_path, 7).communicate()[0].splitlines() == answers[0]
    assert {each.path for each in entries(tmp_path / "loopyperf" / "analyses")} == {each.path for each in kept}


# }}}
