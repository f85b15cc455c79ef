"""Ranges of expressions of passes: they hold what the expression is in each pass, and exactly where it is affine."""

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
def test_bounds_hold_every_value(text: str, first: tuple[int, int], second: tuple[int, int]) -> None:
    low, high = bounds(parse(text))({"i": first, "j": second})
    found = values(text, first, second)
    assert low <= min(found)
    assert max(found) <= high
    if Affine.of(parse(text)) is not None:
        assert (min(found), max(found)) == (low, high)


@settings(max_examples=30)
@given(ranges, ranges)
@pytest.mark.parametrize("text", OF_INNER)
def test_truth_is_that_of_every_pass(text: str, first: tuple[int, int], second: tuple[int, int]) -> None:
    found = {bool(value) for value in values(text, first, second)}
    decided = truth(parse(text))({"i": first, "j": second})
    assert decided is None or {decided} == found


@settings(max_examples=30)
@given(ranges, ranges)
@pytest.mark.parametrize("text", OF_INNER)
def test_what_does_not_vary_is_alike_in_every_pass(text: str, first: tuple[int, int], second: tuple[int, int]) -> None:
    if not variation(parse(text), "i")({"i": first, "j": second}):
        passes = range(first[0], first[1] + 1)
        assert len({tuple(map(bool, values(text, (i, i), second))) for i in passes}) == 1


def test_affine_expressions_are_decided_without_slack() -> None:
    box = {"i": (5.0, 20.0), "j": (0.0, 4.0)}
    assert truth(parse("i - j >= 1"))(box) is True
    assert truth(parse("i - j >= 0 and i == 21"))(box) is False
    assert truth(parse("(2*i + 1) % 2 == 1"))(box) is True
    assert truth(None)(box) is True
    assert truth(parse("f(i)"))(box) is None


def test_whatever_an_expression_is_made_of_its_passes_are_found() -> None:
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
def test_passes_are_alike_up_to_where_a_condition_changes(condition: str, first: int, until: int) -> None:
    loop = Loop("i", 1000, (0,))
    graph = coded_graph(Idg((Instruction("alu", condition=parse(condition)),), (), (loop,)))
    assert PeriodicIterations(graph, loop, ()).until(first, 1000, Surroundings((), first)) == until


def test_edge_from_a_fixed_pass_ends_to_matter_when_that_is_over() -> None:
    loop = Loop("i", 1000, (0,))
    graph = coded_graph(Idg((Instruction("alu"),), (Edge(0, 0, (1,), (Affine((), 5),), parse("i >= 6")),), (loop,)))
    assert PeriodicIterations(graph, loop, ()).until(7, 1000, Surroundings((), 5)) == 7 + 1
    assert PeriodicIterations(graph, loop, ()).until(7, 1000, Surroundings((), 6)) == 1000


def test_edge_that_catches_up_ends_what_is_alike() -> None:
    # From pass 2i - 20: at i = 14 it is the eighth pass, and results of the ninth on may still be waited for
    loop = Loop("i", 1000, (0,))
    graph = coded_graph(Idg((Instruction("alu"),), (Edge(0, 0, (1,), (Affine.around(parse("2*i - 20")),)),), (loop,)))
    assert PeriodicIterations(graph, loop, ()).until(10, 1000, Surroundings((), 9)) == 15


def test_edge_from_an_earlier_run_of_an_inner_loop_is_of_no_matter() -> None:
    inner = Loop("j", 1000, (0,))
    outer = Loop("i", 9, (inner,))
    of_this_run = Edge(0, 0, (0, 1), (Affine.variable("i"), Affine((), 2)), parse("j >= 3"))
    of_last_run = Edge(0, 0, (1,), (Affine.variable("i", -1), Affine((), 999)))
    for edge, until in ((of_this_run, 5), (of_last_run, 1000)):
        graph = coded_graph(Idg((Instruction("alu"),), (edge,), (outer,)))
        (*around, loop) = graph.loops_around[0]
        assert PeriodicIterations(graph, loop, tuple(around)).until(4, 1000, Surroundings((3,), 2)) == until


def test_least_and_largest_of_several() -> None:
    box = {"i": (2.0, 9.0)}
    several = (prim.Variable("i"), 5, 3)
    assert (bounds(prim.Min(several))(box), bounds(prim.Max(several))(box)) == ((2, 3), (5, 9))
