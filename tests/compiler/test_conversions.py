"""What is of one type and used as another is converted, once for each type."""

import numpy as np

from loopyperf.compiler.folding import with_conversions
from tests.idg.machine_graphs import folded, kinds, source
from tests.idg.patterns import flat

LANES = "{[i]: 0<=i<32}"


def test_single_precision_is_converted_where_double_precision_is_computed_and_back() -> None:
    graph = source(LANES, "out[i] = a[i]*d[i]", flat("a"), flat("out"), flat("d", np.float64))
    loads = ["load b32", "convert f64", "load b64"]
    assert kinds(with_conversions(folded(graph))) == [*loads, "mul f64", "convert f32", "store b32"]


def test_a_value_is_converted_once() -> None:
    graph = source(LANES, "out[i] = a[i]*(a[i] + d[i])", flat("a"), flat("out", np.float64), flat("d", np.float64))
    # The text reads a[i] twice: two loads, each of which is converted; common subexpressions come later.
    assert kinds(with_conversions(folded(graph))).count("convert f64") == 2
    graph = source(
        LANES, "<> t = a[i]\nout[i] = t*(t + d[i])", flat("a"), flat("out", np.float64), flat("d", np.float64)
    )
    assert kinds(with_conversions(folded(graph))).count("convert f64") == 1


def test_integers_that_are_data_are_converted_and_indices_are_not() -> None:
    graph = source(LANES, "out[i] = x[k[i]]*k[i]", flat("x"), flat("out"), flat("k", np.int32))
    assert kinds(with_conversions(folded(graph))).count("convert f32") == 1


def test_the_number_of_a_work_item_is_converted_where_it_is_data() -> None:
    graph = with_conversions(folded(source(LANES, "out[i] = a[i]*i", flat("a"), flat("out"))))
    assert kinds(graph) == ["load b32", "convert f32", "mul f32", "store b32"]
    (edge,) = (edge for edge in graph.edges if graph.instructions[edge.source].kind == "convert")
    assert (graph.instructions[edge.target].kind, edge.operand) == ("mul", 1)


def test_what_is_of_one_type_alone_stays_as_it_is() -> None:
    graph = folded(source(LANES, "out[i] = 2*a[i] + 1", flat("a"), flat("out")))
    assert with_conversions(graph) == graph
