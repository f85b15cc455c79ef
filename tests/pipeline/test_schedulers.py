"""Issue orders of the scheduling policies against hand computation.

Time is continuous: no warp issues at a time at which nothing changes.
"""

import pytest

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.pipeline import SCHEDULERS, Execution, Scheduler, execution_profile, simulate

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
