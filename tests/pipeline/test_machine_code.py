"""The hot loop in machine code does what it does in Python, from wherever it takes over."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scenarios import executions, graphs, lambdas, limits, policies

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution
from loopyperf.pipeline.core import run
from loopyperf.pipeline.machine_code import FUNCTIONS
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.schedulers import scheduler_named


def scenario(graph: Idg, timing: dict[str, Lambdas], execution: Execution, policy: str, limit: object) -> Scenario:
    return Scenario((graph,), timing, execution, scheduler_named(policy), limit)  # type: ignore[arg-type]


@settings(max_examples=100)
@given(graphs(), lambdas, executions, policies, limits, st.integers(1, 20))
def test_run_may_be_cut_anywhere(
    graph: Idg, timing: dict[str, Lambdas], execution: Execution, policy: str, limit: object, chunk: int
) -> None:
    """The first part is run in Python, the others in machine code."""
    given_one = scenario(graph, timing, execution, policy, limit)
    whole = run(given_one, given_one.clock, is_traced=True)
    parts = run(given_one, given_one.clock, is_traced=True, chunk=chunk)
    assert (whole.trace == parts.trace).all()
    assert replace(whole, trace=parts.trace) == parts


def test_each_function_comes_after_those_that_it_calls() -> None:
    known: set[str] = set()
    names = {function.__name__ for function in FUNCTIONS}
    for function in FUNCTIONS:
        assert not names & set(function.__code__.co_names) - known - {function.__name__}, function.__name__
        known.add(function.__name__)


def test_machine_code_takes_over_where_a_run_is_long() -> None:
    graph = Idg.from_edges(["alu", "mem", "alu"], [(0, 1), (1, 2), (2, 0, 1)], trips=300)
    given_one = scenario(graph, {"alu": Lambdas(0.25, 6), "mem": Lambdas(12, 378)}, Execution(4, 4, 8), "quantum", 4)
    whole = run(given_one, given_one.clock, is_traced=True, chunk=10**6)
    assert whole.issued == 300 * 3 * 32 > 20_000
    found = run(given_one, given_one.clock, is_traced=True)
    assert np.array_equal(whole.trace, found.trace)
    assert (whole.finish, whole.busy) == (found.finish, found.busy)
