"""Properties that hold for every graph, policy and limit."""

import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError, LoopyperfError, OccupancyError, SimulationError
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline import (
    Execution,
    Profile,
    Scheduler,
    execution_on,
    execution_profile,
    simulate,
    warp_latency,
    what_if,
)
from loopyperf.pipeline.scenario import Order
from loopyperf.polyhedral.affine import Affine
from tests.pipeline.random_scenarios import SUBSYSTEMS, executions, graphs, lambdas, limits, policies


@settings(max_examples=200)
@given(graphs(), lambdas, st.integers(1, 4), policies, limits)
def test_run_takes_at_least_one_warp_the_busiest_subsystem_and_all_issues(
    graph: Idg, timing: dict[str, Lambdas], groups: int, policy: str, limit: Any
) -> None:
    execution = Execution(2, groups, groups)
    found = simulate(graph, timing, execution, scheduler=policy, issue_limit=limit)
    flat = graph.unrolled()
    number = Counter(each.subsystem for each in flat.instructions)
    busiest = max((each * Fraction(str(timing[name].issue)) for name, each in number.items()), default=Fraction(0))
    assert found.exact_cycles >= execution.concurrent_warps * busiest
    if limit is not None:
        assert found.exact_cycles >= (execution.concurrent_warps * len(flat.instructions) - 1) / limit
    alone = simulate(graph, timing, Execution(1, 1, 1), scheduler=policy)
    assert found.exact_cycles >= alone.exact_cycles
    assert alone.exact_cycles == warp_latency(graph, timing)


# {{{ slower instructions


@settings(max_examples=200)
@given(graphs(), lambdas, policies, limits, st.sampled_from(SUBSYSTEMS), st.sampled_from([(2, 1), (1, 2), (2, 2)]))
def test_one_warp_in_order_is_monotone_in_every_latency(
    graph: Idg, timing: dict[str, Lambdas], policy: str, limit: Any, name: str, times: tuple[int, int]
) -> None:
    before = timing[name]
    slower = {**timing, name: Lambdas(before.issue * times[0], before.completion * times[1])}
    fast, slow = (
        simulate(graph, each, Execution(1, 1, 1), scheduler=policy, issue_limit=limit).exact_cycles
        for each in (timing, slower)
    )
    assert fast <= slow


def test_several_warps_may_be_faster_with_a_slower_pipeline() -> None:
    # A scheduling anomaly (Graham, Bounds on multiprocessing timing anomalies, 1969). Each warp issues b and then a,
    # which occupies its pipeline for 2 cycles; the core issues once per cycle. With λ = 1 of b, the second warp's b
    # issues before the first warp's a, whose turn is later: b 0, b 1, a 2, a 4, complete at 6. With λ = 2, the second b
    # has to wait until 2, and the first warp's a issues at 1: b 0, a 1, b 2, a 3, complete at 5.
    pair = Idg.from_edges(["b", "a"], [])
    fast, slow = (
        simulate(pair, {"b": Lambdas(issue, 2), "a": Lambdas(2, 2)}, Execution(1, 2, 2), issue_limit=1).cycles
        for issue in (1, 2)
    )
    assert (fast, slow) == (6, 5)


@pytest.mark.parametrize("policy", ["oldest-first", "greedy-then-oldest", "quantum"])
def test_several_warps_may_be_faster_with_a_longer_latency(policy: str) -> None:
    # The core issues once per cycle; each of three warps issues a and then b, which waits for a. With Λ = 2, the older
    # warps' b are ready when the third warp could issue: a 0, a 1, b 2, b 3, a 4, b 6, complete at 7. With Λ = 3, no b
    # is ready at 2: a 0, a 1, a 2, b 3, b 4, b 5, complete at 6.
    pair = Idg.from_edges(["a", "b"], [(0, 1)])
    short, long = (
        simulate(
            pair, {"a": Lambdas(1, completion), "b": Lambdas(1, 1)}, Execution(1, 3, 3), scheduler=policy, issue_limit=1
        ).cycles
        for completion in (2, 3)
    )
    assert (short, long) == (7, 6)


