"""Test affine expressions: values, conversions, and substitution of loop variables."""

from fractions import Fraction
from itertools import product
from math import prod
from pickle import dumps, loads
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopy.symbolic import get_dependencies
from pymbolic import evaluate, parse

from loopyperf.polyhedral.affine import Affine, Atom, Floor, Symbol
from loopyperf.polyhedral.expressions import in_terms_of
from loopyperf.polyhedral.points import isl_function
from loopyperf.polyhedral.polynomial import Polynomial
from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, quasi_affine_map, simplified_expression
from loopyperf.polyhedral.quasipolynomial import affine_of
from tests.pointwise import PointwiseEvaluator

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


# {{{ isl's quasi-affine functions against point-by-point evaluation of the original expressions

i, j = prim.Variable("i"), prim.Variable("j")
LENGTHS = {"i": 24, "j": 6}
POINTS = isl.Set("{ [i, j] : 0 <= i < 24 and 0 <= j < 6 }")


def values(expression: Any) -> np.ndarray:
    """Return the value of *expression* at each of POINTS."""
    columns = np.array(list(product(*map(range, LENGTHS.values())))).T
    found = PointwiseEvaluator(dict(zip(LENGTHS, columns, strict=True)))(expression)
    return np.broadcast_to(found, columns[0].shape)


# {{{ equal at all points


