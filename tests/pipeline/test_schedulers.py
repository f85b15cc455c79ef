"""Issue orders of the scheduling policies against hand computation.

Time is continuous: no warp issues at a time at which nothing changes.
"""

import heapq
from fractions import Fraction
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from pymbolic import evaluate, parse
from pymbolic.primitives import If, Max, Min, Variable

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError, SimulationError
from loopyperf.idg import Idg
from loopyperf.pipeline import SCHEDULERS, Execution, Scheduler, execution_profile, group_times, simulate
from loopyperf.pipeline.batches import Machines
from loopyperf.pipeline.encoding import PASS, operations_of
from loopyperf.pipeline.scenario import clock_for, rational
from tests.pipeline.python_core import value_of
from tests.pipeline.random_scenarios import executions, graphs, lambdas, limits, policies

TIMING = {"alu": Lambdas(1, 1), "slow": Lambdas(1, 5)}
INDEPENDENT = Idg.from_edges(["alu"] * 3, [])
"""three instructions; a warp can issue one of them per cycle"""


def issue_order(graph: Idg, scheduler: str | Scheduler, warps: int = 3, groups: int = 1) -> str:
    """Return the warps in the order in which they issue."""
    simulation = simulate(graph, TIMING, Execution(warps, groups, groups), scheduler=scheduler)
    return "".join(str(issue.warp) for issue in execution_profile(simulation).issues)


def test_round_robin_takes_turns() -> None:
    assert issue_order(INDEPENDENT, "round-robin") == "012012012"


def test_oldest_first_and_greedy_finish_one_warp_after_the_other() -> None:
    assert issue_order(INDEPENDENT, "oldest-first") == "000111222"
    assert issue_order(INDEPENDENT, "greedy-then-oldest") == "000111222"


def test_youngest_starts_with_the_last_warp_of_the_last_group() -> None:
    assert issue_order(INDEPENDENT, "greedy-then-youngest") == "222111000"
    # One-warp groups, two at once: the last one started last.
    assert issue_order(INDEPENDENT, "greedy-then-youngest", warps=1, groups=2) == "111000"


def test_greedy_keeps_its_warp_while_oldest_first_switches_back() -> None:
    # slow, then two alu that wait for it. Warp 0 issues slow at 0, warp 1 at 1 and warp 2 at 2; each is ready 5 cycles
    # later: 0 at 5, 1 at 6, 2 at 7. At 6, warp 0 has an alu left: both policies choose it. At 7, warps 1 and 2 are
    # ready.
    graph = Idg.from_edges(["slow", "alu", "alu"], [(0, 1), (0, 2)])
    assert issue_order(graph, "oldest-first") == "012" + "00" + "11" + "22"
    # The policies differ only with independent alu instructions in the youngest warp, while the older one waits.
    late = Idg.from_edges(["slow", "alu"], [(0, 1)])
    early = Idg.from_edges(["alu"] * 8, [])
    execution = Execution(2, 1, 1)
    found = {
        name: "".join(
            str(issue.warp)
            for issue in execution_profile(simulate([late, early], TIMING, execution, scheduler=name)).issues
        )
        for name in SCHEDULERS
    }
    # Warp 0 issues slow at 0. Warp 1 issues its first alu at the same time, and further ones at 1 to 4. At 5, warp 0 is
    # ready too.
    assert found["oldest-first"] == "0" + "1" * 5 + "0" + "1" * 3
    assert found["greedy-then-oldest"] == "0" + "1" * 8 + "0"
    assert found["greedy-then-youngest"] == "10" + "1" * 7 + "0"
    assert found["round-robin"] == found["oldest-first"]


def test_warp_issues_for_its_quantum_before_the_others_take_turns() -> None:
    six = Idg.from_edges(["alu"] * 6, [])
    assert issue_order(six, Scheduler("oldest", 2)) == "00112200112200112 2".replace(" ", "")
    assert issue_order(six, Scheduler("oldest", 4)) == "0000" + "1111" + "2222" + "00" + "11" + "22"