def test_round_robin_may_be_faster_with_a_longer_latency() -> None:
    # a, a, b, and then a b that waits for the second a and for the first b. Each a occupies its pipeline for 3 cycles:
    # warp 0 issues a 0, a 6, b 6, and warp 1 issues a 3, a 9, and b at 9 or later. With Λ = 3 of a, warp 0's last b is
    # ready at 9 too, and issues first. So warp 1 issues b at 11 and its last b at 14, when that completes: 17. With
    # Λ = 4, warp 0's last b is ready at 10: warp 1's b issues at 9, warp 0's last b at 11, and warp 1's at 13: 16.
    graph = Idg.from_edges(["a", "a", "b", "b"], [(1, 3), (2, 3)])
    short, long = (
        simulate(graph, {"a": Lambdas(3, completion), "b": Lambdas(2, 3)}, Execution(1, 2, 2)).cycles
        for completion in (3, 4)
    )
    assert (short, long) == (17, 16)


# }}}


@settings(max_examples=100)
@given(graphs(), lambdas, executions, policies, limits)
def test_profile_accounts_for_all_cycles(
    graph: Idg, timing: dict[str, Lambdas], execution: Execution, policy: str, limit: Any
) -> None:
    simulation = simulate(graph, timing, execution, scheduler=policy, issue_limit=limit)
    found = execution_profile(simulation)
    assert found.cycles == simulation.exact_cycles
    assert len(found.issues) == simulation.instructions
    for name in simulation.scenario.subsystems:
        busy = sum(_busy_times(found, name), Fraction(0))
        assert all(share >= 0 for share in found.idle[name].values())
        # Computed from the issues: λ of each; all pipelines are free again when everything is complete
        assert found.fill[name] == (busy / found.cycles if found.cycles else 1 - sum(found.idle[name].values()))


def _busy_times(found: Profile, name: str) -> list[Fraction]:
    return [each.free_again - each.time for each in found.issues if each.instruction.subsystem == name]


TRACED = """
from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution, execution_profile, simulate

graph = Idg.from_edges(["alu", "sfu", "barrier", "mem"], [(0, 1), (1, 3), (3, 0, 1)], trips=5)
timing = {name: Lambdas(1.5, 7) for name in ("mem", "sfu", "alu", "barrier")}
found = simulate(graph, timing, Execution(2, 2, 3), issue_limit=1)
print([(each.warp, each.place, each.time) for each in execution_profile(found).issues])
"""


