"""Profiles by hand: who waited for what, how full each subsystem was, and why it was idle."""

from fractions import Fraction

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.idg.program import Instruction
from loopyperf.pipeline import Execution, execution_profile, simulate, what_if

EXAMPLE = Idg.from_edges(["comp", "comp", "mem", "comp", "comp", "mem"], [(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)])
TIMING = {"comp": Lambdas(1, 4), "mem": Lambdas(2, 6)}
ONE = simulate(EXAMPLE, TIMING, Execution(1, 1, 1))


def test_parts_of_partitions_are_beside_each_other() -> None:
    names = ("alu 1", "L2", "alu 10", "control 0", "L1", "alu 2", "control 1")
    graph = Idg.from_edges(names, [])
    found = simulate(graph, dict.fromkeys(names, Lambdas(1, 1)), Execution(1, 1, 1)).scenario.subsystems
    assert found == ("alu 1", "alu 2", "alu 10", "L2", "control 0", "control 1", "L1")


def test_why_not_earlier() -> None:
    # comp at 0, and at 1, as the pipeline is taken; mem at 5, when that one is complete; 11, 15, 19 likewise
    found = execution_profile(ONE).issues
    assert [issue.time for issue in found] == [0, 1, 5, 11, 15, 19]
    causes = [None, "subsystem busy", "dependency", "dependency", "dependency", "dependency"]
    assert causes == [issue.why_not_earlier for issue in found]
    assert [issue.waited_for and issue.waited_for.kind for issue in found] == [
        None,
        None,
        "comp",
        "mem",
        "comp",
        "comp",
    ]


def test_fill_and_idle_shares_of_one_warp() -> None:
    # comp is taken from 0 to 2, 11 to 12, 15 to 16 of 25 cycles. It waits from 2 to 11 and from 12 to 15 for operands,
    # and from 16 on there is nothing left. mem is taken from 5 to 7 and 19 to 21; until 1 its warp waits for comp.
    found = execution_profile(ONE)
    assert {"comp": Fraction(4, 25), "mem": Fraction(4, 25)} == found.fill
    comp = {cause: share * 25 for cause, share in found.idle["comp"].items() if share}
    assert comp == {"dependency": 12, "no group left": 9}
    mem = {cause: share * 25 for cause, share in found.idle["mem"].items() if share}
    assert mem == {"subsystem busy": 1, "dependency": 4 + 12, "no group left": 4}


def test_issue_limit_barrier_and_waiting_groups_are_causes() -> None:
    limited = execution_profile(
        simulate(Idg.from_edges(["a", "b"], []), _each("ab", 1, 1), Execution(1, 1, 1), issue_limit=0.5)
    )
    # a at 0, b not before 2
    assert limited.idle["b"]["issue limit"] == Fraction(2, 3)
    # Two warps: a at 0 and 1, barriers at 1 and 2 (ready 1, 2), both released at 2 + 10, then b at 12 and 13
    held = Idg.from_edges(["a", "barrier", "b"], [(0, 1), (1, 2)])
    timing = {**_each("ab", 1, 1), "barrier": Lambdas(1, 10)}
    barrier = execution_profile(simulate(held, timing, Execution(2, 1, 1)))
    assert barrier.cycles == 14
    # until b is first taken, at 12: its warp waits for a until 1, then is held by the barrier
    assert {cause: share * 14 for cause, share in barrier.idle["b"].items() if share} == {
        "dependency": 1,
        "barrier": 11,
    }
    # One group after the other, of one instruction each: taken 0 to 1, complete at 4, the next one from 4
    chain = execution_profile(simulate(Idg.from_edges(["a"], []), _each("a", 1, 4), Execution(1, 1, 3)))
    assert {"group waits": Fraction(6, 12), "no group left": Fraction(3, 12)} == {
        cause: share for cause, share in chain.idle["a"].items() if share
    }


def test_waiting_adds_up_over_warps() -> None:
    # 0 → 1 for the subsystem; 1 → 5, 5 → 11, 11 → 15, 15 → 19 for operands
    assert execution_profile(ONE).waiting == {"subsystem busy": 1, "dependency": 18}


# {{{ what if


def test_faster_memory_takes_its_latency_away() -> None:
    # of 25 cycles, twice 6 are mem
    assert what_if(ONE, lambdas={"mem": Lambdas(1, 1)}).cycles == 25 - 2 * 5


def test_bank_conflicts_take_issue_latency_longer() -> None:
    # Λ' = Λ + D·λ: two more accesses of each of two mem are 2·2·2 cycles
    assert what_if(ONE, conflicts={"mem": 2}).cycles == 25 + 8
    # λ' = (1 + D)·λ = 6 throttles two warps: the second mem issues 6 after the first
    two = simulate(Idg.from_edges(["mem"], []), TIMING, Execution(2, 1, 1))
    assert (two.cycles, what_if(two, conflicts={"mem": 2}).cycles) == (2 + 6, 6 + 10)


def test_a_rate_is_of_every_instruction_of_its_subsystem() -> None:
    # two warps of a mem of 2 cycles and one of 6: the last issues after 2 + 2 + 6 cycles, at twice the rate after 5
    timing = {"short": Lambdas(2, 4), "long": Lambdas(6, 6)}
    graph = Idg((Instruction("short", subsystem="mem"), Instruction("long", subsystem="mem")), (), (0, 1))
    two = simulate(graph, lambda each: timing[each.kind], Execution(2, 1, 1))
    assert (two.cycles, what_if(two, rates={"mem": 2}).cycles) == (16, 5 + 6)


def test_occupancy_hides_latency() -> None:
    # four groups, one after the other or all at once, which is as long as four warps of one group
    four = simulate(EXAMPLE, TIMING, Execution(1, 1, 4))
    assert four.cycles == 4 * 25
    assert what_if(four, concurrent_groups=4).cycles == simulate(EXAMPLE, TIMING, Execution(4, 1, 1)).cycles


def test_conflicts_of_stores_are_those_of_their_issue() -> None:
    store = simulate(Idg.from_edges(["store"], []), {"store": Lambdas(2, 6)}, Execution(1, 1, 1))
    assert (store.cycles, what_if(store, conflicts={"store": 1}).cycles) == (2, 4)


# }}}


def _each(names: str, issue: int, completion: int) -> dict[str, Lambdas]:
    return {name: Lambdas(issue, completion) for name in names}
