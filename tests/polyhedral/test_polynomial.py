"""Addresses as sums of products of sizes, loop variables and hardware indices."""

from pickle import dumps, loads

import pymbolic.primitives as prim
from pymbolic import parse

from loopyperf.polyhedral.polynomial import Polynomial


def test_products_are_multiplied_out_and_equal_ones_added() -> None:
    assert Polynomial.of(parse("(n + 2)*(16*i + k + 1) - 2*k")) == Polynomial.of(parse("16*i*n + k*n + n + 32*i + 2"))


def test_addresses_a_constant_apart_are_the_same_without_it() -> None:
    here, there = (Polynomial.of(parse(text)) for text in ("n*i + j", "n*i + j + 7"))
    assert (here.without_constant, here.constant, there.constant) == (there.without_constant, 0, 7)


def test_the_step_of_a_loop_is_known_or_depends_on_sizes() -> None:
    address = Polynomial.of(parse("n*k + 4*j + k"))
    assert address.factor_of("k") == Polynomial.of(parse("n + 1"))
    assert address.factor_of("j") == Polynomial.of(4)


def test_copies_of_a_pass_have_its_number_in_their_addresses() -> None:
    address = Polynomial.of(parse("n*k + i")).in_terms_of({"k": 4 * prim.Variable("k") + 3})
    assert address == Polynomial.of(parse("4*n*k + 3*n + i"))


def test_what_is_no_sum_of_products_is_a_variable() -> None:
    address = Polynomial.of(3 * (prim.Variable("i") // 2) + 1)
    assert (len(address.variables), address.constant) == (1, 1)


def test_what_is_called_as_written_is_worked_out_where_all_of_it_is_known() -> None:
    address = Polynomial.of(parse("l + (64 >> k)"))
    assert address.in_terms_of({"k": 4}) == Polynomial.of(parse("l + 4"))
    assert address.in_terms_of({"k": parse("k + 1")}) != address
    assert loads(dumps(address)).in_terms_of({"k": 4}) == Polynomial.of(parse("l + 4"))


def test_steps_of_a_shift_differ_and_those_of_a_product_with_a_size_do_not() -> None:
    addresses = [Polynomial.of(parse(text)) for text in ("n*k + l", "l*k", "l + (1 << k)", "k*k", "l % 2 + k")]
    assert [each.is_affine_in({"k"}) for each in addresses] == [True, True, False, False, True]
