"""Conditions on work-items: warps without active lanes issue short parts and branch around long ones."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.compiler import lowered
from loopyperf.compiler.predication import with_predication
from loopyperf.idg import Idg
from tests.idg.machine_graphs import added, kinds, source
from tests.idg.patterns import flat

GROUPS = "{[g,i]: 0<=g<4 and 0<=i<128}"
TAGS = {"g": "g.0", "i": "l.0"}


def tree() -> Idg:
    """Return the graph of a warp that is idle in all stages but the first of a sum over 128 work-items."""
    return source(GROUPS, "out[g] = sum(i, a[i + 128*g])", flat("a"), flat("out"), tags=TAGS)


def conditional(body: str, condition: str = "i < 32", after: str = "out[i + 128*g] = 1") -> Idg:
    """Return the graph of a warp that does not execute *body*."""
    code = f"if {condition}\n    {body}\nend\n{after}"
    return source(GROUPS, code, flat("b"), flat("c"), flat("out"), tags=TAGS)


def test_source_graph_omits_instructions_without_active_lanes() -> None:
    # Only the sum of the first value with zero; nothing of the seven stages.
    assert kinds(tree()).count("add f32") == 1


def test_idle_warps_issue_the_stages_of_a_tree_reduction() -> None:
    graph = with_predication(tree())
    idle = [each.kind for each in graph.instructions if each.is_idle and not each.is_index]
    # Six of seven stages, of 64, 32, ..., 2 work-items: two loads, a sum, a store each. The last one ends the kernel.
    assert sorted(idle) == sorted(["load", "load", "add", "store"] * 6)
    assert graph.mix()["branch", ""] == 1


def test_instructions_without_active_lanes_access_no_memory() -> None:
    graph = with_predication(tree())
    assert {each.origin for each in graph.instructions if each.is_idle} == {None}


def test_instructions_without_active_lanes_keep_source_order() -> None:
    graph = with_predication(tree())
    opcodes = [each.kind for each in graph.instructions]
    order = [
        opcodes[place] for place in graph.body if isinstance(place, int) and not graph.instructions[place].is_index
    ]
    stages = "".join({"load": "l", "store": "s", "barrier": "B"}.get(kind, "") for kind in order)
    assert stages == "sls" + "Blls" * 6 + "B"


def test_long_conditional_part_is_branched_around() -> None:
    terms = " + ".join(f"b[i + {place}]" for place in range(9))
    graph = conditional(f"c[i] = {terms}")
    # Nine loads, eight sums and a store are more than 13: barrier setup, branch, reconvergence; nothing else is issued.
    assert added(graph, with_predication(graph)) == {"branch": 3}


def test_branches_are_part_of_the_machine_graph() -> None:
    terms = " + ".join(f"b[i + {place}]" for place in range(9))
    assert lowered(conditional(f"c[i] = {terms}")).mix()["branch", ""] == 3


def test_condition_on_the_group_adds_one_branch() -> None:
    terms = " + ".join(f"b[i + {place}]" for place in range(9))
    graph = conditional(f"c[i] = {terms}", condition="g > 2")
    assert added(graph, with_predication(graph)) == {"branch": 1}


def test_inactive_warps_exit_before_a_final_conditional_part() -> None:
    code = "out[i + 128*g] = 1\nif i < 32\n    b[i] = a[i]\nend"
    graph = source(GROUPS, code, flat("a"), flat("b"), flat("out"), tags=TAGS)
    assert added(graph, with_predication(graph)) == {"branch": 1}


def test_warp_beyond_the_last_work_item_executes_nothing() -> None:
    tags = {"i_outer": "g.0", "i_inner": "l.0"}
    bounded = "{[i_outer,i_inner]: 0 <= i_outer and 0 <= i_inner < 128 and i_inner + 128*i_outer < n}"
    n = lp.ValueArg("n", np.int32)
    graph = source(bounded, "b[i_inner + 128*i_outer] = 1", flat("b"), n, tags=tags, sizes={"n": 33})
    warp_classes = graph.launches[0].classes
    assert all(kind.graph.idle is None for kind in warp_classes)


def test_warp_without_work_items_issues_only_barriers() -> None:
    # 96 work-items in groups of 64: the last warp has no work-items but takes part in the barriers of its group.
    tags = {"i_outer": "g.0", "i_inner": "l.0"}
    bounded = ["{[i_outer,i_inner]: 0<=i_outer and 0<=i_inner<64 and i_inner + 64*i_outer < n}", "{[k]: 0<=k<4}"]
    code = """
        <> acc = 0 {id=init}
        for k
            t[i_inner] = a[64*k + i_inner] {id=fetch}
            acc = acc + t[63 - i_inner] {id=sum, dep=fetch:init}
        end
        b[i_inner + 64*i_outer] = acc {dep=sum}
        """
    local = lp.TemporaryVariable("t", np.float32, shape=(64,), address_space=lp.AddressSpace.LOCAL)
    n = lp.ValueArg("n", np.int32)
    graph = source(bounded, code, flat("a"), flat("b"), local, n, tags=tags, sizes={"n": 96})
    beyond = graph.launches[0].classes[-1].graph
    assert beyond.idle is not None
    assert {each.kind for each in with_predication(beyond).instructions} == {"barrier"}


@pytest.mark.parametrize("share", [0.25, 1])
def test_data_dependent_branches_are_issued_at_any_probability(share: float) -> None:
    code = "out[i] = if(a[i] > 0, 3*a[i], b[i])"
    graph = source("{[i]: 0<=i<32}", code, flat("a"), flat("b"), flat("out"), typical={"a[i] > 0": share})
    assert graph.mix()["mul", "f32"] == share
    assert with_predication(graph).mix()["mul", "f32"] == 1


def test_both_sides_of_a_condition_are_issued() -> None:
    code = "out[i + 128*g] = if(i < 32, 3*a[i], b[i])"
    graph = lowered(source(GROUPS, code, flat("a"), flat("b"), flat("out"), tags=TAGS))
    assert graph.mix()["load", "b32"] == 2
    assert [each.is_idle for each in graph.instructions if each.kind == "load"] == [False, True]


def test_condition_around_a_loop_is_not_tested_in_its_iterations() -> None:
    # j is a shorter iname on the axis of i: the whole loop over k, a load and a store per iteration, is under j < 32.
    code = "out[i] = 1 {id=all}\nfor k\n    c[j] = b[j + 32*k] {dep=all}\nend\nout[i] = 2"
    domain = "{[i,j,k]: 0<=i<128 and 0<=j<32 and 0<=k<5}"
    graph = source(domain, code, flat("b"), flat("c"), flat("out"), tags={"i": "l.0", "j": "l.0"})
    (working,) = (kind.graph for kind in graph.launches[0].classes if kind.graph.mix().get(("load", "b32")))
    assert added(working, with_predication(working)) == {"branch": 3}
