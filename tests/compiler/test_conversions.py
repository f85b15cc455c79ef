"""Conversions of values that are used as another type."""

import numpy as np

from loopyperf.compiler.folding import with_conversions
from tests.idg.machine_graphs import folded, kinds, source
from tests.idg.patterns import flat

LANES = "{[i]: 0<=i<32}"


def test_single_precision_is_converted_to_double_and_back() -> None:
    graph = source(LANES, "out[i] = a[i]*d[i]", flat("a"), flat("out"), flat("d", np.float64))
    loads = ["load b32", "convert f64", "load b64"]
    assert kinds(with_conversions(folded(graph))) == [*loads, "mul f64", "convert f32", "store b32"]


def test_each_value_is_converted_once() -> None:
    graph = source(LANES, "out[i] = a[i]*(a[i] + d[i])", flat("a"), flat("out", np.float64), flat("d", np.float64))
    # The source reads a[i] twice: two loads, each converted; a later pass merges common subexpressions.
    assert kinds(with_conversions(folded(graph))).count("convert f64") == 2
    graph = source(
        LANES, "<> t = a[i]\nout[i] = t*(t + d[i])", flat("a"), flat("out", np.float64), flat("d", np.float64)
    )
    assert kinds(with_conversions(folded(graph))).count("convert f64") == 1


def test_integer_data_are_converted_but_indices_are_not() -> None:
    graph = source(LANES, "out[i] = x[k[i]]*k[i]", flat("x"), flat("out"), flat("k", np.int32))
    assert kinds(with_conversions(folded(graph))).count("convert f32") == 1


def test_work_item_index_used_as_data_is_converted() -> None:
    graph = with_conversions(folded(source(LANES, "out[i] = a[i]*i", flat("a"), flat("out"))))
    assert kinds(graph) == ["load b32", "convert f32", "mul f32", "store b32"]
    (edge,) = (edge for edge in graph.edges if graph.instructions[edge.source].kind == "convert")
    assert (graph.instructions[edge.target].kind, edge.operand) == ("mul", 1)


def test_code_of_one_type_has_no_conversions() -> None:
    graph = folded(source(LANES, "out[i] = 2*a[i] + 1", flat("a"), flat("out")))
    assert with_conversions(graph) == graph
