"""Searches of a space: results, numbers of trials, executors, failing points and invalid options."""

import json
import logging
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import optuna
import pytest

import loopyperf as lpp
from loopyperf.errors import LoopyperfError, ParameterError, UnknownDeviceError, UnknownModelError
from loopyperf.search import search as searching
from tests.kernels import doubled, summed
from tests.minimal_fit import FREE

ON_TITAN: dict[str, Any] = {"n": 2**16, "device": "nvidia-titan-v", "model": "roofline"}


@pytest.fixture
def fit(make_fit) -> lpp.Fit:
    """A fit in which a group costs a multiplication or a fifth of a division, so larger groups are faster."""
    return make_fit(weights={**FREE, "f32 mul": 1e-9, "f32 div": 5e-9, "work-groups": 1e-9, "launches": 1e-6})


def build(group: int, kind: str = "doubled"):
    """Build a kernel; raise for groups that do not divide 96."""
    if 96 % group:
        raise ValueError(f"groups of {group} do not divide 96")
    return doubled(group=group) if kind == "doubled" else summed(2)


GROUPS = {"group": (8, 12, 16, 20, 24, 32, 48), "kind": ("summed", "doubled")}
TWENTY = "building failed (ValueError): groups of 20 do not divide 96"


# {{{ exhaustive


def test_exhaustive_search_ranks_all_points(fit):
    found = lpp.search(build, GROUPS, n=4096, fit=fit)
    variants = {
        f"group={group}, kind={kind}": partial(build, group, kind)
        for group in GROUPS["group"]
        for kind in GROUPS["kind"]
    }
    ranking = lpp.rank(variants, n=4096, fit=fit)
    assert found.ranking.estimates == ranking.estimates
    assert found.ranking.order == ranking.order
    assert found.ranking.failures == ranking.failures
    assert [each.name for each in found.trials] == list(variants)
    assert (found.optimizer, found.points) == ("exhaustive", 14)
    assert found.best == {"group": 48, "kind": "doubled"}
    assert found.seconds == ranking.seconds[ranking.best]


def test_bounds_skip_points_that_cannot_be_among_the_fastest():
    requested: dict[str, Any] = {"n": 2**20, "device": "nvidia-titan-v", "model": "pipeline", "optimizer": "exhaustive"}
    space = {"terms": (1, 10, 40)}
    every = lpp.search(of_terms, space, **requested)
    found = lpp.search(of_terms, space, **requested, bounds=["throughput"], top=1)
    assert (found.best, found.seconds) == (every.best, every.seconds)
    assert [each.choice["terms"] for each in found.trials if each.seconds is None] == [10, 40]
    assert {each.name for each in found.ranking.beaten} == {"terms=10", "terms=40"}
    with pytest.raises(ParameterError, match="require an exhaustive search; drop them, or use optimizer='exhaustive'"):
        lpp.search(of_terms, space, **requested | {"optimizer": "tpe"}, bounds=["throughput"], top=1)


def of_terms(terms: int):
    return summed(terms)


def test_points_that_cannot_be_built_are_failures_with_reasons(fit):
    found = lpp.search(build, GROUPS, n=4096, fit=fit)
    assert found.ranking.failures == {f"group=20, kind={kind}": TWENTY for kind in GROUPS["kind"]}
    assert [each.choice for each in found.trials if each.seconds is None] == [
        {"group": 20, "kind": kind} for kind in GROUPS["kind"]
    ]


def test_small_space_is_searched_exhaustively_unless_trials_are_fewer(fit, monkeypatch):
    assert lpp.search(build, GROUPS, n=4096, fit=fit, trials=14).optimizer == "exhaustive"
    assert lpp.search(build, GROUPS, n=4096, fit=fit, trials=13).optimizer == "tpe"
    monkeypatch.setattr(searching, "MAX_EXHAUSTIVE", 13)
    assert lpp.search(build, GROUPS, n=4096, fit=fit).optimizer == "tpe"


# }}}


