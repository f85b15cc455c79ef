"""Piecewise quasi-polynomials as plain values: what is left of an isl polynomial once isl has done its work.

A closed form is a sum of terms on each of several pieces of the parameter space. A term is a rational
coefficient times powers of *atoms*; an atom is a parameter or the floor of a rational affine expression.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import lcm


@dataclass(frozen=True, slots=True)
class Floor:
    """⌊numerator / denominator⌋ with integer coefficients in the numerator."""

    numerator: "AffineForm"
    """an integer wherever sizes are"""
    denominator: int
    """above 0"""


Atom = str | Floor


@dataclass(frozen=True, slots=True)
class AffineForm:
    """Σ coefficient·atom + constant."""

    coefficients: tuple[tuple[Atom, Fraction], ...]
    """each atom, a size or a quotient rounded down, with its coefficient; none is zero"""
    constant: Fraction
    """what is added to their sum"""

    @staticmethod
    def of(coefficients: Mapping[Atom, Fraction], constant: Fraction) -> "AffineForm":
        """Return the expression without zero coefficients, atoms in a stable order."""
        kept = ((atom, value) for atom, value in coefficients.items() if value)
        return AffineForm(tuple(sorted(kept, key=_order)), constant)

    def common_denominator(self) -> int:
        """Return the least integer that makes all coefficients integers."""
        return lcm(self.constant.denominator, *(value.denominator for _, value in self.coefficients))

    def scaled(self, factor: int) -> "AffineForm":
        """Return the expression times *factor*."""
        return AffineForm(tuple((atom, value * factor) for atom, value in self.coefficients), self.constant * factor)


@dataclass(frozen=True, slots=True)
class Constraint:
    """``expression == 0`` or ``expression >= 0``, with integer coefficients."""

    expression: AffineForm
    """what is compared with 0"""
    is_equality: bool
    """it is 0, not only at least 0"""


Monomial = tuple[tuple[Atom, int], ...]
"""Atoms with their exponents, in a stable order; the empty one is 1."""
Polynomial = Mapping[Monomial, Fraction]
Conjunction = tuple[Constraint, ...]
"""All hold; an empty one is always true."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A polynomial, and where it applies: wherever one of the conjunctions holds."""

    conditions: tuple[Conjunction, ...]
    """it applies wherever one of these holds: all constraints of a conjunction"""
    terms: tuple[tuple[Monomial, Fraction], ...]
    """each product of atoms with its coefficient"""

    @property
    def is_unconditional(self) -> bool:
        """Return whether the polynomial applies everywhere."""
        return () in self.conditions


ClosedForm = tuple[Piece, ...]
"""Pieces that agree where several apply; zero where none does."""


# {{{ polynomial arithmetic


def constant(value: Fraction | int) -> Polynomial:
    """Return the polynomial that is *value* everywhere."""
    return {(): Fraction(value)} if value else {}


def atom_polynomial(atom: Atom) -> Polynomial:
    """Return the polynomial that is just *atom*."""
    return {((atom, 1),): Fraction(1)}