def test_blocked_warp_is_followed_by_the_oldest_group() -> None:
    # Dao, section 4. A chain blocks at each instruction, and the first ready warp of the oldest group is next: the
    # third of three warps does not start while two keep a pipeline of Λ = 2 busy.
    chain = Idg.from_edges(["pipe"] * 3, [(0, 1), (1, 2)])
    simulation = simulate(chain, {"pipe": Lambdas(1, 2)}, Execution(1, 3, 3), scheduler="quantum")
    assert [issue.warp for issue in execution_profile(simulation).issues] == [0, 1, 0, 1, 0, 1, 2, 2, 2]
    fair = simulate(chain, {"pipe": Lambdas(1, 2)}, Execution(1, 3, 3), scheduler="round-robin")
    assert [issue.warp for issue in execution_profile(fair).issues] == [0, 1, 2] * 3
    assert simulation.cycles > fair.cycles


def test_new_warp_queues_behind_waiting_warps() -> None:
    # One-warp groups of two independent alu, two at a time. Both issue in turn; warp 0 completes at 3, warp 1 at 4.
    two = Idg.from_edges(["alu"] * 2, [])
    simulation = simulate(two, TIMING, Execution(1, 2, 4))
    assert [issue.warp for issue in execution_profile(simulation).issues] == [0, 1, 0, 1, 2, 3, 2, 3]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_policies_do_not_affect_a_single_warp(name: str) -> None:
    graph = Idg.from_edges(["slow", "alu", "alu"], [(0, 1), (0, 2)])
    assert simulate(graph, TIMING, Execution(1, 1, 1), scheduler=name).cycles == 5 + 1 + 1


# {{{ jobs dealt to the least loaded machine: batches match single jobs; more work lowers no load (Graham, 1969)

Jobs = list[tuple[int, int]]
"""load of a job, and the number of equal jobs in succession"""


def one_by_one(machines: int, jobs: Jobs) -> tuple[list[int], list[int]]:
    """Return the loads of the machines in ascending order, and the start of the last job of each batch."""
    loads, starts = [0] * machines, list[int]()
    for load, number in jobs:
        start = loads[0]
        for _ in range(number if load else 0):
            start = loads[0]
            heapq.heapreplace(loads, start + load)
        starts.append(start)
    return sorted(loads), starts


def deal_all(machines: int, jobs: Jobs) -> Machines:
    found = Machines(machines)
    for load, number in jobs:
        found.deal(float(load), number)
    return found


def random_jobs(random: Random) -> tuple[int, Jobs]:
    jobs = [(random.choice([0, 1, 2, 3, 5, 8, 50]), random.randint(1, 40)) for _ in range(random.randint(1, 8))]
    return random.randint(1, 12), jobs


def test_batches_of_jobs_are_dealt_as_if_one_by_one() -> None:
    for seed in range(300):
        machines, jobs = random_jobs(Random(seed))
        loads, starts = one_by_one(machines, jobs)
        found = Machines(machines)
        assert [found.deal(float(load), number) for load, number in jobs] == starts
        assert [level.load for level in found.levels for _ in range(level.machines)] == loads


def test_more_work_lowers_none_of_the_sorted_loads() -> None:
    for seed in range(300):
        random = Random(seed)
        machines, jobs = random_jobs(random)
        place = random.randrange(len(jobs))
        load, number = jobs[place]
        grows = [(load + random.randint(1, 20), 1), (load, number - 1)] if number > 1 else [(load + 1, 1)]
        more = random.choice([grows, [(load, number), (7, 1)]])
        before, after = (deal_all(machines, each) for each in (jobs, [*jobs[:place], *more, *jobs[place + 1 :]]))
        assert all(one <= other for one, other in zip(loads_of(before), loads_of(after), strict=True))


def loads_of(machines: Machines) -> list[float]:
    return [level.load for level in machines.levels for _ in range(level.machines)]


def test_millions_of_jobs_take_a_few_steps() -> None:
    found = deal_all(80, [(3, 10**7), (100_000, 1), (2, 10**7)])
    assert [(level.load, level.machines) for level in found.levels] == [((3 * 10**7 + 10**5 + 2 * 10**7) / 80, 80)]


# }}}


# {{{ expressions of trip counts and conditions, encoded as plain numbers, evaluate like those of pymbolic

FIRST, SECOND = Variable("i"), Variable("j")
EXPRESSIONS = [
    *map(parse, ("i", "j - 3", "2*i + 3*j - 1", "(i + j)//4", "(3*i + j) % 5", "i*j", "i < j", "i >= 2*j", "i == j")),
    *map(parse, ("i != j and j > 1", "i < 2 or not j < 3", "(i + 1)//2 <= j % 3 and i != 2")),
    *(Min((FIRST, SECOND, 3)), Max((FIRST - SECOND, 2)), If(parse("i < j"), FIRST + 7, 2 * SECOND)),
]