# {{{ Optuna


def test_tpe_ranks_the_points_of_its_trials(fit):
    found = lpp.search(build, GROUPS, n=4096, fit=fit, optimizer="tpe", trials=10)
    every = lpp.search(build, GROUPS, n=4096, fit=fit)
    assert (len(found.trials), found.points, found.optimizer) == (10, 14, "tpe")
    requested = {each.name for each in found.trials}
    assert len(requested) == 10
    assert list(found.ranking.seconds.items()) == [
        pair for pair in every.ranking.seconds.items() if pair[0] in requested
    ]
    assert found.ranking.failures == {name: TWENTY for name in every.ranking.failures if name in requested}
    assert found.ranking.order[0] == found.ranking.best
    assert build(**found.best).default_entrypoint.name in ("doubled", "summed_2")


def test_as_many_trials_as_points_give_the_exhaustive_ranking(fit):
    every = lpp.search(build, GROUPS, n=4096, fit=fit)
    for optimizer in ("tpe", "random", optuna.samplers.NSGAIISampler(seed=1)):
        found = lpp.search(build, GROUPS, n=4096, fit=fit, optimizer=optimizer, trials=1000)
        assert list(found.ranking.seconds.items()) == list(every.ranking.seconds.items())
        assert found.ranking.failures == every.ranking.failures
        assert found.ranking.ties == every.ranking.ties


@pytest.mark.parametrize("optimizer", ["tpe", "random"])
def test_seed_determines_the_points(fit, optimizer):
    def points(seed: int) -> list[str]:
        found = lpp.search(build, GROUPS, n=4096, fit=fit, optimizer=optimizer, trials=9, seed=seed)
        return [each.name for each in found.trials]

    assert points(1) == points(1)
    assert len({tuple(points(seed)) for seed in range(5)}) > 1


def test_any_optuna_sampler_is_accepted(fit):
    sampler = optuna.samplers.RandomSampler(seed=5)
    found = lpp.search(build, GROUPS, n=4096, fit=fit, optimizer=sampler, trials=9)
    named = lpp.search(build, GROUPS, n=4096, fit=fit, optimizer="random", seed=5, trials=9)
    assert found.optimizer == "RandomSampler"
    assert found.trials == named.trials


def test_optuna_logs_nothing_and_keeps_its_verbosity(fit):
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    optuna.logging.set_verbosity(optuna.logging.INFO)
    logging.getLogger("optuna").addHandler(handler)
    try:
        lpp.search(build, GROUPS, n=4096, fit=fit, optimizer="tpe", trials=12)
        assert optuna.logging.get_verbosity() == optuna.logging.INFO
    finally:
        logging.getLogger("optuna").removeHandler(handler)
    assert records == []


# }}}


# {{{ executors


def deadly(group: int):
    """Kill the process that builds groups of 12."""
    if group == 12:
        os._exit(7)
    return build(group)


def test_point_that_kills_its_process_is_a_failure(fit):
    with ProcessPoolExecutor(2) as executor:
        found = lpp.search(
            deadly, {"group": GROUPS["group"]}, n=4096, fit=fit, optimizer="tpe", trials=7, executor=executor
        )
    assert found.ranking.failures == {
        "group=12": "the worker process died (exit status 7)",
        "group=20": TWENTY,
    }
    assert found.best == {"group": 48}
    assert any("the executor died" in note for note in found.ranking.notes)


# }}}


# {{{ output


def test_best_so_far_never_rises(fit):
    found = lpp.search(build, {"group": (20, 8, 32, 16)}, n=4096, fit=fit)
    seconds = found.ranking.seconds
    assert found.best_so_far == (inf, seconds["group=8"], seconds["group=32"], seconds["group=32"])
    assert found.trials_until(found.seconds) == 3
    assert found.trials_until(seconds["group=8"]) == 2
    assert found.trials_until(0.0) is None


