"""Closed forms of counts (piecewise quasi-polynomials as plain values): compilation, comparison, simplification.

A closed form is a polynomial on each of several pieces of the parameter space. Its variables are *atoms*: parameters,
or floors of rational affine expressions.

Simplification and comparison hold where the kernel's assumptions hold. A piece is widened to points where its
polynomial has the right value anyway. In ``n^2/2 + n/2 if n >= 1``, zero elsewhere, the condition is dropped if n >= 0
is assumed, because the polynomial is zero at n = 0. Equality is tested exactly, value by value, if a parameter has only
a few values; otherwise a piece stays unchanged. A positive answer is exact; a negative one means "not known".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import lcm
from typing import Any

import islpy as isl
import numpy as np

from loopyperf.polyhedral.affine import Affine, Atom, Floor, names_of_variable
from loopyperf.polyhedral.polynomial import Monomial, Polynomial
from loopyperf.polyhedral.sets import as_int


@dataclass(frozen=True, slots=True)
class Constraint:
    """``expression == 0`` or ``expression >= 0``."""

    expression: Affine[Atom]
    """compared with 0"""
    is_equality: bool
    """whether it is == 0 rather than >= 0"""


Conjunction = tuple[Constraint, ...]
"""constraints that all hold; always true if empty"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A polynomial, and the conditions under which it applies."""

    conditions: tuple[Conjunction, ...]
    """disjunction of conjunctions: the polynomial applies where at least one holds"""
    polynomial: Polynomial[Atom]
    """polynomial in the atoms"""

    @property
    def is_unconditional(self) -> bool:
        """Return whether the polynomial applies everywhere."""
        return () in self.conditions


ClosedForm = tuple[Piece, ...]
"""pieces, with equal values where several apply; zero where none applies"""


def atoms(forms: Iterable[ClosedForm]) -> tuple[Atom, ...]:
    """Return the distinct atoms in *forms*; atoms inside a floor precede the floor."""
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


# {{{ generated Python functions, on exact integers or on NumPy arrays
#
# All forms of one function share powers, floors and conditions, so each of these is computed once.


@dataclass(frozen=True, slots=True)
class Total:
    """Σ multiplicity · form / denominator, rounded to the nearest integer."""

    terms: tuple[tuple[int, int], ...]
    """index and multiplicity of each form in the sum"""
    denominator: int = 1


@dataclass(frozen=True, slots=True)
class Least:
    """The minimum of two totals."""

    left: Total
    right: Total


Output = Total | Least


Functions = Mapping[str, Callable[..., Any]]
"""what generated code calls: ``where(condition, value if it holds, value otherwise)`` and ``minimum``"""


def _where(holds: bool, value: int, other: int) -> int:
    return value if holds else other


OF_INTEGERS: Functions = {"where": _where, "minimum": min}
"""for exact integers"""
OF_ARRAYS: Functions = {"where": np.where, "minimum": np.minimum}
"""for NumPy arrays"""


@dataclass(frozen=True, slots=True)
class Compilation:
    """Inputs and outputs of a generated function."""

    parameters: tuple[str, ...]
    forms: tuple[ClosedForm, ...]
    outputs: tuple[Output, ...]
    assumptions: ClosedForm
    """1 where the parameters satisfy the assumptions, 0 elsewhere"""


def compiled_form(task: Compilation, functions: Functions) -> Callable[..., Any]:
    """Return a function of the parameters that returns whether they satisfy the assumptions, and a tuple of outputs."""
    names: dict[str, Any] = {**functions}
    # The source contains only numbers and generated names, since parameters are renamed.
    exec(compile("\n".join(_source(task)), "<loopyperf closed forms>", "exec"), names)
    return names["evaluate"]


