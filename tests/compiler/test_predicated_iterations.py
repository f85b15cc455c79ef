"""Predicated iterations: every iteration tests a condition on the loop variable and issues its instructions."""

from loopyperf.compiler.predication import with_predicated_iterations
from tests.idg.machine_graphs import added, source
from tests.idg.patterns import flat

LOOP = "{[i,k]: 0<=i<32 and 0<=k<16}"
ARRAYS = (flat("a"), flat("out"))


def test_a_condition_on_lane_and_iteration_is_tested_in_each_iteration() -> None:
    graph = source(LOOP, "for k\n    if k <= i\n        out[i] = a[k + i]\n    end\nend", *ARRAYS)
    # 16 iterations with two test instructions each; lanes 15 to 31 are active in all of them, so nothing is idle.
    assert added(graph, with_predicated_iterations(graph)) == {"integer": 2 * 16}


def test_predicated_instructions_are_issued_in_iterations_without_active_lanes() -> None:
    graph = source(LOOP, "for k\n    if k + i < 4\n        out[i] = a[k + i]\n    end\nend", *ARRAYS)
    # Lane 0 is active in iterations 0 to 3, no lane in the other twelve. The sum is an index, which is folded later.
    assert added(graph, with_predicated_iterations(graph)) == {"integer": 2 * 16, "add": 12, "load": 12, "store": 12}


def test_addresses_that_advance_by_a_size_are_computed_under_the_predicate() -> None:
    code = "for k\n    if k <= i\n        out[i] = a[n*k + i]\n    end\nend"
    domain = "[n] -> {[i,k]: 0<=i<32 and 0<=k<16 and n >= 1}"
    graph = source(domain, code, *ARRAYS, sizes={"n": 99})
    assert added(graph, with_predicated_iterations(graph)) == {"integer": (2 + 2) * 16}


def test_a_condition_on_the_iteration_alone_is_not_predicated() -> None:
    graph = source(LOOP, "for k\n    if k < 4\n        out[i] = a[k + i]\n    end\nend", *ARRAYS)
    assert added(graph, with_predicated_iterations(graph)) == {}
