"""Closed forms as text and as LaTeX."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.closed_forms.closed_form import ClosedForm, Conjunction, Piece
from loopyperf.polyhedral.polynomial import Monomial, Polynomial, Rational, Term

Terms = Sequence[Term[Atom]]


def text(form: ClosedForm) -> str:
    """Return *form* on one line, e.g. ``"n^3/8"`` or ``"n^2 if n >= 16; 16*n if 1 <= n <= 15"``."""
    return "; ".join(_piece(piece) for piece in form) or "0"


def latex(form: ClosedForm) -> str:
    """Return *form* as LaTeX without delimiters; several pieces become a ``cases`` environment."""
    if len(form) == 1 and form[0].is_unconditional:
        return _polynomial(form[0].polynomial, LATEX)
    rows = [f"{_polynomial(piece.polynomial, LATEX)} & {_conditions(piece, LATEX)}" for piece in form]
    return r"\begin{cases}" + r" \\ ".join(rows) + r"\end{cases}" if rows else "0"


@dataclass(frozen=True, slots=True)
class _Notation:
    """How formulas are written: operators, and templates of what is made of parts."""

    times: str
    at_least: str
    at_most: str
    above: str
    conjunction: str
    disjunction: str
    word: str
    """a parameter whose name has several letters"""
    underscore: str
    floor: str
    power: str
    fraction: str
    numerator: str
    """a numerator that is a sum"""
    parentheses: str
    modulo: str


PLAIN = _Notation(
    times="*",
    at_least=">=",
    at_most="<=",
    above=">",
    conjunction=" and ",
    disjunction=" or ",
    word="{}",
    underscore="_",
    floor="floor({})",
    power="{}^{}",
    fraction="{}/{}",
    numerator="({})",
    parentheses="({})",
    modulo="{} mod {}",
)
LATEX = _Notation(
    times=r" \, ",
    at_least=r"\geq",
    at_most=r"\leq",
    above=">",
    conjunction=r" \land ",
    disjunction=r" \lor ",
    word=r"\mathit{{{}}}",
    underscore=r"\_",
    floor=r"\left\lfloor {} \right\rfloor",
    power="{{{}}}^{{{}}}",
    fraction=r"\frac{{{}}}{{{}}}",
    numerator="{}",
    parentheses=r"\left({}\right)",
    modulo=r"{} \bmod {}",
)


# {{{ conditions


def _piece(piece: Piece) -> str:
    polynomial = _polynomial(piece.polynomial, PLAIN)
    return polynomial if piece.is_unconditional else f"{polynomial} if {_conditions(piece, PLAIN)}"


def _conditions(piece: Piece, notation: _Notation) -> str:
    return notation.disjunction.join(_conjunction(conjunction, notation) for conjunction in piece.conditions)


def _conjunction(conjunction: Conjunction, notation: _Notation) -> str:
    equalities = [_equality(c.expression, notation) for c in conjunction if c.is_equality]
    bounds = _bounds(constraint.expression for constraint in conjunction if not constraint.is_equality)
    return notation.conjunction.join([*equalities, *(_between(*bound, notation) for bound in bounds)])


def _equality(expression: Affine[Atom], notation: _Notation) -> str:
    modulo = _as_modulo(expression)
    if modulo is None:
        return " = ".join(_sides(expression, notation))
    parameter, modulus, residue = modulo
    return f"{notation.modulo.format(_atom(parameter, notation), modulus)} = {residue}"


Bound = tuple[Affine[Atom], int | None, int | None]
"""an expression without a constant; what it is at least and at most"""


def _bounds(expressions: Iterable[Affine[Atom]]) -> list[Bound]:
    """Return what *expressions*, which are zero or more, say of sums of atoms."""
    bounds: dict[Affine[Atom], tuple[int | None, int | None]] = {}
    for expression in expressions:
        variables = Affine(expression.terms)
        negated = variables * -1
        if negated in bounds or all(value < 0 for _, value in variables.terms):
            bounds[negated] = (bounds.get(negated, (None, None))[0], expression.constant)
        else:
            bounds[variables] = (-expression.constant, bounds.get(variables, (None, None))[1])
    return [(variables, *ends) for variables, ends in bounds.items()]


def _between(variables: Affine[Atom], least: int | None, most: int | None, notation: _Notation) -> str:
    """Return ``least <= variables <= most``, or one side of it."""
    if least is None:
        return f"{_affine(variables, notation)} {notation.at_most} {most}"
    if most is None:
        return _at_least(Affine(variables.terms, -least), notation)
    return f"{least} {notation.at_most} {_affine(variables, notation)} {notation.at_most} {most}"


def _at_least(expression: Affine[Atom], notation: _Notation) -> str:
    """Return ``expression >= 0`` without minus signs; between integers, ``n >= m + 1`` is ``n > m``."""
    if expression.constant == -1 and any(value < 0 for _, value in expression.terms):
        return f" {notation.above} ".join(_sides(Affine(expression.terms), notation))
    return f" {notation.at_least} ".join(_sides(expression, notation))


def _sides(expression: Affine[Atom], notation: _Notation) -> tuple[str, str]:
    """Return what the positive terms of *expression* are compared with, if any are: both sides."""
    if expression.terms and all(value < 0 for _, value in expression.terms):
        return _sides(expression * -1, notation)
    left = tuple((atom, value) for atom, value in expression.terms if value > 0)
    right = tuple((atom, -value) for atom, value in expression.terms if value < 0)
    return _affine(Affine(left), notation), _affine(Affine(right, -expression.constant), notation)


def _as_modulo(expression: Affine[Atom]) -> tuple[str, int, int] | None:
    """Return (n, d, r) where the equality is n - d*floor((n - r)/d) - r = 0, that is n mod d = r."""
    sign = -1 if any(isinstance(atom, Floor) and value > 0 for atom, value in expression.terms) else 1
    match (expression * sign).terms:
        case ((str() as name, 1), (Floor() as floor, modulus)):
            residue = -expression.constant * sign
            # With n + c in the floor, the equality says that n + c leaves the remainder c + r, if that is one.
            possible = 0 <= residue + floor.numerator.constant < floor.denominator
            if floor.numerator.terms == ((name, 1),) and floor.denominator == -modulus and possible:
                return name, floor.denominator, residue % floor.denominator
        case _:
            pass
    return None


# }}}


# {{{ polynomials


def _polynomial(polynomial: Polynomial[Atom], notation: _Notation) -> str:
    """Return Σ coefficient·monomial, a common factor of the coefficients in front if that is shorter."""
    terms = sorted(polynomial.terms, key=_reading_order)
    common = Fraction(gcd(*(value.numerator for _, value in terms)), lcm(*(value.denominator for _, value in terms)))
    is_shorter = len(_factored(terms, common, PLAIN)) < len(_expanded(terms, PLAIN))
    return _factored(terms, common, notation) if is_shorter else _expanded(terms, notation)


def _reading_order(term: Term[Atom]) -> tuple[Any, ...]:
    """Order terms for reading: high powers first, of equal ones the positive first."""
    monomial, value = term
    return -len(monomial), value < 0, [*Counter(monomial).items()]


def _expanded(terms: Terms, notation: _Notation) -> str:
    first, *rest = (_term(monomial, value, notation) for monomial, value in terms)
    return first + "".join(f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in rest)


def _factored(terms: Terms, common: Fraction, notation: _Notation) -> str:
    inner = _expanded([(monomial, value / common) for monomial, value in terms], notation)
    if common.numerator == 1:
        return notation.fraction.format(notation.numerator.format(inner), common.denominator)
    product = notation.times.join([str(common.numerator), notation.parentheses.format(inner)])
    return product if common.denominator == 1 else notation.fraction.format(product, common.denominator)


def _term(monomial: Monomial[Atom], value: Rational, notation: _Notation) -> str:
    factors = [_power(atom, exponent, notation) for atom, exponent in Counter(monomial).items()]
    if abs(value.numerator) != 1 or not factors:
        factors.insert(0, str(abs(value.numerator)))
    product = notation.times.join(factors)
    sign = "-" if value < 0 else ""
    return sign + (product if value.denominator == 1 else notation.fraction.format(product, value.denominator))


def _power(atom: Atom, exponent: int, notation: _Notation) -> str:
    base = _atom(atom, notation)
    return base if exponent == 1 else notation.power.format(base, exponent)


def _atom(atom: Atom, notation: _Notation) -> str:
    if isinstance(atom, Floor):
        numerator = _affine(atom.numerator, notation)
        is_sum = len(atom.numerator.terms) + bool(atom.numerator.constant) > 1
        grouped = notation.numerator.format(numerator) if is_sum else numerator
        return notation.floor.format(notation.fraction.format(grouped, atom.denominator))
    return atom if len(atom) == 1 else notation.word.format(atom.replace("_", notation.underscore))


def _affine(expression: Affine[Atom], notation: _Notation) -> str:
    ordered = sorted(expression.terms, key=lambda pair: pair[1] < 0)
    terms: list[Term[Atom]] = [((atom,), value) for atom, value in ordered]
    if expression.constant or not terms:
        terms.append(((), expression.constant))
    return _expanded(terms, notation)


# }}}