def _source(task: Compilation) -> Iterator[str]:
    writer = _Writer(task.parameters)
    yield f"def evaluate({', '.join(writer.names[name] for name in task.parameters)}):"
    admissible = " | ".join(writer.disjunction(piece) for piece in task.assumptions)
    forms = [writer.form(form) for form in task.forms]
    values = [writer.output(output, forms) for output in task.outputs]
    yield from (f"    {line}" for line in writer.lines)
    yield f"    return {admissible}, ({', '.join(values)}{',' if values else ''})"


LONGEST_CHAIN = 100
"""maximum number of operands of one expression; Python's compiler cannot nest a few thousand"""


class _Writer:
    """Writes the source of a function, with one assignment for each shared subexpression."""

    def __init__(self, parameters: Sequence[str]) -> None:
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
        """Return *operands* joined by *operator*, with long chains split into parts."""
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
        return " & ".join(tests) or "True"

    def disjunction(self, piece: Piece) -> str:
        return self.chain(" | ", [f"({self.conjunction(c)})" for c in piece.conditions]) or "False"

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
            choice = f"where({condition}, {value}, {result})"
            result = self.shared(choice, choice)
        return result

    def output(self, output: Output, forms: Sequence[str]) -> str:
        if isinstance(output, Least):
            return f"minimum({self.output(output.left, forms)}, {self.output(output.right, forms)})"
        terms = [_scaled(multiplicity, forms[index]) for index, multiplicity in output.terms]
        total = _rounded(self.chain(" + ", terms) or "0", output.denominator)
        return total if total in forms else self.shared(output, total)


def _rounded(numerator: str, denominator: int) -> str:
    """Return code for the quotient rounded to the nearest integer; exact for counts, needed for typical values."""
    return _divided(f"{numerator} + {denominator // 2}" if denominator > 1 else numerator, denominator)


def _divided(numerator: str, denominator: int) -> str:
    """Return code for floor division, with a shift for powers of two, which is ten times faster in NumPy."""
    if denominator & (denominator - 1) == 0:
        shift = denominator.bit_length() - 1
        return f"({numerator}) >> {shift}" if shift else numerator
    return f"({numerator}) // {denominator}"


def _scaled(factor: int, name: str) -> str:
    return name if factor == 1 else f"{factor}*{name}"


# }}}


SET = isl.dim_type.set
PARAM = isl.dim_type.param

MOST_TESTED_VALUES = 64
"""maximum number of values of a parameter that are tested one by one"""

PlainPiece = tuple[isl.Set, Polynomial[Atom]]
"""the set of parameters where the piece applies, and its polynomial"""


# {{{ comparison with zero


def vanishes(polynomial: Polynomial[Atom], region: isl.Set, few: int = MOST_TESTED_VALUES) -> bool:
    """Return whether *polynomial* is known to be zero on *region*; parameters may have at most *few* values there."""
    return not polynomial.terms or all(
        _vanishes_where(polynomial, basic, few) for basic in region.get_basic_sets() if not basic.is_empty()
    )


