"""The compiled core and the one in Python do the same, and what is not simulated is within the tolerance."""

from dataclasses import replace
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scenarios import executions, graphs, lambdas, limits, long_graphs, policies

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import SlowSimulatorWarning
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution, core, simulate
from loopyperf.pipeline.core import Run, run
from loopyperf.pipeline.scenario import Scenario, scheduler_named


def in_python(scenario: Scenario, **choices: Any) -> Run:
    """Return the run of the core in Python."""
    with patch.object(core, "compiled", lambda: None):
        return run(scenario, scenario.clock, **choices)


@st.composite
def scenarios(draw: Any, has_loop: bool) -> Scenario:
    """Draw some warps with programs of all sorts, and many groups or a long loop."""
    execution: Execution = draw(executions)
    number = draw(st.sampled_from([1, 1, execution.warps_per_group]))
    kinds = tuple(draw(long_graphs() if has_loop else graphs()) for _ in range(number))
    execution = execution if has_loop else replace(execution, total_groups=execution.total_groups * 15)
    return Scenario.of(kinds, draw(lambdas), execution, scheduler_named(draw(policies)), draw(limits))


@settings(max_examples=80)
@given(st.booleans().flatmap(scenarios), st.sampled_from([0.0, 0.005, 0.2]))
def test_both_cores_do_the_same(scenario: Scenario, tolerance: float) -> None:
    for choices in ({"is_traced": True, "is_steady_sought": False}, {"is_traced": True}, {"tolerance": tolerance}):
        ours, theirs = run(scenario, scenario.clock, **choices), in_python(scenario, **choices)
        assert (ours.trace == theirs.trace).all()
        assert replace(ours, trace=theirs.trace) == theirs


def test_a_core_that_is_not_compiled_answers_with_a_warning() -> None:
    graph = Idg.from_edges(["alu", "mem"], [(0, 1)], trips=50)
    timing = {"alu": Lambdas(1, 6), "mem": Lambdas(2, 9)}
    expected = simulate(graph, timing, Execution(2, 2, 8))
    core.compiled.cache_clear()
    try:
        failure = patch.object(core, "import_module", side_effect=ImportError("no such module"))
        with failure, pytest.warns(SlowSimulatorWarning):
            found = simulate(graph, timing, Execution(2, 2, 8))
    finally:
        core.compiled.cache_clear()
    assert found == expected


def test_threads_simulate_at_once() -> None:
    graph = Idg.from_edges(["alu", "mem", "alu"], [(0, 1), (1, 2), (2, 0, 1)], trips=300)
    scenario = Scenario.of(
        (graph,), {"alu": Lambdas(0.25, 6), "mem": Lambdas(12, 378)}, Execution(4, 4, 8), scheduler_named("quantum"), 4
    )
    found = list[Run]()
    threads = [Thread(target=lambda: found.append(run(scenario, scenario.clock))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(each.finish, each.issued, each.busy) for each in found}) == 1
    assert len(found) == 8
