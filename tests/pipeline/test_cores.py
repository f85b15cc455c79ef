"""The compiled core and the Python core agree, and extrapolated runs stay within the tolerance.

``test_steady_state`` compares runs that skip periodic parts with complete ones.
"""

import os
from dataclasses import replace
from fractions import Fraction
from random import Random
from threading import Thread
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import SimulationError
from loopyperf.idg import Idg
from loopyperf.idg.program import Edge, Instruction, Loop
from loopyperf.pipeline import SCHEDULERS, Execution, simulate, simulator
from loopyperf.pipeline.scenario import Clock, Scenario, Scheduler, scheduler_named
from loopyperf.pipeline.simulator import CoreRun, NoSteadyStateError, run
from loopyperf.pipeline.timed_graph import KEPT_ITERATIONS, with_fewer_iterations
from loopyperf.polyhedral.affine import Affine
from tests.pipeline.python_core import PythonCore
from tests.pipeline.random_scenarios import (
    FAR,
    POLICIES,
    SORTS,
    executions,
    graphs,
    lambdas,
    limits,
    long_graphs,
    policies,
    warp_graphs,
)


@settings(max_examples=80)
@given(st.data(), executions, lambdas, policies, limits)
def test_compiled_and_python_cores_agree(
    data: Any, execution: Execution, timing: dict[str, Lambdas], policy: str, limit: Any
) -> None:
    if data.draw(st.booleans()):
        number = data.draw(st.sampled_from([1, 1, execution.warps_per_group]))
        programs = tuple(data.draw(long_graphs()) for _ in range(number))
    else:
        programs = data.draw(warp_graphs(execution.warps_per_group))
        execution = replace(execution, total_groups=execution.total_groups * 15)
    scenario = Scenario.of(programs, timing, execution, scheduler_named(policy), limit)
    options = {"is_traced": True, "is_steady_sought": False}
    ours = run(scenario, scenario.clock, **options)
    with patch.object(simulator, "CompiledCore", PythonCore):
        theirs = run(scenario, scenario.clock, **options)
    assert (ours.trace == theirs.trace).all()
    assert replace(ours, trace=theirs.trace) == theirs


def test_unlike_groups_that_follow_each_other_take_as_long_as_each_alone() -> None:
    # Half of the programs keep many results, so that ring buffers of unlike sizes follow each other in a slot. When a
    # group is complete, each pipeline is free, because λ <= Λ; without an issue limit, nothing else lasts longer.
    programs = list[tuple[Idg, dict[str, Lambdas]]]()

    @seed(1)
    @settings(max_examples=150, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.sampled_from([FAR, SORTS]).flatmap(graphs), lambdas)
    def draw(graph: Idg, timing: dict[str, Lambdas]) -> None:
        programs.append((graph, timing))

    draw()
    random = Random(1)
    for _ in range(int(os.environ.get("LOOPYPERF_RANDOM_PAIRS", 150))):
        (one, timing), (other, _) = random.choices(programs, k=2)
        warps, policy = random.randint(1, 3), scheduler_named(random.choice(POLICIES))

        alone = [_cycles((each,), timing, Execution(warps, 1, 1), policy) for each in (one, other)]
        both = (one,) * warps + (other,) * warps
        assert _cycles(both, timing, Execution(warps, 1, 4), policy) == 2 * sum(alone)


def _cycles(graphs: tuple[Idg, ...], timing: dict[str, Lambdas], execution: Execution, policy: Scheduler) -> Fraction:
    scenario = Scenario.of(graphs, timing, execution, policy)
    return Fraction(run(scenario, scenario.clock).finish, scenario.clock.ticks_per_cycle)


@pytest.mark.parametrize(
    "failure",
    [
        patch.object(simulator, "import_module", side_effect=ImportError("no such module")),
        patch.object(simulator, "_digest", return_value="another source"),
    ],
    ids=["none", "another source"],
)
def test_missing_compiled_core_is_an_error_that_says_how_to_build_it(failure: Any) -> None:
    graph = Idg.from_edges(["alu"], [], trips=50)
    simulator.compiled_core.cache_clear()
    try:
        with failure, pytest.raises(SimulationError, match=r"not compiled \(.*wheel.* C compiler: pip install"):
            simulate(graph, {"alu": Lambdas(1, 6)}, Execution(2, 2, 8))
    finally:
        simulator.compiled_core.cache_clear()


def test_graphs_that_differ_only_in_subsystems_are_distinguished() -> None:
    graph = Idg.from_edges(["alu", "mem", "alu"], [(0, 1), (1, 2), (2, 0, 1)], trips=30)
    timing = {"alu": Lambdas(1, 6), "mem": Lambdas(12, 378)}
    merged = replace(graph, instructions=tuple(replace(each, subsystem="alu") for each in graph.instructions))
    fast = Idg.from_edges(["alu", "alu", "alu"], [(0, 1), (1, 2), (2, 0, 1)], trips=30)
    first = simulate(graph, timing, Execution(2, 2, 8)).exact_cycles
    assert (
        simulate(merged, timing, Execution(2, 2, 8)).exact_cycles
        == simulate(fast, timing, Execution(2, 2, 8)).exact_cycles
    )
    assert simulate(graph, timing, Execution(2, 2, 8)).exact_cycles == first


