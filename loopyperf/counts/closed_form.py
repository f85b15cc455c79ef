"""Piecewise quasi-polynomials as plain values: what is left of an isl polynomial once isl has done its work.

A closed form is a sum of terms on each of several disjoint pieces of the parameter space. A term is a rational
coefficient times powers of *atoms*; an atom is a parameter or the floor of a rational affine expression.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import lcm


@dataclass(frozen=True, slots=True)
class Floor:
    """⌊numerator / denominator⌋ with integer coefficients in the numerator."""

    numerator: "Affine"
    denominator: int


Atom = str | Floor


@dataclass(frozen=True, slots=True)
class Affine:
    """Σ coefficient·atom + constant."""

    coefficients: tuple[tuple[Atom, Fraction], ...]
    constant: Fraction

    @staticmethod
    def of(coefficients: Mapping[Atom, Fraction], constant: Fraction) -> "Affine":
        """Return the expression without zero coefficients, atoms in a stable order."""
        kept = ((atom, value) for atom, value in coefficients.items() if value)
        return Affine(tuple(sorted(kept, key=lambda pair: str(pair[0]))), constant)

    def common_denominator(self) -> int:
        """Return the least integer that makes all coefficients integers."""
        return lcm(self.constant.denominator, *(value.denominator for _, value in self.coefficients))

    def scaled(self, factor: int) -> "Affine":
        """Return the expression times *factor*."""
        return Affine(tuple((atom, value * factor) for atom, value in self.coefficients), self.constant * factor)


@dataclass(frozen=True, slots=True)
class Constraint:
    """``expression == 0`` or ``expression >= 0``, with integer coefficients."""

    expression: Affine
    is_equality: bool


Monomial = tuple[tuple[Atom, int], ...]
"""Atoms with their exponents, in a stable order; the empty one is 1."""
Polynomial = Mapping[Monomial, Fraction]
Conjunction = tuple[Constraint, ...]
"""All hold; an empty one is always true."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A polynomial, and where it applies: wherever one of the conjunctions holds."""

    conditions: tuple[Conjunction, ...]
    terms: tuple[tuple[Monomial, Fraction], ...]

    @property
    def is_unconditional(self) -> bool:
        """Return whether the polynomial applies everywhere."""
        return () in self.conditions


ClosedForm = tuple[Piece, ...]
"""Disjoint pieces; zero where none applies."""


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
    return reduce(multiplied, [base] * exponent, constant(1))


def affine_polynomial(expression: Affine) -> Polynomial:
    """Return *expression* as a polynomial of degree one."""
    linear = ({((atom, 1),): value} for atom, value in expression.coefficients)
    return reduce(added, linear, constant(expression.constant))


def _joined(first: Monomial, second: Monomial) -> Monomial:
    exponents = dict(first)
    for atom, exponent in second:
        exponents[atom] = exponents.get(atom, 0) + exponent
    return tuple(sorted(exponents.items(), key=lambda pair: str(pair[0])))


# }}}


def atoms(forms: Iterable[ClosedForm]) -> tuple[Atom, ...]:
    """Return every atom in *forms*, each once, those inside a floor before the floor."""
    found: dict[Atom, None] = {}

    def visit(atom: Atom) -> None:
        if isinstance(atom, Floor):
            for inner, _ in atom.numerator.coefficients:
                visit(inner)
        found.setdefault(atom)

    for piece in (piece for form in forms for piece in form):
        for constraint in (constraint for conjunction in piece.conditions for constraint in conjunction):
            for atom, _ in constraint.expression.coefficients:
                visit(atom)
        for atom in (atom for monomial, _ in piece.terms for atom, _ in monomial):
            visit(atom)
    return tuple(found)


def parameters(forms: Iterable[ClosedForm]) -> frozenset[str]:
    """Return the names of the parameters that *forms* depend on."""
    return frozenset(atom for atom in atoms(forms) if isinstance(atom, str))
