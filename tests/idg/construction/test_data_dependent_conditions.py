"""Test data-dependent conditions: a value that any earlier iteration may have written depends on the last one."""

from loopyperf.compiler import lowered
from loopyperf.polyhedral.affine import Affine
from tests.idg.machine_graphs import source
from tests.idg.patterns import flat

SUM_WHERE = """
    for i
        <> s = 0 {id=zero}
        for k
            if a[k + 8*i] > 1
                s = s + a[k + 8*i] {id=sum, dep=zero}
            end
        end
        out[i] = s {dep=sum}
    end
    """


def test_accumulation_under_a_data_dependent_condition_is_carried() -> None:
    graph = source("{[i,k]: 0<=i<32 and 0<=k<8}", SUM_WHERE, flat("a"), flat("out"), typical={"sum": 0.5})
    (addition,) = (place for place, each in enumerate(graph.instructions) if (each.kind, each.dtype) == ("add", "f32"))
    carried = [edge for edge in graph.edges if edge.source == edge.target == addition]
    assert [edge.distance for edge in carried] == [(1,)]
    assert [edge.iterations[0] for edge in carried] == [Affine.variable("k", -1)]
    # The store uses the value of the last iteration, or the initial value.
    (store,) = (place for place, each in enumerate(graph.instructions) if each.kind == "store")
    assert {edge.iterations for edge in graph.definitions[store] if edge.operand == 0} == {(Affine((), 7),), ()}


def test_data_dependent_condition_is_compared_in_each_iteration() -> None:
    graph = source("{[i,k]: 0<=i<32 and 0<=k<8}", SUM_WHERE, flat("a"), flat("out"), typical={"sum": 0.5})
    mix = lowered(graph).mix()
    # Eight unrolled iterations: each issues the sum, for the active lanes.
    assert (mix["compare", "f32"], mix["add", "f32"], mix["load", "b32"]) == (8, 8, 8)
