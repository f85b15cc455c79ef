"""Test polynomials: values, arithmetic, and addresses that depend on sizes and loop variables."""

from fractions import Fraction
from math import prod
from pickle import dumps, loads

import pymbolic.primitives as prim
from hypothesis import given
from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.polynomial import Polynomial

NAMES = ("i", "n")
NUMBERS = st.integers(-4, 4)
FLOORS = [Floor(Affine((("n", 3),), constant), 4) for constant in (0, 1)]
POLYNOMIALS = st.builds(
    Polynomial[Atom].total,
    st.dictionaries(
        st.lists(st.sampled_from([*NAMES, *FLOORS]), max_size=3).map(lambda factors: tuple(sorted(factors))),
        NUMBERS | st.builds(Fraction, NUMBERS, st.integers(1, 3)),
        max_size=4,
    ),
)
VALUES = st.fixed_dictionaries(dict.fromkeys(NAMES, NUMBERS))


def value_at(known: Polynomial[Atom], at: dict[str, int]) -> Fraction:
    values = {**at, **{floor: floor.numerator.at(at) // floor.denominator for floor in FLOORS}}
    return sum((value * prod(values[each] for each in product) for product, value in known.terms), Fraction(0))


@given(POLYNOMIALS, POLYNOMIALS, st.integers(0, 3), VALUES)
def test_arithmetic_agrees_with_that_of_the_values(
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


@given(st.dictionaries(st.sampled_from([*NAMES, *FLOORS]), NUMBERS), NUMBERS, VALUES)
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