def test_search_converts_to_text_and_plain_values(fit):
    found = lpp.search(build, {"group": (20, 8, 32)}, n=4096, fit=fit)
    assert " ".join(str(found).split()).startswith(
        "3 of 3 points by exhaustive (n=4096) on made-up-1, model linear: group=32, trial 3, takes at least 5.22 µs"
    )
    document = json.loads(json.dumps(found.to_dict()))
    assert document["trials"][0] == {"name": "group=20", "choice": {"group": 20}, "seconds": None}
    assert document["ranking"] == found.ranking.to_dict()
    assert pickle.loads(pickle.dumps(found)).best == found.best


def test_search_of_only_failures_has_no_best(fit):
    found = lpp.search(build, {"group": (20, 28)}, n=4096, fit=fit, optimizer="tpe")
    assert found.best_so_far == (inf, inf)
    assert "none could be predicted" in " ".join(str(found).split())
    for figure in (lambda: found.best, lambda: found.seconds):
        with pytest.raises(ParameterError, match="groups of 28 do not divide 96"):
            figure()


# }}}


# {{{ invalid options


def untouched(group: int):
    raise AssertionError("nothing is built for a question that makes no sense")


def test_invalid_options_are_refused_before_building(subtests: pytest.Subtests):
    for options, error, message in [
        (
            {"optimizer": "crystal ball"},
            ParameterError,
            "unknown optimizer 'crystal ball'; choose from exhaustive, tpe",
        ),
        ({"optimizer": 5}, ParameterError, "an Optuna sampler, got 5"),
        ({"optimizer": optuna.samplers.TPESampler}, ParameterError, "an Optuna sampler, got <class"),
        ({"optimizer": optuna.samplers.GridSampler({"group": [0, 1]})}, ParameterError, "use optimizer='exhaustive'"),
        ({"trials": 0}, ParameterError, "trials must be an integer >= 1, got 0"),
        ({"trials": 2.5}, ParameterError, "trials must be an integer >= 1, got 2.5"),
        ({"trials": True}, ParameterError, "trials must be an integer >= 1, got True"),
        ({"batch": 0}, ParameterError, "batch must be an integer >= 1, got 0"),
        ({"optimizer": "exhaustive", "trials": 2}, ParameterError, "evaluates all 3 points, got trials=2"),
        ({"optimizer": "tpe", "seed": -1}, ParameterError, "seed must be an integer .* got -1"),
        ({"optimizer": "tpe", "seed": 0.5}, ParameterError, "seed must be an integer .* got 0.5"),
        ({"optimizer": "tpe", "model": "sampled"}, ParameterError, "but ranking does not"),
        ({"optimizer": "tpe", "model": "crystal ball"}, UnknownModelError, "choose one of"),
        ({"optimizer": "tpe", "device": "no such device"}, UnknownDeviceError, "no-such-device"),
        ({"optimizer": "tpe", "parameters": {"n": 5}}, ParameterError, "given twice"),
        ({"parameters": {"n": 5}}, ParameterError, "given twice"),
    ]:
        with subtests.test(options=options, error=error, message=message), pytest.raises(error, match=message):
            lpp.search(untouched, {"group": (8, 16, 32)}, **ON_TITAN | options)


def test_only_exhaustive_searches_work_without_optuna(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for optimizer in ("tpe", "random", object()):
        with pytest.raises(LoopyperfError, match=r"needs Optuna, .* pip install 'loopyperf\[search\]'"):
            lpp.search(untouched, {"group": (8, 16)}, n=4096, fit=fit, optimizer=optimizer)
    assert lpp.search(build, {"group": (8, 16)}, n=4096, fit=fit).best == {"group": 16}


def test_optuna_is_imported_only_when_it_is_needed():
    code = (
        "import sys\n"
        "import loopyperf as lpp\n"
        "from tests import kernels\n"
        "lpp.search(kernels.doubled, {'group': (16, 32)}, n=64, device='nvidia-titan-v', model='roofline')\n"
        "print('optuna' in sys.modules)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    run = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


# }}}
