"""The hot loop in machine code does what it does in Python, from wherever it takes over."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scenarios import executions, graphs, lambdas, limits, policies

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution
from loopyperf.pipeline.core import FUNCTIONS, InPython, Run, in_python, machine_code, run
from loopyperf.pipeline.scenario import Scenario, scheduler_named


def scenario(graph: Idg, timing: dict[str, Lambdas], execution: Execution, policy: str, limit: object) -> Scenario:
    return Scenario.of((graph,), timing, execution, scheduler_named(policy), limit)  # type: ignore[arg-type]


def run_in_python(given_one: Scenario) -> Run:
    """Return the run of which no instruction is issued by machine code."""
    before = in_python.made
    found = run(given_one, given_one.clock, is_traced=True, is_steady_sought=False, most_in_python=10**6)
    assert in_python.made - before == found.issued < 10**6
    return found


@settings(max_examples=100)
@given(graphs(), lambdas, executions, policies, limits, st.integers(0, 20))
def test_run_may_be_cut_anywhere(
    graph: Idg, timing: dict[str, Lambdas], execution: Execution, policy: str, limit: object, cut: int
) -> None:
    """The first part is run in Python, the others in machine code."""
    given_one = scenario(graph, timing, execution, policy, limit)
    whole = run_in_python(given_one)
    before = in_python.made
    parts = run(given_one, given_one.clock, is_traced=True, is_steady_sought=False, most_in_python=cut)
    assert in_python.made - before == min(cut, whole.issued)
    assert (whole.trace == parts.trace).all()
    assert replace(whole, trace=parts.trace) == parts


def test_each_function_comes_after_those_that_it_calls() -> None:
    known: set[str] = set()
    names = {function.__name__ for function in FUNCTIONS}
    for function in FUNCTIONS:
        assert not names & set(function.__code__.co_names) - known - {function.__name__}, function.__name__
        known.add(function.__name__)


def test_run_in_machine_code_is_that_in_python() -> None:
    graph = Idg.from_edges(["alu", "mem", "alu"], [(0, 1), (1, 2), (2, 0, 1)], trips=300)
    given_one = scenario(graph, {"alu": Lambdas(0.25, 6), "mem": Lambdas(12, 378)}, Execution(4, 4, 8), "quantum", 4)
    whole = run_in_python(given_one)
    assert whole.issued == 300 * 3 * 32
    for most in (0, 20_000):
        found = run(given_one, given_one.clock, is_traced=True, is_steady_sought=False, most_in_python=most)
        assert np.array_equal(whole.trace, found.trace)
        assert (whole.finish, whole.busy) == (found.finish, found.busy)


def test_machine_code_takes_over_after_many_issues_of_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Idg.from_edges(["alu", "mem"], [(0, 1)])
    short = scenario(graph, {"alu": Lambdas(1, 6), "mem": Lambdas(2, 9)}, Execution(1, 4, 4), "oldest-first", None)
    process = InPython(most=20)
    monkeypatch.setattr("loopyperf.pipeline.core.in_python", process)
    monkeypatch.setattr("loopyperf.pipeline.core.machine_code", cache(machine_code.__wrapped__))
    made = [(run(short, short.clock).finish, process.made) for _ in range(4)]
    assert [in_python for _, in_python in made] == [8, 16, 20, 20]
    assert len({finish for finish, _ in made}) == 1


def test_nothing_is_left_to_make_in_python_where_machine_code_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = cache(machine_code.__wrapped__)
    monkeypatch.setattr("loopyperf.pipeline.core.machine_code", loaded)
    assert InPython(most=20, made=5).left == 15
    loaded()
    assert InPython(most=20, made=5).left == 0