@st.composite
def integer_expressions(draw: Any, depth: int = 3) -> Any:
    """Draw an expression of i and j with any quasi-affine operations."""
    if depth == 0:
        return draw(st.sampled_from([i, j, 3]))
    one, other = (draw(integer_expressions(depth - 1)) for _ in range(2))
    number = draw(st.integers(1, 7))
    condition = prim.Comparison(one, draw(st.sampled_from(["<", "<=", "==", "!=", ">", ">="])), number)
    alternatives = [
        *(one + other, one - other, number * one, -one, one // number, one % number, one // -number, one % -number),
        *(prim.Min((one, other)), prim.Max((one, number)), prim.If(condition, one, other)),
        *(prim.If(prim.LogicalNot(condition), one, number), prim.LeftShift(one, number % 3)),
        *(prim.RightShift(one, number % 3), prim.BitwiseAnd((one, number)), prim.BitwiseAnd((-number, one))),
        *(prim.BitwiseOr((one, number)), prim.BitwiseXor((number, one)), prim.BitwiseNot(one)),
    ]
    return draw(st.sampled_from(alternatives))


@settings(max_examples=80, deadline=None, database=None, derandomize=True)
@given(integer_expressions())
def test_simplified_expression_is_equal_at_all_points(expression: Any) -> None:
    assert (values(simplified_expression(expression, POINTS)) == values(expression)).all()


@settings(max_examples=30, deadline=None, database=None, derandomize=True)
@given(integer_expressions(2), integer_expressions(2))
def test_range_of_a_map_has_the_values_of_its_expressions(one: Any, other: Any) -> None:
    values_of_map: list[tuple[int, ...]] = []
    quasi_affine_map(POINTS, (one, other)).range().foreach_point(
        lambda point: values_of_map.append(
            tuple(point.get_coordinate_val(isl.dim_type.set, at).to_python() for at in (0, 1))
        )
    )
    assert sorted(values_of_map) == sorted(set(zip(values(one).tolist(), values(other).tolist(), strict=True)))


# }}}


# {{{ the fewest floors


def test_floors_that_cancel_or_are_constant_are_removed(subtests: pytest.Subtests) -> None:
    for expression, simplest in [
        # Reshapes: the same elements with other axes, also in two steps.
        ("6*((3*i + j)//6) + (3*i + j) % 6", "3*i + j"),
        ("6*((3*i + j)//6) + 2*((3*i + j) // 2 % 3) + (3*i + j) % 2", "3*i + j"),
        ("12*((3*i + j)//12) + 3*((3*i + j) % 12 // 3) + (3*i + j) % 3", "3*i + j"),
        ("6*(((i*6 + j)//2)//3) + 2*(((i*6 + j)//2) % 3) + (i*6 + j) % 2", "6*i + j"),
        # Simplifications that follow from the loop bounds.
        ("(6*i + j)//6", "i"),
        ("(6*i + j) % 6", "j"),
        ("(i + 5) // 30", "0"),
        ("i % 24", "i"),
        # Bits.
        ("(i << 1) + j", "2*i + j"),
        ("(i & 7) + (i & -8)", "i"),
        ("8*(i >> 3) + (i & 7)", "i"),
        ("(i << 3) | 5", "8*i + 5"),
        ("~(~i)", "i"),
    ]:
        with subtests.test(expression=expression, simplest=simplest):
            difference = simplified_expression(parse(expression) - parse(simplest), POINTS)
            assert difference == 0
            assert not any(floor in str(simplified_expression(parse(expression), POINTS)) for floor in ("//", "%"))


@pytest.mark.parametrize(
    "expression",
    [
        prim.If(prim.Comparison(i, ">=", 0), i, i + 24),  # NumPy's negative indices
        prim.Max((0, prim.Min((i, 23)))),
        prim.If(prim.LogicalOr((prim.Comparison(i, "<", 5), prim.Comparison(i, ">=", 5))), i, j),
        prim.If(prim.Comparison(i, "==", 3), 3, i),
    ],
)
def test_cases_that_never_differ_are_merged(expression: Any) -> None:
    assert simplified_expression(expression, POINTS) == i


def test_unknown_term_may_be_a_summand_if_allowed() -> None:
    unknown = parse("q[k]*j")
    element = 3 * ((2 * i + unknown) // 3) + (2 * i + unknown) % 3 + unknown
    found = simplified_expression(element, POINTS, lambda part: "i" not in get_dependencies(part))
    assert get_dependencies(found) == {"i", "j", "k", "q"}
    assert PointwiseEvaluator({"i": 5, "j": 2, "k": 0, "q": [7]})(found) == 2 * 5 + 2 * 7 * 2
    assert "//" not in str(found)


@pytest.mark.parametrize("expression", ["i*j", "i & j", "i // j", "x[i]", "1 << i", "f(i)", "i**2", "unknown", "i / 2"])
def test_expression_that_is_not_quasi_affine_raises(expression: str) -> None:
    with pytest.raises(NotQuasiAffineError):
        simplified_expression(parse(expression) + 2 * i, POINTS)


# }}}


# }}}


# {{{ polynomials: values, arithmetic, and addresses that depend on sizes and loop variables

POLYNOMIAL_NAMES = ("i", "n")
POLYNOMIAL_NUMBERS = st.integers(-4, 4)
FLOORS = [Floor(Affine((("n", 3),), constant), 4) for constant in (0, 1)]
POLYNOMIALS = st.builds(
    Polynomial[Atom].total,
    st.dictionaries(
        st.lists(st.sampled_from([*POLYNOMIAL_NAMES, *FLOORS]), max_size=3).map(lambda factors: tuple(sorted(factors))),
        POLYNOMIAL_NUMBERS | st.builds(Fraction, POLYNOMIAL_NUMBERS, st.integers(1, 3)),
        max_size=4,
    ),
)
VALUES = st.fixed_dictionaries(dict.fromkeys(POLYNOMIAL_NAMES, POLYNOMIAL_NUMBERS))


def value_at(known: Polynomial[Atom], at: dict[str, int]) -> Fraction:
    values = {**at, **{floor: floor.numerator.at(at) // floor.denominator for floor in FLOORS}}
    return sum((value * prod(values[each] for each in product) for product, value in known.terms), Fraction(0))


@given(POLYNOMIALS, POLYNOMIALS, st.integers(0, 3), VALUES)
def test_arithmetic_agrees_with_that_of_the_values_of_polynomial(
    one: Polynomial[Atom], other: Polynomial[Atom], exponent: int, at: dict[str, int]
) -> None:
    here, there = value_at(one, at), value_at(other, at)
    assert (value_at(one + other, at), value_at(one - other, at)) == (here + there, here - there)
    assert (value_at(one * other, at), value_at(one**exponent, at)) == (here * there, here**exponent)
    assert value_at(one * Fraction(2, 3), at) == here * Fraction(2, 3)


@given(POLYNOMIALS, st.integers(-3, 3), VALUES)
def test_variable_is_replaced_outside_of_floors(known: Polynomial[Atom], step: int, at: dict[str, int]) -> None:
    # n is i + step outside of floors, and stays n inside.
    outside: dict[Atom, Polynomial[Atom]] = {"n": Polynomial.of_affine(Affine.variable("i", step))}
    values = {"i": at["i"], "n": at["i"] + step} | {floor: floor.numerator.at(at) // 4 for floor in FLOORS}
    expected = sum(value * prod(values[each] for each in product) for product, value in known.terms)
    assert value_at(known.replaced(outside), at) == expected


def test_polynomials_are_readable() -> None:
    assert str(Polynomial.of(parse("i*(n + 2) - n*n + 7*(j % 2)"))) == "2*i + i*n + -1*n*n + 7*(j % 2)"
    assert str(Polynomial[Atom].variable("n") * Fraction(1, 2)) == "1/2*n"


@given(POLYNOMIALS, POLYNOMIALS)
def test_equal_polynomials_have_equal_hashes_and_text(one: Polynomial[Atom], other: Polynomial[Atom]) -> None:
    again = one + other - other
    assert (again, hash(again), str(again)) == (one, hash(one), str(one))
    assert loads(dumps(one)) == one


@given(st.dictionaries(st.sampled_from([*POLYNOMIAL_NAMES, *FLOORS]), POLYNOMIAL_NUMBERS), POLYNOMIAL_NUMBERS, VALUES)
def test_affine_expression_is_a_polynomial_of_degree_one(
    factors: dict[Atom, int], constant: int, at: dict[str, int]
) -> None:
    known = Affine.total(factors, constant)
    found = Polynomial.of_affine(known)
    assert (found.constant, found.variables) == (known.constant, known.variables)
    assert value_at(found, at) == known.at(at)


def test_products_are_expanded_and_equal_terms_added() -> None:
    assert Polynomial.of(parse("(n + 2)*(16*i + k + 1) - 2*k")) == Polynomial.of(parse("16*i*n + k*n + n + 32*i + 2"))


def test_constant_offset_is_separated_from_the_address() -> None:
    here, there = (Polynomial.of(parse(text)) for text in ("n*i + j", "n*i + j + 7"))
    assert (here.without_constant, here.constant, there.constant) == (there.without_constant, 0, 7)


def test_step_of_a_loop_is_a_number_or_depends_on_sizes() -> None:
    address = Polynomial.of(parse("n*k + 4*j + k"))
    assert address.factor_of("k") == Polynomial.of(parse("n + 1"))
    assert address.factor_of("j") == Polynomial.of(4)


def test_addresses_of_unrolled_copies_contain_their_number() -> None:
    address = Polynomial.of(parse("n*k + i")).in_terms_of({"k": 4 * prim.Variable("k") + 3})
    assert address == Polynomial.of(parse("4*n*k + 3*n + i"))


def test_term_that_is_not_polynomial_is_a_variable() -> None:
    address = Polynomial.of(3 * (prim.Variable("i") // 2) + 1)
    assert (len(address.variables), address.constant) == (1, 1)


def test_opaque_term_is_evaluated_if_all_its_names_are_known() -> None:
    address = Polynomial.of(parse("l + (64 >> k)"))
    assert address.in_terms_of({"k": 4}) == Polynomial.of(parse("l + 4"))
    assert address.in_terms_of({"k": parse("k + 1")}) != address
    assert loads(dumps(address)).in_terms_of({"k": 4}) == Polynomial.of(parse("l + 4"))


def test_products_with_sizes_are_affine_and_shifts_are_not() -> None:
    addresses = [Polynomial.of(parse(text)) for text in ("n*k + l", "l*k", "l + (1 << k)", "k*k", "l % 2 + k")]
    assert [each.is_affine_in({"k"}) for each in addresses] == [True, True, False, False, True]


# }}}