def test_concurrent_simulations_agree() -> None:
    graph = Idg.from_edges(["alu", "mem", "alu"], [(0, 1), (1, 2), (2, 0, 1)], trips=300)
    scenario = Scenario.of(
        (graph,), {"alu": Lambdas(0.25, 6), "mem": Lambdas(12, 378)}, Execution(4, 4, 8), scheduler_named("quantum"), 4
    )
    found = list[CoreRun]()
    threads = [Thread(target=lambda: found.append(run(scenario, scenario.clock))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(each.finish, each.issued, each.busy) for each in found}) == 1
    assert len(found) == 8


@pytest.mark.parametrize(
    ("share", "outer", "inner"), [(1.0, 100, 8), (0.1, 10, 8), (0.001, KEPT_ITERATIONS, KEPT_ITERATIONS)]
)
def test_reduced_trip_counts_match_a_program_built_with_them(share: float, outer: int, inner: int) -> None:
    timing = {"alu": Lambdas(1, 18), "mem": Lambdas(3, 100)}

    def nested(outer: int, inner: int) -> Scenario:
        # A chain of loads in the inner loop; an instruction of the outer loop uses its last result
        chain = Edge(0, 0, (0, 1), (Affine.variable("i"), Affine.variable("j", -1)))
        last = Edge(0, 1, (0,), (Affine.variable("i"), Affine((), inner - 1)))
        instructions = (Instruction("mem", subsystem="mem"), Instruction("alu", subsystem="alu"))
        graph = Idg(instructions, (chain, last), (Loop("i", outer, (Loop("j", inner, (0,)), 1)),))
        return Scenario.of((graph,), timing, Execution(2, 2, 6), scheduler_named("round-robin"))

    def ticks(scenario: Scenario) -> int:
        return run(scenario, Clock(1)).finish

    whole = nested(100, 8)
    assert ticks(whole) > ticks(nested(99, 8))
    fewer = tuple(
        replace(each, graph=with_fewer_iterations(each.graph, share, KEPT_ITERATIONS)) for each in whole.programs
    )
    assert ticks(replace(whole, programs=fewer)) == ticks(nested(outer, inner))


# {{{ extrapolation of runs whose issue rate has settled


def long_scenario(random: Random) -> Scenario:
    """Return a scenario of some hundred thousand issues, with latencies that seldom lead to a steady state."""
    size, trips = random.randint(3, 14), random.choice([1, 100, 1000, 4000])
    names = [random.choice(["alu", "alu", "fp64", "mem", "l2", "sfu", "barrier"]) for _ in range(size)]
    edges: list[tuple[int, ...]] = [
        (source, target)
        for target in range(size)
        for source in random.sample(range(target), min(target, random.randint(0, 2)))
    ]
    for _ in range(random.randint(0, 2)):
        source = random.randrange(size)
        edges.append((source, random.randrange(source + 1), random.choice([1, 1, 2])))
    most = {"alu": (2, 20), "fp64": (16, 30), "mem": (30, 700), "l2": (12, 250), "sfu": (8, 40), "barrier": (2, 40)}
    timing = {
        name: Lambdas(random.randint(64, 64 * issue) / 64, random.randint(64 * issue, 64 * completion) / 64)
        for name, (issue, completion) in most.items()
    }
    number = random.choice([1, 4, 30, 200] if trips > 1 else [1000, 5000])
    execution = Execution(random.choice([1, 2, 4, 8]), random.choice([1, 2, 4, 8]), number)
    policy, limit = scheduler_named(random.choice(list(SCHEDULERS))), random.choice([None, 1, 2])
    found = Scenario.of((Idg.from_edges(names, edges, trips=trips),), timing, execution, policy, limit)
    (program,) = found.programs
    return replace(found, programs=(replace(program, runs=(float(trips),) * size),))


def relative_error(scenario: Scenario) -> float | None:
    """Return the relative error of a run with a tolerance; None if it is exact, or if the exact run is too long."""
    try:
        exact = run(scenario, scenario.clock, limit=4_000_000)
    except NoSteadyStateError:
        return None
    found = run(scenario, scenario.clock, tolerance=0.005)
    assert (found.settled > 0) == (found.tolerance > 0)
    assert found.settled or (found.finish, found.issued) == (exact.finish, exact.issued)
    return abs(found.finish / exact.finish - 1) if found.settled else None


@pytest.mark.parametrize("number", [250, pytest.param(2000, marks=pytest.mark.slow)])
def test_extrapolation_error_is_within_the_tolerance(number: int) -> None:
    # Of 2,000 scenarios, 112 are extrapolated. 20 of these are off by more than 0.5 %, the worst by 8.8 %: a few waves
    # of groups whose warps the scheduler prioritizes differently, so that a few iterations do not show their exact
    # rates.
    random = Random(1)
    found = [relative_error(long_scenario(random)) for _ in range(number)]
    errors = np.array([each for each in found if each is not None])
    assert len(errors) > number / 50
    assert np.percentile(errors, 50) < 0.004
    assert np.percentile(errors, 90) < 0.015
    assert max(errors) < 0.1
    assert (errors > 0.005).sum() < number / 40


# }}}