def test_operations_evaluate_like_their_expression() -> None:
    for expression in EXPRESSIONS:
        operations = operations_of(expression, ("i", "j"))
        for i, j in product(range(6), range(6)):
            assert value_of(operations, (i, j)) == int(evaluate(expression, {"i": i, "j": j})), str(expression)
    assert operations_of(FIRST - 2, ("i", "j")) == operations_of(SECOND - 2, ("j",)) == ((PASS, 0, -2),)
    assert operations_of(FIRST - 2, ("j", "i")) == ((PASS, 1, -2),)
    with pytest.raises(GraphError, match="the divisor must be a positive integer"):
        operations_of(parse("i // j"), ("i", "j"))


# }}}


# {{{ start and finish times of groups against hand computation

CHAIN = Idg.from_edges(["alu"] * 4, [(0, 1), (1, 2), (2, 3)])


def test_waiting_groups_start_when_others_finish() -> None:
    # Two groups at a time: group 0 issues at 0, 5, 10, 15 and completes at 20; 1 is one cycle later; 2 follows 0, 3
    # follows 1.
    found = group_times(simulate(CHAIN, {"alu": Lambdas(1, 5)}, Execution(1, 2, 4)))
    assert [(each.start, each.finish) for each in found] == [(0, 20), (1, 21), (20, 40), (21, 41)]


def test_milestones_are_shares_of_the_instructions_of_a_group() -> None:
    # A group of two warps issues 8 instructions, at 0 1, 5 6, 10 11 and 15 16
    (found,) = group_times(simulate(CHAIN, {"alu": Lambdas(1, 5)}, Execution(2, 1, 1)), (0.25, 0.5, 1))
    assert found.milestones == (1, 6, 16)


def test_store_at_the_end_is_complete_when_its_pipeline_is_free() -> None:
    graph = Idg.from_edges(["alu", "store"], [(0, 1)])
    (found,) = group_times(simulate(graph, {"alu": Lambdas(1, 5), "store": Lambdas(3, 90)}, Execution(1, 1, 1)))
    assert found.finish == 5 + 3


def test_milestone_of_zero_is_refused() -> None:
    simulation = simulate(CHAIN, {"alu": Lambdas(1, 5)}, Execution(1, 1, 1))
    with pytest.raises(SimulationError, match="got 0"):
        group_times(simulation, (0,))


@settings(max_examples=60)
@given(graphs(), lambdas, executions, policies, limits)
def test_last_group_finishes_with_the_core(graph, timing, execution, policy, limit) -> None:
    simulation = simulate(graph, timing, execution, scheduler=policy, issue_limit=limit)
    found = group_times(simulation, (0.5,))
    assert simulation.exact_cycles == max((each.finish for each in found), default=0)
    assert all(each.start <= each.milestones[0] <= each.finish for each in found)


# }}}


# {{{ clock ticks represent rational latencies exactly and round others by a negligible amount


def test_tick_is_the_greatest_common_divisor_of_the_latencies() -> None:
    # 3/8, 1/4 and 6: an eighth
    assert clock_for([0.375, 0.25, 6], 1000).ticks_per_cycle == 8
    assert clock_for([Fraction(1, 3), 0.5], 1000).ticks_per_cycle == 6
    assert clock_for([4, 10], 1000).ticks_per_cycle == 1


def test_float_is_converted_as_its_decimal_notation() -> None:
    assert rational(0.1) == Fraction(1, 10)
    chain = Idg.from_edges(["x"], [(0, 0, 1)], trips=10)
    assert simulate(chain, {"x": Lambdas(0.1, 0.1)}, Execution(1, 1, 1)).exact_cycles == 1


def test_rounding_latencies_to_ticks_has_a_negligible_effect() -> None:
    # Equation 1 of Cornelis, with latencies that are no multiples of a simple fraction of a cycle
    issue, completion, length, warps = 2**0.5, 400 / 7, 50, 64
    chain = Idg.from_edges(["x"], [(0, 0, 1)], trips=length)
    found = simulate(chain, {"x": Lambdas(issue, completion)}, Execution(1, warps, warps)).cycles
    # Each of 3200 issues is rounded by half a tick at most
    assert completion + (length * warps - 1) * issue == pytest.approx(found, rel=1e-11)


# }}}
