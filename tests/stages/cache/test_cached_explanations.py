"""``compare``, ``explain``, ``report``, ``rank``, ``roofline`` and ``advise`` use the cache, too."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import loopy as lp
import msgspec
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.explain.explanation import Explanation
from loopyperf.predict.compare import OccupancyComparison
from loopyperf.stages.cache import CACHE, entries, json_result_kind
from tests.kernels import doubled
from tests.repeated_estimates import V100, N, doubled_where_positive, other_device, unsure


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


# {{{ hits and misses


@pytest.mark.parametrize("name", QUESTIONS)
def test_repeated_request_uses_neither_loopy_passes_nor_graphs(name, folder, forbid):
    first = QUESTIONS[name]()
    forbid()
    for forgets in (False, True):
        if forgets:
            CACHE.clear()
        again = QUESTIONS[name]()
        assert again == first, forgets
        assert whole(again) == whole(first)
        assert str(again) == str(first)


def test_new_request_needs_loopy_passes_and_graphs(folder, forbid):
    """Shows that the test above can fail."""
    forbid()
    for name in QUESTIONS.keys() - {"rank"}:
        with pytest.raises(pytest.fail.Exception):
            QUESTIONS[name]()


def test_results_of_explain_serve_roofline_and_estimate(folder, forbid):
    explanation = QUESTIONS["explain"]()
    forbid()
    CACHE.clear()
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
def test_any_change_of_the_request_is_a_cache_miss(ask, folder, forbid):
    call(ask)
    call(ask, **guarded())
    forbid()
    for other in OTHERS.values():
        with pytest.raises(pytest.fail.Exception):
            other(ask)


def test_invalid_size_is_refused_although_results_are_cached(folder):
    for ask in (lpp.compare, lpp.explain):
        call(ask, doubled(), models=["linear", "roofline"])
        for _ in range(2):
            with pytest.raises(ParameterError, match="has no size m"):
                call(ask, doubled(), models=["linear", "roofline"], m=1)


# }}}


# {{{ as JSON


@pytest.mark.parametrize("found", [math.inf, {"a": math.nan}, np.float64(0.1), 1j])
def test_result_that_json_cannot_represent_is_cached_only_in_memory(found, folder):
    kind = json_result_kind("odd", 2, Any)
    with pytest.raises(msgspec.ValidationError):
        kind.transcribed(found)
    assert CACHE.find(kind, "key", lambda: found) is found
    assert entries(folder) == ()


# }}}
