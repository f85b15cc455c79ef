"""Test affine expressions: values, conversions, and substitution of loop variables."""

from itertools import product
from pickle import dumps, loads
from typing import cast

import islpy as isl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymbolic import evaluate, parse

from loopyperf.polyhedral.affine import Affine, Atom, Floor, Symbol
from loopyperf.polyhedral.expressions import in_terms_of
from loopyperf.polyhedral.points import isl_function
from loopyperf.polyhedral.quasipolynomial import affine_of

NUMBERS = st.integers(-5, 5)
NAMES = ("i", "j", "n")
SUMS = st.builds(Affine[str].total, st.dictionaries(st.sampled_from(NAMES), NUMBERS), NUMBERS)


def with_floors(sums: st.SearchStrategy[Affine[Atom]]) -> st.SearchStrategy[Affine[Atom]]:
    floors = st.builds(Floor, sums, st.integers(2, 5))
    return st.builds(Affine.total, st.dictionaries(st.sampled_from(NAMES) | floors, NUMBERS, max_size=3), NUMBERS)


DIVIDED = with_floors(with_floors(SUMS))


@given(DIVIDED, st.fixed_dictionaries(dict.fromkeys(NAMES, NUMBERS)))
def test_values_agree_with_pymbolic_and_isl(known: Affine[Atom], at: dict[str, int]) -> None:
    places = {name: (isl.dim_type.in_, place) for place, name in enumerate(NAMES)}
    space = isl.LocalSpace.from_space(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(NAMES)))
    function = isl_function(known, space, places)
    point = isl.Point.zero(space.get_space())
    for place, name in enumerate(NAMES):
        point = point.set_coordinate_val(isl.dim_type.set, place, isl.Val(at[name]))
    again, divisor = affine_of(function, [(place, name) for name, place in places.items()])
    expected = known.at(at)
    assert evaluate(known.expression, at) == expected
    assert isl.PwAff.from_aff(function).eval(point).to_python() == expected
    assert (divisor, again.at(at)) == (1, expected)


@given(SUMS, SUMS, NUMBERS, st.fixed_dictionaries(dict.fromkeys(NAMES, NUMBERS)))
def test_arithmetic_agrees_with_that_of_the_values(
    one: Affine[str], other: Affine[str], factor: int, at: dict[str, int]
) -> None:
    assert ((one + other).at(at), (one - other).at(at)) == (one.at(at) + other.at(at), one.at(at) - other.at(at))
    assert (one * factor).at(at) == factor * one.at(at)
    assert factor == 0 or (one * factor).divided(factor) == one


@given(SUMS, SUMS)
def test_equal_sums_have_equal_hashes_and_text(one: Affine[str], other: Affine[str]) -> None:
    again = one + other - other
    assert (again, hash(again), str(again)) == (one, hash(one), str(one))
    assert loads(dumps(one)) == one == Affine.of(one.expression)


@given(SUMS, st.fixed_dictionaries(dict.fromkeys(NAMES, st.builds(range, st.integers(-3, 0), st.integers(1, 3)))))
def test_minimum_and_maximum_are_those_of_all_points(known: Affine[str], ranges: dict[str, range]) -> None:
    values = [known.at(dict(zip(ranges, point, strict=True))) for point in product(*ranges.values())]
    assert known.between(ranges) == (min(values), max(values))


@given(st.tuples(*[st.integers(-9, 9)] * 5))
def test_substitution_preserves_the_value(numbers: tuple[int, ...]) -> None:
    first, second, constant, i, j = numbers
    expression = parse("3*i + (j + c)*2 - 4*(i - 1)")
    substitutions = {"i": first * parse("i") + constant, "j": second}
    expected = evaluate(expression, {"i": first * i + constant, "j": second, "c": j})
    assert evaluate(in_terms_of(expression, substitutions), {"i": i, "c": j}) == expected


@given(SUMS, SUMS, st.fixed_dictionaries(dict.fromkeys(NAMES, NUMBERS)))
def test_substitution_in_expressions_that_are_not_affine(
    known: Affine[str], value: Affine[str], at: dict[str, int]
) -> None:
    # Terms that are not affine, here a quotient and a product, are variables, evaluated once their names are known.
    expression = known.expression + parse("(i + 3*n) // 4 - i*j")
    opaque = Affine.around(expression)
    assert opaque.at(at) == evaluate(opaque.expression, at) == evaluate(expression, at)
    changed = opaque.replaced({"i": cast("Affine[Symbol]", value)})
    assert changed.at(at) == evaluate(expression, at | {"i": value.at(at)})
    number = opaque.replaced({name: Affine((), each) for name, each in at.items()})
    assert number == Affine((), evaluate(expression, at))
    assert loads(dumps(opaque)) == opaque


def test_equal_sums_are_written_in_the_same_way() -> None:
    assert str(in_terms_of(parse("2*(j + 1) + i"), {})) == str(in_terms_of(parse("i + 1 + j*2 + 1"), {}))


@pytest.mark.parametrize(
    ("text", "same"), [("2*(i + 1)*3 - j*(4 - 2)", "6*i - 2*j + 6"), ("(i - i + 2)*j", "2*j"), ("2**3*i - i*8", "0")]
)
def test_products_with_numbers_are_expanded(text: str, same: str) -> None:
    assert Affine.of(parse(text)) == Affine.of(parse(same)) is not None


@pytest.mark.parametrize("text", ["i*j", "i // 2", "i % 2", "2.0*i", "a[i] + 1", "i**2", "i == 2"])
def test_expression_that_is_not_affine_gives_none(text: str) -> None:
    assert Affine.of(parse(text)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i == 2", True),
        ("i == 3", False),
        ("i == 2 and j == 3", "j == 3"),
        ("i == 3 and j == 3", False),
        ("i == 2 and i > 1", True),
    ],
)
def test_condition_is_simplified_by_a_known_variable(text: str, expected: bool | str) -> None:
    found = in_terms_of(parse(text), {"i": 2})
    assert found is expected or str(found) == expected
