"""Test that simplified formulas have the same values wherever the assumptions hold."""

from collections.abc import Mapping
from fractions import Fraction
from math import prod

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopyperf.polyhedral.affine import Affine, Atom
from loopyperf.polyhedral.closed_form import ClosedForm, Constraint, Piece
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from tests.polyhedral.random_sets import GRID, assuming, boxes, conditions, counted, domains, fixed

# {{{ independent evaluation


def atom_at(atom: Atom, sizes: Mapping[str, int]) -> int:
    if isinstance(atom, str):
        return sizes[atom]
    return affine_at(atom.numerator, sizes) // atom.denominator


def affine_at(expression: Affine[Atom], sizes: Mapping[str, int]) -> int:
    return sum((value * atom_at(atom, sizes) for atom, value in expression.terms), expression.constant)


def holds(constraint: Constraint, sizes: Mapping[str, int]) -> bool:
    value = affine_at(constraint.expression, sizes)
    return value == 0 if constraint.is_equality else value >= 0


def piece_at(piece: Piece, sizes: Mapping[str, int]) -> Fraction | None:
    """Return the value of *piece*, or None where it does not apply."""
    if not any(all(holds(constraint, sizes) for constraint in conjunction) for conjunction in piece.conditions):
        return None
    terms = piece.polynomial.terms
    return sum((prod(atom_at(atom, sizes) for atom in product) * value for product, value in terms), Fraction(0))


def values_at(form: ClosedForm, sizes: Mapping[str, int]) -> set[Fraction]:
    """Return the values of all pieces of *form* that apply; zero if none does."""
    return {value for piece in form if (value := piece_at(piece, sizes)) is not None} or {Fraction(0)}


# }}}


def points_at(domain: str, sizes: Mapping[str, int]) -> int:
    """Return the number of points of *domain*, enumerated."""
    return fixed(isl.Set(f"[m, n] -> {domain}"), sizes).count_val().to_python()


@settings(max_examples=80, deadline=None, derandomize=True)
@given(domains(), st.one_of(conditions(), st.just("n >= 0 and m >= 0"), st.just("m >= 1 and n mod 4 = 0")))
def test_formulas_equal_enumeration_and_their_pieces_agree(domain: str, condition: str) -> None:
    count, assumed = counted(domain, condition), isl.Set.from_basic_set(assuming(condition))
    for sizes in GRID:
        if not fixed(assumed, sizes).is_empty():
            assert values_at(count.formula, sizes) == {points_at(domain, sizes)}, (sizes, str(count))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(domains(), boxes, st.sampled_from(["", "n >= 0 and m >= 0"]))
def test_sums_and_products_equal_enumeration(left: str, right: str, condition: str) -> None:
    box = f"{{ [i, j] : {right} }}"
    first, second = counted(left, condition), counted(box, condition)
    total, product = (first + second).formula, (first * second).formula
    for sizes in GRID[::2]:
        if not condition or min(sizes.values()) >= 0:
            a, b = points_at(left, sizes), points_at(box, sizes)
            assert (values_at(total, sizes), values_at(product, sizes)) == ({a + b}, {a * b})


# {{{ by hand

NON_NEGATIVE = "n >= 0 and m >= 0"

SHORT = [
    # A condition is dropped if the polynomial is zero outside of it anyway ...
    ("{ [i] : 0 <= i < n }", NON_NEGATIVE, "n"),
    ("{ [i, j] : 0 <= j <= i < n }", NON_NEGATIVE, "n^2/2 + n/2"),
    ("{ [i, j] : 0 <= j < i < n }", NON_NEGATIVE, "n^2/2 - n/2"),
    ("{ [i] : 0 <= 16*i < n }", NON_NEGATIVE, "floor((n + 15)/16)"),
    ("{ [i] : 0 <= i < n and i mod 3 = 1 }", NON_NEGATIVE, "floor((n + 1)/3)"),
    ("{ [i, j] : 0 <= i < n and 0 <= j < m }", NON_NEGATIVE, "m*n"),
    # ... and kept otherwise.
    ("{ [i] : 0 <= i < n }", "", "n if n >= 1"),
    ("{ [i] : 0 <= i < n }", "n >= -1", "n if n >= 1"),
    ("{ [i] : i = 0 and n >= 1 }", NON_NEGATIVE, "1 if n >= 1"),
    ("{ [i] : 5 <= i < n }", NON_NEGATIVE, "n - 5 if n >= 6"),
    ("{ [i] : m <= i < n }", NON_NEGATIVE, "n - m if n > m"),
    ("{ [i] : 0 <= i < n and m >= 1 }", NON_NEGATIVE, "n if m >= 1"),
    ("{ [i] : 0 <= i < n and n mod 2 = 1 }", NON_NEGATIVE, "n if n mod 2 = 1"),
    # A piece is merged into another that has its values.
    ("{ [i] : 0 <= i < n and (i < 5 or i = 7) }", NON_NEGATIVE, "5 if 6 <= n <= 7; 6 if n >= 8; n if n <= 5"),
    ("{ [i] : 0 <= i <= n and (n = 3 or n >= 4) }", NON_NEGATIVE, "n + 1 if n >= 3"),
]


def test_formulas_are_short(subtests: pytest.Subtests) -> None:
    for domain, condition, formula in SHORT:
        with subtests.test(domain=domain, condition=condition, formula=formula):
            assert formula == str(counted(domain, condition))


def test_term_that_is_zero_adds_no_piece() -> None:
    # t·⌈n/32⌉ for n > -32, t·⌈n/16⌉ for n > -16, t > 0: where only the first applies, it is zero.
    space = assuming("n >= -40")
    extents = [isl.PwAff(f"[m, n] -> {{ [(floor((n + {size - 1})/{size}))] }}") for size in (16, 32)]
    narrow, wide = (QuasiPolynomial.of_extent(extent, space) for extent in extents)
    times = counted("{ [i] : 0 <= i < m }", "n >= -40")
    assert str((narrow + wide) * times) == "m*floor((n + 15)/16) + m*floor((n + 31)/32) if m >= 1 and n >= -15"


# }}}
