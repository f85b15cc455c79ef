"""The simulator's issue times equal those of a reference core, for random graphs and configurations."""

import os
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline import Execution
from loopyperf.pipeline.scenario import Scenario, scheduler_named
from loopyperf.pipeline.simulator import PLACE, TIME, WARP, executed
from loopyperf.polyhedral.affine import Affine
from tests.pipeline.dataflow_core import run_dataflow
from tests.pipeline.random_scenarios import executions, lambdas, limits, policies, warp_graphs
from tests.pipeline.reference_core import ReferenceCore

EXAMPLES = int(os.environ.get("LOOPYPERF_RANDOM_SCENARIOS", 250))


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_all_issue_times_match_the_reference_core(data: Any) -> None:
    execution = data.draw(executions)
    graphs = data.draw(warp_graphs(execution.warps_per_group))
    timing, policy, limit, order = (
        data.draw(each) for each in (lambdas, policies, limits, st.sampled_from(["in_order", "dataflow"]))
    )
    scenario = Scenario.of(graphs, timing, execution, scheduler_named(policy), limit)
    reference = ReferenceCore(graphs, timing, execution, policy, limit, order).run()
    run = executed(scenario, is_traced=True) if order == "in_order" else run_dataflow(scenario)
    clock = scenario.clock
    offsets = _offsets(graphs)
    expected = [
        (warp, offsets[warp % len(graphs)] + place, time * clock.ticks_per_cycle)
        for warp, place, time in reference.issued
    ]
    assert expected == [tuple(map(int, row)) for row in run.trace[:, [WARP, PLACE, TIME]]]
    assert reference.cycles == Fraction(run.finish, clock.ticks_per_cycle)
    assert len(expected) == run.issued


def _offsets(graphs: tuple[Any, ...]) -> list[int]:
    """Return the offset of each graph's instructions; equal graphs share one offset."""
    starts, total = list[int](), 0
    for number, graph in enumerate(graphs):
        known = graphs.index(graph)
        starts.append(total if known == number else starts[known])
        total += len(graph.instructions) if known == number else 0
    return starts


def test_result_of_a_varying_outer_iteration_is_kept() -> None:
    # Iteration (i, j) waits for (i // 2, j - 1), which is up to two iterations of i and many issues earlier.
    i, j = parse("i"), parse("j")
    edge = Edge(1, 1, (1, 1), (Affine.around(i // 2), Affine.around(j - 1)))
    body = (Loop("i", 4, (Loop("j", 2, (0, 1)),)),)
    graph = Idg((Instruction("mem", subsystem="mem"), Instruction("alu", subsystem="alu")), (edge,), body)
    timing = {"mem": Lambdas(0.25, 3.5), "alu": Lambdas(0.25, 3.5)}
    reference = ReferenceCore((graph,), timing, Execution(1, 1, 1), "round-robin", None, "in_order").run()
    scenario = Scenario.of((graph,), timing, Execution(1, 1, 1), scheduler_named("round-robin"), None)
    run = executed(scenario, is_traced=True)
    expected = [(place, time * scenario.clock.ticks_per_cycle) for _, place, time in reference.issued]
    assert expected == [tuple(map(int, row)) for row in run.trace[:, [PLACE, TIME]]]
