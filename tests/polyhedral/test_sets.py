"""Test the factors of sets, and the intervals of single dimensions."""

from functools import reduce
from itertools import product

import islpy as isl
import pymbolic.primitives as prim
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymbolic import evaluate, parse

from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline.shape import PeriodicIterations, Surroundings
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.expressions import bounds, divisors_of, mentions, truth, variation
from loopyperf.polyhedral.plain_sets import PlainSet, plain_box
from loopyperf.polyhedral.points import Box, DigitExpansion, ListedNumber, boxed, number_by_place
from loopyperf.polyhedral.sets import dimension_interval, factors, without_tiles
from tests.idg.rolled_graphs import OF_INNER
from tests.polyhedral.random_sets import GRID, boxes, constraints, counted, fixed

# Tiles of 12 of 0 <= 12*o + i < 35: o is 0, 1 or 2; i is below 12, and below 11 in the last tile.
TILES = isl.BasicSet("[n] -> { [o, i, s] : 0 <= o and 0 <= i <= 11 and 12o + i <= 34 and 0 <= s < n }")


@pytest.mark.parametrize(
    ("name", "given", "values"),
    [
        ("o", (), range(3)),
        ("i", (), range(12)),
        ("o", ("i",), None),
        ("i", ("o", "s"), None),
        ("o", ("s",), range(3)),
        ("s", (), None),
    ],
)
def test_interval_exists_if_it_is_independent_of_other_dimensions(
    name: str, given: tuple[str, ...], values: range | None
) -> None:
    assert dimension_interval(TILES, name, given) == values


def test_unbounded_dimension_has_no_interval() -> None:
    points = isl.BasicSet("{ [i, j] : 0 <= i and j = 3 }")
    assert dimension_interval(points, "i") is None
    assert dimension_interval(points, "j") == range(3, 4)


def test_empty_set_has_no_interval() -> None:
    assert dimension_interval(isl.BasicSet("{ [i] : 0 <= i < 0 }"), "i") is None


@pytest.mark.parametrize(
    ("text", "together"),
    [
        ("{ [i, j, k] : 0 <= i < 6 and 0 <= j <= i and 0 <= k < 4 }", [[0, 1], [2]]),
        ("{ [i, j, k] : 0 <= i < 9 and i mod 3 = 2 and 0 <= j < 8 and k = j mod 4 }", [[0], [1, 2]]),
        ("{ [i, j] : exists (e: 0 <= i < 9 and 0 <= j < 9 and -1 <= i + j - 4e <= 0) }", [[0, 1]]),
    ],
)
def test_set_is_the_product_of_its_factors(text: str, together: list[list[int]]) -> None:
    points = isl.BasicSet(text)
    parts = list(factors(points))
    assert [places for places, _ in parts] == together
    product = isl.Set.from_basic_set(reduce(isl.BasicSet.flat_product, (part for _, part in parts)))
    assert product.is_equal(isl.Set.from_basic_set(points))


# {{{ sets and maps as plain numbers, and the boxes found in them, against listed points

INTERVALS = st.builds(lambda first, length: range(first, first + length), st.integers(-9, 9), st.integers(1, 5))
BOXES = st.integers(1, 3).flatmap(lambda number: st.tuples(*[INTERVALS] * number))
FACTORS = st.sampled_from([0, 0, 1, 1, -1, 2, 3, 4, -5, 8, 15])


@given(BOXES)
def test_box_is_recovered_from_its_constraints(box: Box) -> None:
    assert plain_box(PlainSet.of(boxed(box))) == box


# }}}


# {{{ joining the variables of tiles keeps the number of points and restores the original loops


