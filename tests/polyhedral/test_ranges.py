"""Test bounds of expressions over loop iterations against all values; they are exact for affine expressions."""

from itertools import product

import pymbolic.primitives as prim
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymbolic import evaluate, parse

from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline.expression_code import coded_graph
from loopyperf.pipeline.shape import PeriodicIterations, Surroundings
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.ranges import bounds, divisors_of, mentions, truth, variation
from tests.idg.rolled_graphs import OF_INNER

EXPRESSIONS = [
    "i",
    "7",
    "3*i - 2*j + 1",
    "i // 4",
    "(4*i + 3) // 4",
    "i % 3",
    "(6*i + 2) % 3",
    "-i*j",
    "i*(j + 1) // 2",
]
EXPRESSIONS += ["-(i // 2)", "(i + j) % 4 - 2*(i // 3)"]
ranges = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: (min(pair), max(pair)))


def values(text: str, first: tuple[int, int], second: tuple[int, int]) -> list[int]:
    points = product(range(first[0], first[1] + 1), range(second[0], second[1] + 1))
    return [evaluate(parse(text), {"i": i, "j": j}) for i, j in points]


@settings(max_examples=30)
@given(ranges, ranges)
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_bounds_contain_every_value(text: str, first: tuple[int, int], second: tuple[int, int]) -> None:
    low, high = bounds(parse(text))({"i": first, "j": second})
    found = values(text, first, second)
    assert low <= min(found)
    assert max(found) <= high
    if Affine.of(parse(text)) is not None:
        assert (min(found), max(found)) == (low, high)


@settings(max_examples=30)
@given(ranges, ranges)
@pytest.mark.parametrize("text", OF_INNER)
def test_truth_is_that_of_every_iteration(text: str, first: tuple[int, int], second: tuple[int, int]) -> None:
    found = {bool(value) for value in values(text, first, second)}
    decided = truth(parse(text))({"i": first, "j": second})
    assert decided is None or {decided} == found


@settings(max_examples=30)
@given(ranges, ranges)
@pytest.mark.parametrize("text", OF_INNER)
def test_condition_without_variation_is_constant(text: str, first: tuple[int, int], second: tuple[int, int]) -> None:
    if not variation(parse(text), "i")({"i": first, "j": second}):
        iterations = range(first[0], first[1] + 1)
        assert len({tuple(map(bool, values(text, (i, i), second))) for i in iterations}) == 1


def test_truth_of_affine_conditions_is_exact() -> None:
    box = {"i": (5.0, 20.0), "j": (0.0, 4.0)}
    assert truth(parse("i - j >= 1"))(box) is True
    assert truth(parse("i - j >= 0 and i == 21"))(box) is False
    assert truth(parse("(2*i + 1) % 2 == 1"))(box) is True
    assert truth(None)(box) is True
    assert truth(parse("f(i)"))(box) is None


def test_loop_variables_and_divisors_in_expressions_are_found() -> None:
    assert mentions(parse("f(a[i]) + j"), "i")
    assert not mentions(parse("k // 2"), "i")
    assert divisors_of(parse("i // 4 + (i % 6) >= 2")) == {4, 6}


@pytest.mark.parametrize(
    ("condition", "first", "until"),
    [
        ("i == 0", 0, 1),
        ("i == 0", 1, 1000),
        ("i >= 500", 3, 500),
        ("i >= 500", 500, 1000),
        ("i % 8 == 3", 2, 1000),
        ("i % 100 == 3", 2, 2),
        ("i * i == 49", 8, 1000),
    ],
)
def test_iterations_are_periodic_until_a_condition_changes(condition: str, first: int, until: int) -> None:
    loop = Loop("i", 1000, (0,))
    graph = coded_graph(Idg((Instruction("alu", condition=parse(condition)),), (), (loop,)))
    assert PeriodicIterations(graph, loop, ()).until(first, 1000, Surroundings((), first)) == until


def test_edge_from_a_fixed_iteration_ends_the_period_until_it_completes() -> None:
    loop = Loop("i", 1000, (0,))
    graph = coded_graph(Idg((Instruction("alu"),), (Edge(0, 0, (1,), (Affine((), 5),), parse("i >= 6")),), (loop,)))
    assert PeriodicIterations(graph, loop, ()).until(7, 1000, Surroundings((), 5)) == 7 + 1
    assert PeriodicIterations(graph, loop, ()).until(7, 1000, Surroundings((), 6)) == 1000


def test_edge_that_catches_up_ends_the_periodic_iterations() -> None:
    # The edge starts at iteration 2i - 20: iteration 8 at i = 14. Results from iteration 9 on may still be pending.
    loop = Loop("i", 1000, (0,))
    graph = coded_graph(Idg((Instruction("alu"),), (Edge(0, 0, (1,), (Affine.around(parse("2*i - 20")),)),), (loop,)))
    assert PeriodicIterations(graph, loop, ()).until(10, 1000, Surroundings((), 9)) == 15


def test_edge_from_an_earlier_execution_of_a_loop_has_no_effect() -> None:
    inner = Loop("j", 1000, (0,))
    outer = Loop("i", 9, (inner,))
    of_this_run = Edge(0, 0, (0, 1), (Affine.variable("i"), Affine((), 2)), parse("j >= 3"))
    of_last_run = Edge(0, 0, (1,), (Affine.variable("i", -1), Affine((), 999)))
    for edge, until in ((of_this_run, 5), (of_last_run, 1000)):
        graph = coded_graph(Idg((Instruction("alu"),), (edge,), (outer,)))
        (*around, loop) = graph.loops_around[0]
        assert PeriodicIterations(graph, loop, tuple(around)).until(4, 1000, Surroundings((3,), 2)) == until


def test_bounds_of_minimum_and_maximum() -> None:
    box = {"i": (2.0, 9.0)}
    several = (prim.Variable("i"), 5, 3)
    assert (bounds(prim.Min(several))(box), bounds(prim.Max(several))(box)) == ((2, 3), (5, 9))
