"""Test metrics of kernel graphs: rolled against unrolled graphs, and sums over their instructions."""

from collections import Counter
from fractions import Fraction

import pytest

from loopyperf.counts.sizes import Typical
from loopyperf.device.lambdas import Lambdas
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


KERNELS = ("tiled 16", "n-body 64", "transposition 32", "naive", "finite difference")


def test_metrics_of_rolled_graphs_match_unrolled_ones(subtests: pytest.Subtests) -> None:
    for name in KERNELS:
        with subtests.test(name=name):
            entry = CATALOG[name]
            graph = source_profile(load_kernel(entry.program()), entry.sizes, Typical({})).graph
            flat, numbers = graph.unrolled(), list(range(len(graph.instructions)))
            assert cycles_alone(flat, TURING) == warp_latency(graph, TURING)
            found = intervals(graph, TURING)
            expected = stalls_alone(flat, "global", Fraction(450))
            assert expected == Counter({(each.instructions, each.stall): each.number for each in found})
            in_memory = sum(each.executions for each in graph.instructions if each.subsystem == "global")
            assert sum(each.instructions * each.number for each in found) == graph.executed - in_memory
            assert min(ilp(graph), mlp(graph)) >= 1
            assert [place for node in work_flow_graph(graph).nodes for place in node.instructions] == numbers
            lines = (line for line in listing(graph).splitlines() if not line.rstrip().endswith(":"))
            assert [int(line.split()[0]) for line in lines] == numbers
