"""Piecewise quasi-polynomials as plain values: what is left of an isl polynomial once isl has done its work.

A closed form is a polynomial on each of several pieces of the parameter space. A variable of it is an *atom*: a
parameter, or the floor of a rational affine expression.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.polynomial import Monomial, Polynomial


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


# {{{ the source text of Python functions, on exact integers or on NumPy arrays
#
# All forms of one function share their powers, floors and conditions: each is written once.


@dataclass(frozen=True, slots=True)
class Total:
    """Σ multiplicity · form / denominator, rounded to the nearest integer."""

    terms: tuple[tuple[int, int], ...]
    """for each form that takes part, its index and its multiplicity"""
    denominator: int = 1


@dataclass(frozen=True, slots=True)
class Least:
    """The lesser of two totals."""

    left: Total
    right: Total


Output = Total | Least


@dataclass(frozen=True, slots=True)
class Dialect:
    """How Python source says what differs between integers and arrays: operators, and templates of their operands."""

    conjunction: str
    disjunction: str
    choice: str
    """of a condition, a value and what it is otherwise"""
    least: str


SCALAR = Dialect(" and ", " or ", choice="({1} if {0} else {2})", least="({0} if {0} < {1} else {1})")
"""exact integers"""
VECTOR = Dialect(" & ", " | ", choice="where({0}, {1}, {2})", least="minimum({0}, {1})")
"""NumPy arrays"""


@dataclass(frozen=True, slots=True)
class Compilation:
    """What a function is to compute, and of what."""

    parameters: tuple[str, ...]
    forms: tuple[ClosedForm, ...]
    outputs: tuple[Output, ...]
    assumptions: ClosedForm
    """1 where the parameters are admissible, 0 elsewhere"""


def compiled(task: Compilation, dialect: Dialect) -> Callable[..., Any]:
    """Return a function of the parameters: whether they are admissible, and a tuple of the outputs."""
    names: dict[str, Any] = {"where": np.where, "minimum": np.minimum}
    # The source is generated from numbers alone; the parameters are renamed.
    exec(compile("\n".join(_source(task, dialect)), "<loopyperf closed forms>", "exec"), names)
    return names["evaluate"]


def _source(task: Compilation, dialect: Dialect) -> Iterator[str]:
    writer = _Writer(dialect, task.parameters)
    yield f"def evaluate({', '.join(writer.names[name] for name in task.parameters)}):"
    admissible = dialect.disjunction.join(writer.disjunction(piece) for piece in task.assumptions)
    forms = [writer.form(form) for form in task.forms]
    values = [writer.output(output, forms) for output in task.outputs]
    yield from (f"    {line}" for line in writer.lines)
    yield f"    return {admissible}, ({', '.join(values)}{',' if values else ''})"


LONGEST_CHAIN = 100
"""operands of one expression: a few thousand are more than Python's compiler can nest"""


class _Writer:
    """Writes each shared subexpression once, as an assignment."""

    def __init__(self, dialect: Dialect, parameters: Sequence[str]) -> None:
        self.dialect = dialect
        self.names: dict[Any, str] = {name: f"p{index}" for index, name in enumerate(parameters)}
        self.lines: list[str] = []

    def shared(self, key: Any, expression: str) -> str:
        if key not in self.names:
            self.names[key] = f"t{len(self.lines)}"
            self.lines.append(f"{self.names[key]} = {expression}")
        return self.names[key]

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, str):
            return self.names[atom]
        return self.shared(atom, _divided(self.affine(atom.numerator), atom.denominator))

    def chain(self, operator: str, operands: Sequence[str]) -> str:
        """Return *operands* joined, long chains in parts."""
        while len(operands) > LONGEST_CHAIN:
            parts = [operands[i : i + LONGEST_CHAIN] for i in range(0, len(operands), LONGEST_CHAIN)]
            operands = [self.shared((operator, *part), operator.join(part)) for part in parts]
        return operator.join(operands)

    def affine(self, expression: Affine[Atom]) -> str:
        terms = [_scaled(value, self.atom(atom)) for atom, value in expression.terms]
        return " + ".join([*terms, str(expression.constant)] if expression.constant or not terms else terms)

    def conjunction(self, conjunction: Conjunction) -> str:
        tests = [
            f"({self.affine(constraint.expression)} {'==' if constraint.is_equality else '>='} 0)"
            for constraint in conjunction
        ]
        return self.dialect.conjunction.join(tests) or "True"

    def disjunction(self, piece: Piece) -> str:
        return self.chain(self.dialect.disjunction, [f"({self.conjunction(c)})" for c in piece.conditions]) or "False"

    def monomial(self, monomial: Monomial[Atom]) -> str:
        product, *factors = map(self.atom, monomial)
        for factor in factors:
            key = f"{product}*{factor}"
            product = self.shared(key, key)
        return product

    def polynomial(self, polynomial: Polynomial[Atom]) -> str:
        denominator = lcm(*(value.denominator for _, value in polynomial.terms))
        terms = [self.term(monomial, int(value * denominator)) for monomial, value in polynomial.terms]
        return _rounded(self.chain(" + ", terms), denominator)

    def term(self, monomial: Monomial[Atom], value: int) -> str:
        return _scaled(value, self.monomial(monomial)) if monomial else str(value)

    def form(self, form: ClosedForm) -> str:
        result = "0"
        for piece in form:
            value = self.shared(piece.polynomial, self.polynomial(piece.polynomial))
            if piece.is_unconditional:
                return value
            condition = self.shared(piece.conditions, self.disjunction(piece))
            choice = self.dialect.choice.format(condition, value, result)
            result = self.shared(choice, choice)
        return result

    def output(self, output: Output, forms: Sequence[str]) -> str:
        if isinstance(output, Least):
            return self.dialect.least.format(self.output(output.left, forms), self.output(output.right, forms))
        terms = [_scaled(multiplicity, forms[index]) for index, multiplicity in output.terms]
        total = _rounded(self.chain(" + ", terms) or "0", output.denominator)
        return total if total in forms else self.shared(output, total)


def _rounded(numerator: str, denominator: int) -> str:
    """Return the nearest integer: of a count, which divides, the quotient; of a typical one, what it rounds to."""
    return _divided(f"{numerator} + {denominator // 2}" if denominator > 1 else numerator, denominator)


def _divided(numerator: str, denominator: int) -> str:
    """Return floor division; by a power of two it is a shift, which NumPy does ten times faster."""
    if denominator & (denominator - 1) == 0:
        shift = denominator.bit_length() - 1
        return f"({numerator}) >> {shift}" if shift else numerator
    return f"({numerator}) // {denominator}"


def _scaled(factor: int, name: str) -> str:
    return name if factor == 1 else f"{factor}*{name}"


# }}}