def _vanishes_where(polynomial: Polynomial[Atom], basic: isl.BasicSet, few: int) -> bool:
    region = isl.Set.from_basic_set(basic)
    for place, name in enumerate(region.get_var_names_not_none(PARAM)):
        least, most = _extremes(region, place) if name in polynomial.names else (None, None)
        if least is not None and most is not None and most - least < few:
            values = range(least, most + 1)
            at_each = ((_at(polynomial, name, v), region.fix_val(PARAM, place, isl.Val(v))) for v in values)
            return all(vanishes(*there, few // len(values)) for there in at_each)
    return False


def _at(polynomial: Polynomial[Atom], name: str, value: int) -> Polynomial[Atom]:
    """Return *polynomial* with the parameter *name* set to *value*."""
    moving = (atom for atom in polynomial.variables if name in names_of_variable(atom))
    return polynomial.replaced({atom: Polynomial.of_affine(_atom_at(atom, name, value)) for atom in moving})


def _atom_at(atom: Atom, name: str, value: int) -> Affine[Atom]:
    if isinstance(atom, str):
        return Affine((), value) if atom == name else Affine.variable(atom)
    numerator: Affine[Atom] = Affine((), atom.numerator.constant)
    for inner, factor in atom.numerator.terms:
        numerator += _atom_at(inner, name, value) * factor
    if not numerator.terms:
        return Affine((), numerator.constant // atom.denominator)
    return Affine.variable(Floor(numerator, atom.denominator))


def _extremes(region: isl.Set, place: int) -> tuple[int | None, int | None]:
    """Return the minimum and maximum of a parameter on *region*, None where unbounded."""
    as_set = region.move_dims(SET, 0, PARAM, place, 1)
    least, most = as_set.dim_min_val(0), as_set.dim_max_val(0)
    return (as_int(least) if least.is_int() else None), (as_int(most) if most.is_int() else None)


# }}}


# {{{ simplification


DIV = isl.dim_type.div

READABLE = 12
"""maximum number of pieces that are simplified; longer formulas are unreadable anyway"""


def simplified_pieces(pieces: Sequence[PlainPiece], context: isl.Set) -> list[PlainPiece]:
    """Return equivalent pieces on *context* for disjoint *pieces*, zero elsewhere; overlapping results agree."""
    if len(pieces) > READABLE:
        return list(pieces)
    assumed = ((domain & context, polynomial) for domain, polynomial in pieces)
    fewer = _without_absorbed([(domain, value) for domain, value in assumed if not vanishes(value, domain)])
    widened = [(_widened(piece, fewer, context), piece[1]) for piece in fewer]
    return [(domain.gist(context).coalesce(), polynomial) for domain, polynomial in _needed(widened)]


# {{{ fewer pieces


def _without_absorbed(pieces: Sequence[PlainPiece]) -> list[PlainPiece]:
    """Return *pieces*, with each piece merged into another one that has the same value on it."""
    rest = list(pieces)
    for piece in pieces:
        others = [other for other in rest if other is not piece] if piece in rest else []
        absorbed = [other for other in others if vanishes(piece[1] - other[1], other[0])]
        if absorbed:
            domain = reduce(isl.Set.union, (other[0] for other in absorbed), piece[0]).coalesce()
            rest = [other for other in rest if other not in absorbed]
            rest[rest.index(piece)] = (domain, piece[1])
    return rest


def _needed(pieces: Sequence[PlainPiece]) -> list[PlainPiece]:
    """Return *pieces* without those covered by others."""
    kept = list(pieces)
    for piece in pieces:
        others = [domain for domain, polynomial in kept if polynomial != piece[1]]
        if others and piece[0].is_subset(reduce(isl.Set.union, others)):
            kept.remove(piece)
    return kept


# }}}


# {{{ wider pieces


def _widened(piece: PlainPiece, pieces: Sequence[PlainPiece], context: isl.Set) -> isl.Set:
    """Return the domain of *piece* without conditions that make no difference on *context*."""
    widened, polynomial = piece
    for basic in widened.gist(context).get_basic_sets():
        kept, universe = list(basic.get_constraints()), isl.BasicSet.universe(basic.get_space())
        for constraint in basic.get_constraints():
            fewer = [other for other in kept if other != constraint]
            domain = isl.Set.from_basic_set(reduce(isl.BasicSet.add_constraint, fewer, universe)) & context
            has_floors = constraint.involves_dims(DIV, 0, constraint.dim(DIV))
            if not has_floors and _is_value_on(domain - widened, polynomial, pieces):
                kept, widened = fewer, (widened | domain).coalesce()
    return widened


def _is_value_on(region: isl.Set, polynomial: Polynomial[Atom], pieces: Sequence[PlainPiece]) -> bool:
    """Return whether *polynomial* is known to equal *pieces* on *region*."""
    for domain, other in pieces:
        if not vanishes(polynomial - other, region & domain):
            return False
        region = region - domain
    return vanishes(polynomial, region)


# }}}


# }}}