def test_equal_inputs_give_equal_traces_in_every_process() -> None:
    # The order of sets depends on the hash seed of the process.
    traces = {
        subprocess.run(
            [sys.executable, "-c", TRACED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
    assert traces.pop().count("(") > 100


@settings(max_examples=50)
@given(graphs(), lambdas, executions, policies, limits)
def test_waits_of_each_warp_have_no_gaps(
    graph: Idg, timing: dict[str, Lambdas], execution: Execution, policy: str, limit: Any
) -> None:
    """The waits of every warp are contiguous from the start of its group to its last issue."""
    found = execution_profile(simulate(graph, timing, execution, scheduler=policy, issue_limit=limit))
    last: dict[int, Fraction] = {}
    for issue in found.issues:
        previous_end = last.get(issue.warp)
        for wait in issue.waits:
            begin = found.scenario.clock.cycles(wait.begin)
            assert previous_end is None or previous_end == begin
            previous_end = found.scenario.clock.cycles(wait.end)
        assert previous_end is None or previous_end == issue.time
        last[issue.warp] = issue.time


# {{{ invalid input to the simulator raises an error that names the cause

CHAIN = Idg.from_edges(["alu", "mem"], [(0, 1)])
TIMING = {"alu": Lambdas(1, 18), "mem": Lambdas(23, 475)}
ONE = Execution(1, 1, 1)


def of_alu(*body: Any, executions: int = 1) -> Idg:
    """Return a graph of one instruction in the loops of *body*."""
    return Idg((Instruction("alu", subsystem="alu", executions=executions),), (), body)


def nested(trips: str) -> Idg:
    """Return a graph of loops of which the innermost has the given number of trips."""
    return of_alu(Loop("j", 3, (Loop("i", 3, (Loop("j", parse(trips), (0,)),)),)))


COSINE = Idg((Instruction("cos", "f32", "sfu"),), (), (0,))
INVALID: list[tuple[type[LoopyperfError], str, Callable[[], Any]]] = [
    (
        GraphError,
        "cyclic dependence within one iteration: ",
        lambda: simulate(Idg.from_edges(["alu", "alu"], [(0, 1), (1, 0)]), TIMING, ONE),
    ),
    (
        GraphError,
        "instruction 0 waits for 1, which comes later",
        lambda: simulate(Idg(CHAIN.instructions[:2], (Edge(1, 0),), (0, 1)), TIMING, ONE),
    ),
    (GraphError, "no latencies for 'sfu', which executes 'cos f32'", lambda: simulate(COSINE, TIMING, ONE)),
    (OccupancyError, "at least 1 group must be resident", lambda: Execution(8, 0, 100)),
    (SimulationError, "warps_per_group=0, total_groups=1", lambda: Execution(0, 1, 1)),
    (SimulationError, "warps_per_group=1, total_groups=0", lambda: Execution(1, 1, 0)),
    (SimulationError, "warps_per_group=-1, total_groups=1", lambda: Execution(-1, 1, 1)),
    (SimulationError, "cores=0", lambda: execution_on(Any, 100, 0)),
    (
        SimulationError,
        "unknown scheduler 'fifo'; expected one of 'round-robin', 'greedy-then-oldest'",
        lambda: simulate(CHAIN, TIMING, ONE, scheduler="fifo"),
    ),
    (SimulationError, "must be above 0 issues per cycle, got 0", lambda: simulate(CHAIN, TIMING, ONE, issue_limit=0)),
    (
        SimulationError,
        "issue_limit must be above 0 issues per cycle, got nan",
        lambda: simulate(CHAIN, TIMING, ONE, issue_limit=math.nan),
    ),
    (SimulationError, "3 graphs for groups of 2 warps", lambda: simulate([CHAIN] * 3, TIMING, Execution(2, 1, 1))),
    (SimulationError, "at least 0 cycles, got -1", lambda: Scheduler("oldest", -1)),
    (SimulationError, "'newest'; expected one of 'longest wait', 'oldest', 'youngest'", lambda: Scheduler("newest")),
    (
        SimulationError,
        "no instruction runs on 'sfu'",
        lambda: what_if(simulate(CHAIN, TIMING, ONE), lambdas={"sfu": Lambdas(1, 2)}),
    ),
    (
        SimulationError,
        "too long to simulate",
        lambda: simulate(of_alu(Loop("i", 10**19, (0,)), executions=10**19), TIMING, ONE),
    ),
]


def test_invalid_input_is_refused(subtests: pytest.Subtests) -> None:
    for error, message, call in INVALID:
        with subtests.test(message), pytest.raises(error, match=message):
            call()
    for latencies in [(0, 18), (1, 0), (-1, 18), (1, -18), (math.nan, 1), (1, math.inf)]:
        with subtests.test(latencies=latencies), pytest.raises(GraphError, match="latenc"):
            simulate(CHAIN, {"alu": Lambdas(*latencies), "mem": Lambdas(1, 1)}, ONE)
    for rate in [0, -1, math.nan]:
        with subtests.test(rate=rate), pytest.raises(SimulationError, match="above 0"):
            what_if(simulate(CHAIN, TIMING, ONE), rates={CHAIN.instructions[0].subsystem: rate})
    for trips in ["2**i", "i // j", "k"]:
        with subtests.test(trips=trips), pytest.raises(LoopyperfError, match=r"cannot evaluate|no enclosing loop"):
            simulate(nested(trips), TIMING, ONE)


def test_warp_order_may_be_given_by_name() -> None:
    assert Scheduler("oldest") == Scheduler(Order.OLDEST)


def test_edge_from_iteration_before_the_first_is_ignored() -> None:
    # As in the unrolled graph: there is no iteration -1.
    edge = Edge(0, 0, (1,), (Affine.variable("i", -1),))
    graph = Idg((Instruction("alu", subsystem="alu", executions=3),), (edge,), (Loop("i", 3, (0,)),))
    assert simulate(graph, TIMING, ONE).cycles == 3 * 18


# }}}
