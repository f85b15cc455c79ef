"""Conditions on the variable of a loop are tested for in each pass, and what is under them is issued in each."""

from loopyperf.compiler.predication import with_predicated_iterations
from tests.idg.machine_graphs import added, source
from tests.idg.patterns import flat

LOOP = "{[i,k]: 0<=i<32 and 0<=k<16}"
ARRAYS = (flat("a"), flat("out"))


def test_a_condition_on_the_lane_and_the_pass_is_tested_in_each_pass() -> None:
    graph = source(LOOP, "for k\n    if k <= i\n        out[i] = a[k + i]\n    end\nend", *ARRAYS)
    # 16 passes, the two instructions of a test in each; the lanes from 15 on take part in all, so nothing is idle.
    assert added(graph, with_predicated_iterations(graph)) == {"integer": 2 * 16}


def test_what_is_under_it_is_issued_in_the_passes_that_no_lane_takes_part_in() -> None:
    graph = source(LOOP, "for k\n    if k + i < 4\n        out[i] = a[k + i]\n    end\nend", *ARRAYS)
    # Lane 0 takes part in passes 0 to 3, no lane in the other twelve. The sum is an index, which is folded later.
    assert added(graph, with_predicated_iterations(graph)) == {"integer": 2 * 16, "add": 12, "load": 12, "store": 12}


def test_addresses_that_move_by_a_size_are_computed_under_the_predicate() -> None:
    code = "for k\n    if k <= i\n        out[i] = a[n*k + i]\n    end\nend"
    domain = "[n] -> {[i,k]: 0<=i<32 and 0<=k<16 and n >= 1}"
    graph = source(domain, code, *ARRAYS, sizes={"n": 99})
    assert added(graph, with_predicated_iterations(graph)) == {"integer": (2 + 2) * 16}


def test_a_condition_on_the_pass_alone_is_none_on_work_items() -> None:
    graph = source(LOOP, "for k\n    if k < 4\n        out[i] = a[k + i]\n    end\nend", *ARRAYS)
    assert added(graph, with_predicated_iterations(graph)) == {}
