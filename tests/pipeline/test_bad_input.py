"""Invalid input to the simulator raises an error that names the cause."""

from typing import Any

import pytest
from pymbolic import parse

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError, LoopyperfError, OccupancyError, SimulationError
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline import Execution, Scheduler, execution_on, simulate, what_if
from loopyperf.pipeline.scenario import Order
from loopyperf.polyhedral.affine import Affine

CHAIN = Idg.from_edges(["alu", "mem"], [(0, 1)])
TIMING = {"alu": Lambdas(1, 18), "mem": Lambdas(23, 475)}
ONE = Execution(1, 1, 1)


def test_cyclic_graph_is_refused_with_its_cycle() -> None:
    with pytest.raises(GraphError, match="cyclic dependence within one iteration: "):
        simulate(Idg.from_edges(["alu", "alu"], [(0, 1), (1, 0)]), TIMING, ONE)


def test_error_of_edge_against_program_order_names_both_ends() -> None:
    with pytest.raises(GraphError, match="instruction 0 waits for 1, which comes later"):
        simulate(Idg(CHAIN.instructions[:2], (Edge(1, 0),), (0, 1)), TIMING, ONE)


def test_error_of_missing_latency_names_subsystem_and_instruction() -> None:
    graph = Idg((Instruction("cos", "f32", "sfu"),), (), (0,))
    with pytest.raises(GraphError, match="no latencies for 'sfu', which executes 'cos f32'"):
        simulate(graph, TIMING, ONE)


@pytest.mark.parametrize("latencies", [(0, 18), (1, 0), (-1, 18), (1, -18), (float("nan"), 1), (1, float("inf"))])
def test_latencies_must_be_positive_and_finite(latencies: tuple[float, float]) -> None:
    with pytest.raises(GraphError, match="latenc"):
        simulate(CHAIN, {"alu": Lambdas(*latencies), "mem": Lambdas(1, 1)}, ONE)


def test_occupancy_of_zero_groups_is_refused() -> None:
    with pytest.raises(OccupancyError, match="at least 1 group must be resident"):
        Execution(8, 0, 100)


@pytest.mark.parametrize(("warps", "groups"), [(0, 1), (1, 0), (-1, 1)])
def test_core_without_warps_is_refused(warps: int, groups: int) -> None:
    with pytest.raises(SimulationError, match=f"warps_per_group={warps}, total_groups={groups}"):
        Execution(warps, 1, groups)


def test_zero_cores_are_refused() -> None:
    with pytest.raises(SimulationError, match="cores=0"):
        execution_on(Any, 100, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scheduler": "fifo"}, "unknown scheduler 'fifo'; expected one of 'round-robin', 'greedy-then-oldest'"),
        ({"issue_limit": 0}, "issue_limit must be above 0 issues per cycle, got 0"),
        ({"issue_limit": float("nan")}, "issue_limit must be above 0 issues per cycle, got nan"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        simulate(CHAIN, TIMING, ONE, **options)


def test_wrong_number_of_graphs_is_refused() -> None:
    with pytest.raises(SimulationError, match="3 graphs for groups of 2 warps"):
        simulate([CHAIN] * 3, TIMING, Execution(2, 1, 1))


def test_negative_quantum_is_refused() -> None:
    with pytest.raises(SimulationError, match="at least 0 cycles, got -1"):
        Scheduler("oldest", -1)


def test_unknown_warp_order_is_refused() -> None:
    assert Scheduler("oldest") == Scheduler(Order.OLDEST)
    with pytest.raises(SimulationError, match="'newest'; expected one of 'longest wait', 'oldest', 'youngest'"):
        Scheduler("newest")


def test_what_if_on_unused_subsystem_is_refused() -> None:
    with pytest.raises(SimulationError, match="no instruction runs on 'sfu'"):
        what_if(simulate(CHAIN, TIMING, ONE), lambdas={"sfu": Lambdas(1, 2)})


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_what_if_rates_must_be_positive(rate: float) -> None:
    with pytest.raises(SimulationError, match="above 0"):
        what_if(simulate(CHAIN, TIMING, ONE), rates={CHAIN.instructions[0].subsystem: rate})


@pytest.mark.parametrize("trips", ["2**i", "i // j", "k"])
def test_trip_count_that_cannot_be_evaluated_is_refused(trips: str) -> None:
    inner = Loop("j", parse(trips), (0,))
    graph = Idg((Instruction("alu", subsystem="alu"),), (), (Loop("j", 3, (Loop("i", 3, (inner,)),)),))
    with pytest.raises(LoopyperfError, match=r"cannot evaluate|no enclosing loop"):
        simulate(graph, TIMING, ONE)


def test_too_long_run_is_refused() -> None:
    endless = Idg((Instruction("alu", subsystem="alu", executions=10**19),), (), (Loop("i", 10**19, (0,)),))
    with pytest.raises(SimulationError, match="too long to simulate"):
        simulate(endless, TIMING, ONE)


def test_edge_from_iteration_before_the_first_is_ignored() -> None:
    # As in the unrolled graph: there is no iteration -1.
    edge = Edge(0, 0, (1,), (Affine.variable("i", -1),))
    graph = Idg((Instruction("alu", subsystem="alu", executions=3),), (edge,), (Loop("i", 3, (0,)),))
    assert simulate(graph, TIMING, ONE).cycles == 3 * 18