def test_tiled_loops_are_restored(subtests: pytest.Subtests) -> None:
    for tiled, plain in [
        ("{ [o, i] : 0 <= i < 16 and 0 <= o and 16*o + i < n }", "{ [x] : 0 <= x < n }"),
        ("{ [i, o] : 0 <= i < 16 and m <= 16*o + i < n }", "{ [x] : m <= x < n }"),
        # A triangle of which both sides are tiled, by different widths.
        (
            "{ [o, i, p, j] : 0 <= i < 16 and 0 <= o and 16*o + i < n and 0 <= j < 4 and 0 <= 4*p + j <= 16*o + i }",
            "{ [x, y] : 0 <= x < n and 0 <= y <= x }",
        ),
        # Tiles of tiles.
        ("{ [o, k, i] : 0 <= i < 4 and 0 <= k < 8 and 0 <= 32*o + 4*k + i < n }", "{ [x] : 0 <= x < n }"),
        # Two pieces: all points but one.
        ("{ [o, i] : 0 <= i < 8 and 0 <= 8*o + i < n and 8*o + i != 5 }", "{ [x] : 0 <= x < n and x != 5 }"),
        (
            "{ [o, i] : 0 <= i < 8 and 0 <= 8*o + i < n and (8*o + i) mod 3 = 1 }",
            "{ [x] : 0 <= x < n and x mod 3 = 1 }",
        ),
        # Two pieces, one of which has only half a tile.
        (
            "{ [o, i] : 0 <= i and (o = 0 and i < 8 or o > 0 and i < 16 and 16*o + i < n) }",
            "{ [x] : 0 <= x < 8 or 16 <= x < n }",
        ),
        # Half a tile, which would leave holes.
        ("{ [o, i] : 0 <= i < 8 and 0 <= 16*o + i < n }", None),
        ("{ [o, i, k] : 0 <= i < 8 and 0 <= 16*o + i + 4*k < n and 0 <= k <= m }", None),
        # Not tiles: the inner variable leaves its tile, or has no bound of its own.
        ("{ [o, i] : 0 <= i <= 8 and 0 <= o and 8*o + i < n }", None),
        ("{ [o, i] : -1 <= i < 8 and 0 <= o and 8*o + i < n }", None),
        ("{ [o, i] : 0 <= i <= m and 0 <= o and 8*o + i < n }", None),
        ("{ [o, i] : 0 <= i < 8 and 0 <= o < n }", None),
    ]:
        with subtests.test(tiled=tiled, plain=plain):
            joined = without_tiles(isl.Set(f"[m, n] -> {tiled}"))
            assert joined.plain_is_equal(isl.Set(f"[m, n] -> {plain or tiled}"))


def test_tiled_triangle_has_the_polynomial_of_a_triangle() -> None:
    tiled = "{ [o, i, p, j] : 0 <= i < 16 and 0 <= o and 16*o + i < n and 0 <= j < 4 and 0 <= 4*p + j <= 16*o + i }"
    assert str(counted(tiled, "n >= 1")) == "n^2/2 + n/2"


def in_tiles(polyhedron: str, width: int, height: int) -> str:
    """Return the set of *polyhedron*, of i and j, with i in tiles of *width* and j in tiles of *height*."""
    i, j = f"({width}*o + x)", f"({height}*p + y)"
    tiled = "".join({"i": i, "j": j}.get(letter, letter) for letter in polyhedron)
    return f"{{ [o, x, p, y] : {tiled} and 0 <= x < {width} and 0 <= y < {height} }}"


@settings(max_examples=60, derandomize=True)
@given(boxes, st.lists(constraints, max_size=2), st.integers(2, 16), st.integers(2, 5))
def test_tiling_does_not_change_the_number_of_points(box: str, cuts: list[str], width: int, height: int) -> None:
    polyhedron = " and ".join([box, *cuts])
    tiled = isl.Set(f"[m, n] -> {in_tiles(polyhedron, width, height)}")
    plain, joined = isl.Set(f"[m, n] -> {{ [i, j] : {polyhedron} }}"), without_tiles(tiled)
    for sizes in GRID[::3]:
        numbers = {fixed(points, sizes).count_val().to_python() for points in (plain, tiled, joined)}
        assert len(numbers) == 1, sizes


# }}}


# {{{ bounds of expressions over loop iterations against all values; they are exact for affine expressions

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
    graph = Idg((Instruction("alu", condition=parse(condition)),), (), (loop,))
    assert PeriodicIterations(graph, loop, ()).until(first, 1000, Surroundings((), first)) == until


