"""Test metrics of kernel graphs: rolled against unrolled graphs, and sums over their instructions."""

from collections import Counter
from fractions import Fraction

import pytest

from loopyperf.counts.sizes import Typical
from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.idg.listing import listing
from loopyperf.idg.parallelism import ilp, mlp, work_flow_graph
from loopyperf.kernel import load_kernel
from loopyperf.pipeline import intervals, warp_latency
from tests.idg.reference_warp import cycles_alone, stalls_alone
from tests.machine_code.catalog import CATALOG
from tests.profiles import source_profile

TURING = {
    "alu": Lambdas(0.5, 4),
    "sfu": Lambdas(2, 21),
    "local": Lambdas(2, 32),
    "global": Lambdas(18, 450),
    "barrier": Lambdas(1.5, 17),
}
"""Lemeire, Table 5"""


@pytest.fixture(params=CATALOG, scope="module")
def graph(request: pytest.FixtureRequest) -> Idg:
    entry = CATALOG[request.param]
    return source_profile(load_kernel(entry.program()), entry.sizes, Typical({})).graph


def test_warp_latency_matches_the_unrolled_graph(graph: Idg) -> None:
    assert cycles_alone(graph.unrolled(), TURING) == warp_latency(graph, TURING)


def test_intervals_match_the_unrolled_graph(graph: Idg) -> None:
    found = intervals(graph, TURING)
    expected = stalls_alone(graph.unrolled(), "global", Fraction(450))
    assert expected == Counter({(each.instructions, each.stall): each.number for each in found})
    in_memory = sum(each.executions for each in graph.instructions if each.subsystem == "global")
    assert sum(each.instructions * each.number for each in found) == graph.executed - in_memory


def test_parallelism_is_at_least_1_and_work_flow_is_complete(graph: Idg) -> None:
    assert min(ilp(graph), mlp(graph)) >= 1
    nodes = work_flow_graph(graph).nodes
    assert [place for node in nodes for place in node.instructions] == list(range(len(graph.instructions)))


def test_listing_has_every_instruction(graph: Idg) -> None:
    numbers = [line.split()[0] for line in listing(graph).splitlines() if not line.rstrip().endswith(":")]
    assert numbers == [str(place) for place in range(len(graph.instructions))]
