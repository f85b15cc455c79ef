"""rank, search and the methods of a ranking refuse invalid options before any work."""

from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.errors import ParameterError
from tests.kernels import doubled
from tests.measurement.synthetic import SyntheticBackend

ON_TITAN: dict[str, Any] = {"n": 64, "device": "nvidia-titan-v", "model": "roofline"}


def untouched(group: int = 16) -> lp.TranslationUnit:
    raise AssertionError("nothing is built for a question that makes no sense")


class Client:
    """A stand-in for dask's client, which is not an executor: its futures are not those of concurrent.futures."""

    def submit(self, function: Any, *arguments: Any) -> object:
        return object()

    def get_executor(self) -> object:
        return object()


OPTIONS = {
    "executor, a number": ({"executor": 4}, "executor must be a concurrent.futures executor, .* got 4"),
    "executor, a name": ({"executor": "processes"}, "executor must be a concurrent.futures executor"),
    "executor, a class": ({"executor": ProcessPoolExecutor}, "executor must be a concurrent.futures executor"),
    "executor, a client of dask's": ({"executor": Client()}, r"pass its get_executor\(\)"),
    "time limit, a text": ({"time_limit": "10"}, "the time limit must be above 0 .* got '10'"),
    "time limit, infinite": ({"time_limit": float("inf")}, "got inf; omit it for no limit"),
    "time limit, ages": ({"time_limit": 1e12}, "omit it for no limit"),
    "time limit, no number": ({"time_limit": float("nan")}, "the time limit must be above 0"),
    "time limit, True": ({"time_limit": True}, "the time limit must be above 0"),
    "parameters, a number": ({"parameters": 5}, "parameters must be a mapping"),
    "bounds, None": ({"bounds": None, "top": 1}, "bounds must be a list of names"),
    "bounds, a number": ({"bounds": 5, "top": 1}, "bounds must be a list of names"),
    "bounds, of numbers": ({"bounds": [5], "top": 1}, "got the item 5"),
    "bounds, another model": (
        {"bounds": ["mwp-cwp"], "top": 1},
        "bound 'mwp-cwp' is a model, but not a lower bound",
    ),
    "top, a fraction": ({"top": 2.5}, "top must be an integer >= 1, got 2.5"),
    "top, True": ({"top": True}, "top must be an integer >= 1, got True"),
    "typical, a number": ({"typical": 5}, "typical must map keywords to values"),
    "typical, of numbers": ({"typical": {5: 5}}, "the keyword 5"),
    "size, a text": ({"n": "abc"}, "size n must be an integer, got 'abc'"),
    "size, a fraction": ({"n": 1.5}, "size n must be an integer, got 1.5"),
    "size, True": ({"n": True}, "size n must be an integer"),
    "size, an array": ({"n": np.array([64, 128])}, "one size at a time"),
    "size, a list": ({"extents": [64]}, "one size at a time, got extents="),
    "model, a number": ({"model": 5}, "model must be a name"),
    "device, a number": ({"device": 5}, "device must be a name"),
    "fit, a number": ({"fit": 5}, "fit must be a fit"),
}


def test_rank_refuses_invalid_options_before_building(subtests: pytest.Subtests):
    for mistake in OPTIONS:
        with subtests.test(mistake=mistake):
            options, message = OPTIONS[mistake]
            with pytest.raises(ParameterError, match=message):
                lpp.rank({"untouched": untouched}, **ON_TITAN | options)


def test_search_refuses_invalid_options_before_building(subtests: pytest.Subtests):
    for optimizer in ["exhaustive", "tpe"]:
        for mistake in OPTIONS:
            with subtests.test(optimizer=optimizer, mistake=mistake):
                options, message = OPTIONS[mistake]
                if optimizer == "tpe" and "bounds" in options:
                    message += "|bounds= and top= require an exhaustive search"
                with pytest.raises(ParameterError, match=message):
                    lpp.search(untouched, {"group": (16, 32)}, optimizer=optimizer, **ON_TITAN | options)


def test_executor_needs_only_submit():
    class Direct:
        def submit(self, function: Any, *arguments: Any) -> "Future[Any]":
            future: Future[Any] = Future()
            future.set_result(function(*arguments))
            return future

    assert lpp.rank({"a": doubled}, executor=Direct(), **ON_TITAN).order == ("a",)


@pytest.fixture(scope="module")
def ranking() -> lpp.Ranking:
    uncertainty = Uncertainty((0.1, 0.2, 0.3, 0.4), (), ((0.0,),), deviations=(-0.01, 0.0, 0.01))
    fit = lpp.Fit(
        model="linear",
        device="Made Up 1",
        slug="made-up-1",
        counting="executed",
        weights={"f32 mul": 1e-9, "work-groups": 1e-9},
        uncertainty=uncertainty,
    )
    return lpp.rank({f"g{group}": partial(doubled, group=group) for group in (16, 32, 64)}, n=4096, fit=fit)


MEASURE_OPTIONS = {
    "a fraction": ({"top": 2.5}, ">= 1 or a list of names, got 2.5"),
    "None": ({"top": None}, ">= 1 or a list of names, got None"),
    "nothing": ({"top": 0}, ">= 1 or a list of names, got 0"),
    "all but one": ({"top": -1}, ">= 1 or a list of names, got -1"),
    "True": ({"top": True}, ">= 1 or a list of names, got True"),
    "a name": ({"top": "g16"}, "a list of names, got 'g16'"),
    "an empty list": ({"top": []}, "top is an empty list"),
    "a stranger": ({"top": ["g5"]}, "no estimate of 'g5'"),
    "a backend that is none": ({"backend": 5}, "backend must be 'opencl', 'cuda' or an open backend, got 5"),
    "arguments that are none": ({"arguments": 5}, "arguments must be a mapping"),
    "a protocol that is none": ({"protocol": 5}, "protocol must be a .*Protocol, got 5"),
}


@pytest.mark.parametrize("mistake", MEASURE_OPTIONS)
def test_measure_refuses_invalid_options_before_running(mistake, ranking):
    def untimed(_: object) -> float:
        raise AssertionError("nothing is run for a question that makes no sense")

    options, message = MEASURE_OPTIONS[mistake]
    with pytest.raises(ParameterError, match=message):
        ranking.measure(**{"backend": SyntheticBackend(untimed)} | options)


def test_variant_named_twice_is_measured_once(ranking):
    found = ranking.measure(SyntheticBackend(lambda _: 1e-6), top=["g16", "g16"])
    assert len(found.measurements) == 1
