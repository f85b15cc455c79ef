"""Piecewise quasi-polynomials as plain values: what is left of an isl polynomial once isl has done its work.

A closed form is a polynomial on each of several pieces of the parameter space. A variable of it is an *atom*: a
parameter, or the floor of a rational affine expression.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.polynomial import Polynomial


@dataclass(frozen=True, slots=True)
class Constraint:
    """``expression == 0`` or ``expression >= 0``."""

    expression: Affine[Atom]
    """what is compared with 0"""
    is_equality: bool
    """it is 0, not only at least 0"""


Conjunction = tuple[Constraint, ...]
"""All hold; an empty one is always true."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A polynomial, and where it applies: wherever one of the conjunctions holds."""

    conditions: tuple[Conjunction, ...]
    """it applies wherever one of these holds: all constraints of a conjunction"""
    polynomial: Polynomial[Atom]
    """of the atoms"""

    @property
    def is_unconditional(self) -> bool:
        """Return whether the polynomial applies everywhere."""
        return () in self.conditions


ClosedForm = tuple[Piece, ...]
"""Pieces that agree where several apply; zero where none does."""


def atoms(forms: Iterable[ClosedForm]) -> tuple[Atom, ...]:
    """Return every atom in *forms*, each once, those inside a floor before the floor."""
    found: dict[Atom, None] = {}
    for piece in (piece for form in forms for piece in form):
        for constraint in (constraint for conjunction in piece.conditions for constraint in conjunction):
            found.update(dict.fromkeys(_atoms_of(constraint.expression)))
        for atom in (atom for monomial, _ in piece.polynomial.terms for atom in monomial):
            found.update(dict.fromkeys(_and_those_inside(atom)))
    return tuple(found)


def _atoms_of(expression: Affine[Atom]) -> Iterator[Atom]:
    for atom, _ in expression.terms:
        yield from _and_those_inside(atom)


def _and_those_inside(atom: Atom) -> Iterator[Atom]:
    if isinstance(atom, Floor):
        yield from _atoms_of(atom.numerator)
    yield atom


def parameters(forms: Iterable[ClosedForm]) -> frozenset[str]:
    """Return the names of the parameters that *forms* depend on."""
    return frozenset(atom for atom in atoms(forms) if isinstance(atom, str))
