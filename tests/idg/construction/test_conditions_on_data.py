"""What data decide of: a value that may have been written in any earlier pass waits for the last of them."""

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


def test_an_accumulation_under_a_condition_on_data_goes_from_pass_to_pass() -> None:
    graph = source("{[i,k]: 0<=i<32 and 0<=k<8}", SUM_WHERE, flat("a"), flat("out"), typical={"sum": 0.5})
    (addition,) = (place for place, each in enumerate(graph.instructions) if (each.kind, each.dtype) == ("add", "f32"))
    carried = [edge for edge in graph.edges if edge.source == edge.target == addition]
    assert [edge.distance for edge in carried] == [(1,)]
    assert [edge.iterations[0] for edge in carried] == [Affine.variable("k", -1)]
    # What is stored is that of the last pass, or what was there before all of them.
    (store,) = (place for place, each in enumerate(graph.instructions) if each.kind == "store")
    assert {edge.iterations for edge in graph.definitions[store] if edge.operand == 0} == {(Affine((), 7),), ()}


def test_what_decides_is_compared_in_each_pass() -> None:
    graph = source("{[i,k]: 0<=i<32 and 0<=k<8}", SUM_WHERE, flat("a"), flat("out"), typical={"sum": 0.5})
    mix = lowered(graph).mix()
    # Eight passes, written out: the sum is issued in each, for the lanes that take part.
    assert (mix["compare", "f32"], mix["add", "f32"], mix["load", "b32"]) == (8, 8, 8)