def added(left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the sum of two polynomials."""
    result = dict(left)
    for monomial, value in right.items():
        result[monomial] = result.get(monomial, Fraction(0)) + value
    return {monomial: value for monomial, value in result.items() if value}


def multiplied(left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the product of two polynomials."""
    result: dict[Monomial, Fraction] = {}
    for first, a in left.items():
        for second, b in right.items():
            monomial = _joined(first, second)
            result[monomial] = result.get(monomial, Fraction(0)) + a * b
    return {monomial: value for monomial, value in result.items() if value}


def power(base: Polynomial, exponent: int) -> Polynomial:
    """Return *base* to the non-negative integer *exponent*."""
    return reduce(multiplied, [base] * (exponent - 1), base) if exponent else constant(1)


def affine_polynomial(expression: AffineForm) -> Polynomial:
    """Return *expression* as a polynomial of degree one."""
    linear = ({((atom, 1),): value} for atom, value in expression.coefficients)
    return reduce(added, linear, constant(expression.constant))


def substituted(polynomial: Polynomial, name: str, value: int) -> Polynomial:
    """Return *polynomial* where the parameter *name* is *value*."""

    def term(monomial: Monomial, coefficient: Fraction) -> Polynomial:
        factors = (power(_as_polynomial(_atom_at(atom, name, value)), exponent) for atom, exponent in monomial)
        return reduce(multiplied, factors, constant(coefficient))

    return reduce(added, (term(*pair) for pair in polynomial.items()), {})


def shifted(polynomial: Polynomial, offsets: Mapping[str, int]) -> Polynomial:
    """Return *polynomial* with each parameter, where no floor is around it, replaced by itself plus its offset."""

    def term(monomial: Monomial, coefficient: Fraction) -> Polynomial:
        factors = (
            power(
                added(atom_polynomial(atom), constant(offsets.get(atom, 0) if isinstance(atom, str) else 0)), exponent
            )
            for atom, exponent in monomial
        )
        return reduce(multiplied, factors, constant(coefficient))

    return reduce(added, (term(*pair) for pair in polynomial.items()), {})


def _atom_at(atom: Atom, name: str, value: int) -> Atom | int:
    if isinstance(atom, str):
        return value if atom == name else atom
    coefficients: dict[Atom, Fraction] = {}
    rest = atom.numerator.constant
    for inner, coefficient in atom.numerator.coefficients:
        found = _atom_at(inner, name, value)
        if isinstance(found, int):
            rest += coefficient * found
        else:
            coefficients[found] = coefficients.get(found, Fraction(0)) + coefficient
    numerator = AffineForm.of(coefficients, rest)
    return Floor(numerator, atom.denominator) if numerator.coefficients else int(rest // atom.denominator)


def _as_polynomial(atom: Atom | int) -> Polynomial:
    return constant(atom) if isinstance(atom, int) else atom_polynomial(atom)


def _joined(first: Monomial, second: Monomial) -> Monomial:
    exponents = dict(first)
    for atom, exponent in second:
        exponents[atom] = exponents.get(atom, 0) + exponent
    return tuple(sorted(exponents.items(), key=_order))


# }}}


def _order(pair: tuple[Atom, object]) -> tuple[bool, str]:
    """Order atoms stably, parameters first."""
    return isinstance(pair[0], Floor), str(pair[0])


def atoms(forms: Iterable[ClosedForm]) -> tuple[Atom, ...]:
    """Return every atom in *forms*, each once, those inside a floor before the floor."""
    found: dict[Atom, None] = {}
    for piece in (piece for form in forms for piece in form):
        for constraint in (constraint for conjunction in piece.conditions for constraint in conjunction):
            found.update(dict.fromkeys(_atoms_of(constraint.expression)))
        for atom in (atom for monomial, _ in piece.terms for atom, _ in monomial):
            found.update(dict.fromkeys(_and_those_inside(atom)))
    return tuple(found)


def _atoms_of(expression: AffineForm) -> Iterator[Atom]:
    for atom, _ in expression.coefficients:
        yield from _and_those_inside(atom)


def _and_those_inside(atom: Atom) -> Iterator[Atom]:
    if isinstance(atom, Floor):
        yield from _atoms_of(atom.numerator)
    yield atom


def parameters(forms: Iterable[ClosedForm]) -> frozenset[str]:
    """Return the names of the parameters that *forms* depend on."""
    return frozenset(atom for atom in atoms(forms) if isinstance(atom, str))


def parameters_of(polynomial: Polynomial) -> frozenset[str]:
    """Return the names of the parameters that *polynomial* depends on."""
    inside = (inner for monomial in polynomial for atom, _ in monomial for inner in _and_those_inside(atom))
    return frozenset(atom for atom in inside if isinstance(atom, str))
