"""``compare``, ``explain``, ``report``, ``rank``, ``roofline`` and ``advise`` use the cache, too."""

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
from tests.repeated_estimates import V100, N, doubled_where_positive, other_device, unsure

TESTS = Path(__file__).parents[2]


def guarded(share: float = 0.5) -> dict[str, Any]:
    """Return arguments for a kernel with a data-dependent condition."""
    return {"program": doubled_where_positive(), "n": N, "typical": {"positive": share}}


def call(ask: Callable[..., Any], program: lp.TranslationUnit | None = None, n: Any = N, **options: Any) -> Any:
    return ask(program or unsure(), n=n, **{"device": V100} | options)


def explained(*args: Any, **options: Any) -> Explanation:
    return lpp.report(*args, **options).explanation


QUESTIONS: dict[str, Callable[[], Any]] = {
    "compare": lambda: call(lpp.compare),
    "compare by a fit of counts": lambda: call(lpp.compare, device="amd-r9-fury", models=["linear", "roofline"]),
    "compare occupancies": lambda: call(lpp.compare_occupancies, models=["roofline", "wfg", "linear"]),
    "compare some": lambda: call(lpp.compare_occupancies, models=["wfg"], concurrent_groups=np.array([1, 3])),
    "explain": lambda: call(lpp.explain),
    "explain on two devices": lambda: call(lpp.explain, device=["amd-r9-fury", V100], models=["linear", "roofline"]),
    "explain what is typical": lambda: call(lpp.explain, **guarded()),
    "diff": lambda: lpp.diff(unsure(), n=(N, 2 * N), device=V100),
    "report": lambda: call(explained, models=["roofline", "gpuperf"]),
    "roofline": lambda: call(lpp.roofline),
    "roofline of what is typical": lambda: call(lpp.roofline, **guarded()),
    "advise": lambda: call(lpp.advise),
    "rank": lambda: lpp.rank({"one": unsure(), "other": doubled()}, n=N, device=V100, model="wfg").estimates,
}


def whole(answer: Any) -> str:
    """Return all values of an answer, to the last bit."""
    return repr(answer.to_dict() if isinstance(answer, lpp.Comparison | OccupancyComparison | Explanation) else answer)


def all_of(answer: Any) -> Any:
    """Return the part of an answer that is compared in addition to its values."""
    return list(answer) if isinstance(answer, lpp.AdviceOnKernel) else answer


# {{{ hits and misses


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("name", QUESTIONS)
def test_repeated_request_uses_neither_loopy_passes_nor_graphs(forgets, name, folder, forbid):
    first = QUESTIONS[name]()
    forbid()
    if forgets:
        recent.clear_memory()
    again = QUESTIONS[name]()
    assert all_of(again) == all_of(first)
    assert whole(again) == whole(first)
    assert str(again) == str(first)


@pytest.mark.parametrize("name", sorted(QUESTIONS.keys() - {"rank"}))
def test_new_request_needs_loopy_passes_and_graphs(name, folder, forbid):
    """Shows that the test above can fail."""
    forbid()
    with pytest.raises(pytest.fail.Exception):
        QUESTIONS[name]()


def test_results_of_explain_serve_roofline_and_estimate(folder, forbid):
    explanation = QUESTIONS["explain"]()
    forbid()
    recent.clear_memory()
    (on,) = explanation.devices
    assert QUESTIONS["roofline"]() == on.roofline
    assert call(lpp.estimate, model="pipeline") == on.estimates["pipeline"]


def test_change_of_a_result_does_not_affect_the_cache(folder, forbid):
    first = call(lpp.roofline, **guarded())
    first.sizes["n"] = 1
    first.typical.clear()
    assert call(lpp.roofline, **guarded()) == replace(first, sizes={"n": N}, typical={"positive": 0.5})


OTHERS: dict[str, Callable[[Callable[..., Any]], object]] = {
    "another size": lambda ask: call(ask, n=N + 32),
    "another kernel": lambda ask: call(ask, doubled()),
    "a device of another number": lambda ask: call(ask, device=other_device()),
    "another typical value": lambda ask: call(ask, **guarded(0.25)),
}


@pytest.mark.parametrize("ask", [lpp.roofline, lpp.advise], ids=["roofline", "advise"])
@pytest.mark.parametrize("other", OTHERS)
def test_any_change_of_the_request_is_a_cache_miss(ask, other, folder, forbid):
    call(ask)
    call(ask, **guarded())
    forbid()
    with pytest.raises(pytest.fail.Exception):
        OTHERS[other](ask)


def test_invalid_size_is_refused_although_results_are_cached(folder):
    for ask in (lpp.compare, lpp.explain):
        call(ask, doubled(), models=["linear", "roofline"])
        for _ in range(2):
            with pytest.raises(ParameterError, match="has no size m"):
                call(ask, doubled(), models=["linear", "roofline"], m=1)


@pytest.mark.parametrize("other", [b"[]", b'{"a":1}', b"not JSON"])
def test_files_with_invalid_content_are_misses_and_are_replaced(other, folder):
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
def test_result_that_json_cannot_represent_is_cached_only_in_memory(found, folder):
    kind = json_result_kind("odd", 2, Any)
    with pytest.raises(msgspec.ValidationError):
        kind.transcribed(found)
    assert recent.recalled(kind, "key", lambda: found) is found
    assert entries(folder) == ()


# }}}


# {{{ other processes

SCRIPT = """
import sys, warnings; warnings.simplefilter("ignore")
from tests.stages.cache import test_cached_explanations as asked
for name in sys.argv[1:]:
    print(asked.whole(asked.QUESTIONS[name]()))
"""
NAMES = ("compare", "explain", "rank", "roofline of what is typical")


def start(order: tuple[str, ...], cache: Path, seed: int) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": str(seed), "XDG_CACHE_HOME": str(cache)}
    del environment["LOOPYPERF_CACHE"]
    command = [sys.executable, "-c", SCRIPT, *order]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_concurrent_processes_agree_with_the_user_cache_folder(tmp_path):
    computed = {name: whole(QUESTIONS[name]()) for name in NAMES}
    orders = [NAMES, NAMES[::-1]]
    processes = [start(order, tmp_path, place) for place, order in enumerate(orders)]
    answers = [process.communicate()[0].splitlines() for process in processes]
    assert answers == [[computed[name] for name in order] for order in orders]
    kept = entries(tmp_path / "loopyperf" / "analyses")
    assert kept
    assert all(each.is_whole for each in kept)
    assert start(NAMES, tmp_path, 7).communicate()[0].splitlines() == answers[0]
    assert {each.path for each in entries(tmp_path / "loopyperf" / "analyses")} == {each.path for each in kept}


# }}}
