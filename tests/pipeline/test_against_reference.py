"""Random graphs and configurations: who issues what when, against a core that follows the rules one by one."""

import os
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from random_scenarios import executions, graphs, lambdas, limits, orders, policies
from reference_core import ReferenceCore

from loopyperf.pipeline.memory import PLACE, TIME, WARP
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.schedulers import scheduler_named
from loopyperf.pipeline.simulator import executed

EXAMPLES = int(os.environ.get("LOOPYPERF_RANDOM_SCENARIOS", 250))


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_every_issue_is_where_the_rules_put_it(data: Any) -> None:
    execution = data.draw(executions)
    # Warps may differ: the first group's, with those of the second, as many graphs as warps of both.
    number = data.draw(st.sampled_from([1, execution.warps_per_group, 2 * execution.warps_per_group]))
    kinds = tuple(data.draw(graphs()) for _ in range(number))
    timing, policy, limit, order = (data.draw(each) for each in (lambdas, policies, limits, orders))
    scenario = Scenario(kinds, timing, execution, scheduler_named(policy), limit, order)
    reference = ReferenceCore(kinds, timing, execution, policy, limit, order).run()
    run, clock = executed(scenario, is_traced=True), scenario.clock
    offsets = _offsets(kinds)
    expected = [
        (warp, offsets[id(kinds[warp % number])] + place, time * clock.ticks_per_cycle)
        for warp, place, time in reference.issued
    ]
    assert expected == [tuple(map(int, row)) for row in run.trace[:, [WARP, PLACE, TIME]]]
    assert reference.cycles == Fraction(run.finish, clock.ticks_per_cycle)
    assert len(expected) == run.issued


def _offsets(kinds: tuple[Any, ...]) -> dict[int, int]:
    """Return where the instructions of each graph begin: those of graphs one after the other, each graph once."""
    found: dict[int, int] = {}
    for graph in kinds:
        found.setdefault(id(graph), sum(len(each.instructions) for each in kinds if id(each) in found))
    return found