def test_edge_from_a_fixed_iteration_ends_the_period_until_it_completes() -> None:
    loop = Loop("i", 1000, (0,))
    graph = Idg((Instruction("alu"),), (Edge(0, 0, (1,), (Affine((), 5),), parse("i >= 6")),), (loop,))
    assert PeriodicIterations(graph, loop, ()).until(7, 1000, Surroundings((), 5)) == 7 + 1
    assert PeriodicIterations(graph, loop, ()).until(7, 1000, Surroundings((), 6)) == 1000


def test_edge_that_catches_up_ends_the_periodic_iterations() -> None:
    # The edge starts at iteration 2i - 20: iteration 8 at i = 14. Results from iteration 9 on may still be pending.
    loop = Loop("i", 1000, (0,))
    graph = Idg((Instruction("alu"),), (Edge(0, 0, (1,), (Affine.around(parse("2*i - 20")),)),), (loop,))
    assert PeriodicIterations(graph, loop, ()).until(10, 1000, Surroundings((), 9)) == 15


def test_edge_from_an_earlier_execution_of_a_loop_has_no_effect() -> None:
    inner = Loop("j", 1000, (0,))
    outer = Loop("i", 9, (inner,))
    of_this_run = Edge(0, 0, (0, 1), (Affine.variable("i"), Affine((), 2)), parse("j >= 3"))
    of_last_run = Edge(0, 0, (1,), (Affine.variable("i", -1), Affine((), 999)))
    for edge, until in ((of_this_run, 5), (of_last_run, 1000)):
        graph = Idg((Instruction("alu"),), (edge,), (outer,))
        (*around, loop) = graph.loops_around[0]
        assert PeriodicIterations(graph, loop, tuple(around)).until(4, 1000, Surroundings((3,), 2)) == until


def test_bounds_of_minimum_and_maximum() -> None:
    box = {"i": (2.0, 9.0)}
    several = (prim.Variable("i"), 5, 3)
    assert (bounds(prim.Min(several))(box), bounds(prim.Max(several))(box)) == ((2, 3), (5, 9))


# }}}


# {{{ the number of points at each position: listed, and by Barvinok's algorithm

# 8 <= 16*t + i <= 40 with t from 0 to 2: 8 values of i for t = 0, 16 for t = 1, and 9 for t = 2.
NUMBER_BY_POSITION_TILES = isl.Set("{ [p, t, i] : 0 <= t <= 2 and 0 <= i <= 15 and 8 <= 16t + i <= 40 }")
NUMBERS = {0: 8, 1: 16, 2: 9}


def tiled_twice(places: int) -> isl.Set:
    """Return a set of points at each of *places* values of w, with tiles of 16 for i and of 32 for w."""
    return isl.Set(
        f"{{ [w, i] : exists (e, f: 0 <= w < {places} and 0 <= i <= 15 and 0 <= 16e <= 23 - i "
        f"and 0 <= 32f < {places} and w - 16e - 16 <= 32f <= w - 16e) }}"
    )


def test_number_of_listed_points_at_each_position() -> None:
    number = ListedNumber(NUMBER_BY_POSITION_TILES, 2)
    assert {t: number.at({1: t}) for t in range(3)} == NUMBERS
    assert number.at({1: 3}) == 0


def test_number_depends_on_constrained_dimensions() -> None:
    number = ListedNumber(NUMBER_BY_POSITION_TILES, 2)
    assert [number.depends_on(axis) for axis in range(2)] == [False, True]


def test_listed_numbers_agree_with_barvinok() -> None:
    listed, counted = ListedNumber(tiled_twice(60), 1), DigitExpansion(tiled_twice(60), 1)
    assert [counted.at({0: w}) for w in range(60)] == [listed.at({0: w}) for w in range(60)]


@pytest.mark.parametrize(
    ("points", "way"),
    [
        (NUMBER_BY_POSITION_TILES, DigitExpansion),
        (tiled_twice(60), ListedNumber),
        (tiled_twice(10_000), DigitExpansion),
    ],
)
def test_sets_with_divisions_at_few_positions_are_listed(points: isl.Set, way: type) -> None:
    assert way is type(number_by_place(points, points.dim(isl.dim_type.set) - 1))


# }}}
