"""Closed forms as text, LaTeX and compiled functions of sizes: exact on integers, vectorized on arrays.

Evaluating the properties of a kernel takes a few microseconds at one size, and a few nanoseconds per size in a batch.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import gcd, lcm, prod
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from pytools import memoize_method

from loopyperf.errors import MissingSizeError, ParameterError
from loopyperf.polyhedral import closed_form as cf
from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.closed_form import (
    OF_ARRAYS,
    OF_INTEGERS,
    ClosedForm,
    Compilation,
    Conjunction,
    Least,
    Output,
    Piece,
    compiled_form,
)
from loopyperf.polyhedral.polynomial import Monomial, Polynomial, Rational, Term
from loopyperf.units import number_in_words

Terms = Sequence[Term[Atom]]


def text(form: ClosedForm) -> str:
    """Return *form* on one line, e.g. ``"n^3/8"`` or ``"n^2 if n >= 16; 16*n if 1 <= n <= 15"``."""
    return "; ".join(_piece(piece) for piece in form) or "0"


def latex(form: ClosedForm) -> str:
    """Return *form* as LaTeX without delimiters, with a ``cases`` environment for several pieces."""
    if len(form) == 1 and form[0].is_unconditional:
        return _polynomial(form[0].polynomial, LATEX)
    rows = [f"{_polynomial(piece.polynomial, LATEX)} & {_conditions(piece, LATEX)}" for piece in form]
    return r"\begin{cases}" + r" \\ ".join(rows) + r"\end{cases}" if rows else "0"


@dataclass(frozen=True, slots=True)
class _Notation:
    """Operators and templates of a notation for formulas."""

    times: str
    at_least: str
    at_most: str
    above: str
    conjunction: str
    disjunction: str
    word: str
    """a parameter with a name of several letters"""
    underscore: str
    floor: str
    power: str
    fraction: str
    numerator: str
    """a sum in a numerator"""
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
"""an expression without constant, its minimum and its maximum"""


def _bounds(expressions: Iterable[Affine[Atom]]) -> list[Bound]:
    """Return the bounds on sums of atoms that follow from *expressions* >= 0."""
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
    """Return ``expression >= 0`` without minus signs; ``n >= m + 1`` becomes ``n > m``."""
    if expression.constant == -1 and any(value < 0 for _, value in expression.terms):
        return f" {notation.above} ".join(_sides(Affine(expression.terms), notation))
    return f" {notation.at_least} ".join(_sides(expression, notation))


def _sides(expression: Affine[Atom], notation: _Notation) -> tuple[str, str]:
    """Return the sides of comparing *expression* with 0: its positive terms, and the negated rest."""
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
            # With n + c in the floor, the equality means (n + c) mod d = c + r, if that is a valid remainder.
            possible = 0 <= residue + floor.numerator.constant < floor.denominator
            if floor.numerator.terms == ((name, 1),) and floor.denominator == -modulus and possible:
                return name, floor.denominator, residue % floor.denominator
        case _:
            pass
    return None


# }}}


# {{{ polynomials


def _polynomial(polynomial: Polynomial[Atom], notation: _Notation) -> str:
    """Return Σ coefficient·monomial, with a common factor of the coefficients in front if that is shorter."""
    terms = sorted(polynomial.terms, key=_reading_order)
    common = Fraction(gcd(*(value.numerator for _, value in terms)), lcm(*(value.denominator for _, value in terms)))
    is_shorter = len(_factored(terms, common, PLAIN)) < len(_expanded(terms, PLAIN))
    return _factored(terms, common, notation) if is_shorter else _expanded(terms, notation)


def _reading_order(term: Term[Atom]) -> tuple[Any, ...]:
    """Return the sort key of a term: high powers first, then positive coefficients."""
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


IntegerArray = NDArray[Any]
"""int64, or object if exact values need more than 63 bits"""

CHUNK = 8192
"""number of sizes evaluated at once, so that intermediate arrays fit in the cache"""

INT64_SAFE = 2**62


class Assumptions(Protocol):
    """A kernel's assumptions about its sizes."""

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of all sizes of the kernel."""
        ...

    def on(self, parameters: Collection[str]) -> ClosedForm:
        """Return a closed form: 1 where the assumptions hold for *parameters* and some values of others, else 0."""
        ...


class Evaluator:
    """Several closed forms, and sums and minima of them, as one function of the sizes.

    The sizes in :attr:`parameters` are required. Other sizes of the kernel may be given, and are checked.
    """

    def __init__(self, forms: Sequence[ClosedForm], outputs: Sequence[Output], assumptions: Assumptions) -> None:
        """Compile *outputs* of *forms*; sizes that violate *assumptions* raise an error."""
        self.forms = tuple(forms)
        self.outputs = tuple(outputs)
        self.assumptions = assumptions
        self.parameters = tuple(sorted(cf.parameters(forms)))

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the exact value of each output at *sizes*; raises :class:`ParameterError`."""
        return self._function(frozenset(sizes)).at(sizes)

    def at_arrays(self, sizes: Mapping[str, int | IntegerArray]) -> tuple[IntegerArray, ...]:
        """Return each output at arrays of sizes, in their broadcast shape; raises :class:`ParameterError`."""
        return self._function(frozenset(sizes)).at_arrays(sizes)

    @memoize_method
    def _function(self, names: frozenset[str]) -> "_Function":
        """Return the function with exactly the arguments *names*."""
        missing = [name for name in self.parameters if name not in names]
        if missing:
            needed = ", ".join(self.parameters)
            raise missing_sizes(missing, f"; the sizes needed are: {needed}")
        unknown = sorted(names - self.assumptions.parameters)
        if unknown:
            raise superfluous_sizes(unknown, self.assumptions.parameters, "the kernel")
        return _Function(Compilation(tuple(sorted(names)), self.forms, self.outputs, self.assumptions.on(names)))


class _Function:
    """Closed forms as a function of the given sizes, compiled on first use."""

    def __init__(self, source: Compilation) -> None:
        self.source = source

    def __getstate__(self) -> dict[str, Compilation]:
        """Omit compiled functions, which cannot be pickled."""
        return {"source": self.source}

    @cached_property
    def _scalar(self) -> Callable[..., tuple[bool, tuple[int, ...]]]:
        return compiled_form(self.source, OF_INTEGERS)

    @cached_property
    def _vector(self) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
        return compiled_form(self.source, OF_ARRAYS)

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        values = [integer_size(name, sizes[name]) for name in self.source.parameters]
        admissible, results = self._scalar(*values)
        if not admissible:
            raise self._violation(values)
        return results

    def at_arrays(self, sizes: Mapping[str, int | IntegerArray]) -> tuple[IntegerArray, ...]:
        arrays = broadcast({name: sizes[name] for name in self.source.parameters})
        shape = arrays[0].shape if arrays else ()
        dtype = self._dtype(arrays)
        flat = [np.ravel(array).astype(dtype) for array in arrays]
        results = [np.empty(prod(shape), dtype) for _ in self.source.outputs]
        for start in range(0, prod(shape), CHUNK):
            chunk = slice(start, start + CHUNK)
            for result, value in zip(results, self._evaluated([array[chunk] for array in flat]), strict=True):
                result[chunk] = value
        return tuple(result.reshape(shape) for result in results)

    def _evaluated(self, chunk: list[IntegerArray]) -> tuple[Any, ...]:
        admissible, values = self._vector(*chunk)
        if not np.all(admissible):
            worst = int(np.argmin(admissible))
            raise self._violation([array[worst] for array in chunk])
        return values

    def _dtype(self, arrays: Sequence[IntegerArray]) -> Any:
        """Return int64 if no intermediate value can overflow, else object (exact Python integers)."""
        largest = {
            name: max(abs(int(array.max())), abs(int(array.min()))) if array.size else 0
            for name, array in zip(self.source.parameters, arrays, strict=True)
        }
        bound = largest_intermediate([*self.source.forms, self.source.assumptions], largest)
        return np.int64 if bound * max(map(_weight, self.source.outputs), default=1) < INT64_SAFE else object

    def _violation(self, values: Sequence[int]) -> ParameterError:
        return not_admitted(dict(zip(self.source.parameters, values, strict=True)), self.source.assumptions)


# {{{ sizes


def missing_sizes(names: Sequence[str], why: str) -> ParameterError:
    """Return the error for missing sizes *names*; *why* explains that they are needed."""
    give = ", ".join(f"{name}=..." for name in names)
    return MissingSizeError(f"missing size {', '.join(names)}{why}; give {give}", names)


OPTIONS = ("device", "model", "fit", "typical", "compiler", "counting", "backend")
"""arguments of questions that may be misspelled: other keywords are sizes"""


def superfluous_sizes(names: Sequence[str], takes: Collection[str], kernel: str) -> ParameterError:
    """Return the error for sizes *names* that a *kernel*, which *takes* others, does not have."""
    meant = get_close_matches(names[0], [*takes, *OPTIONS], 1)
    hint = f"did you mean {meant[0]}?" if meant else f"its sizes are: {', '.join(sorted(takes)) or 'none'}"
    return ParameterError(f"{kernel} has no size {', '.join(names)}; {hint}")


def not_admitted(sizes: Mapping[str, int], assumptions: ClosedForm) -> ParameterError:
    """Return the error for *sizes* that violate a kernel's *assumptions*."""
    given = ", ".join(f"{name}={number_in_words(int(value))}" for name, value in sizes.items())
    assumed = text(assumptions).removeprefix("1 if ")
    return ParameterError(f"{given} violates the kernel's assumptions: {assumed}")


def integer_size(name: str, value: Any) -> int:
    """Return the size *name* as a Python integer; raises :class:`ParameterError` if it is not an integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, np.integer):
        return int(cast("np.integer[Any]", value))
    raise ParameterError(f"size {name} must be an integer, got {value!r:.80} ({type(value).__name__})")


def integer_array(name: str, value: object) -> IntegerArray:
    """Return the sizes *name* as an array of integers; raises :class:`ParameterError` if they are not integers."""
    if isinstance(value, np.ma.MaskedArray):
        raise ParameterError(f"sizes {name} must be integers, got a masked array; pass its .compressed()")
    array = np.asarray(value)
    if array.dtype.kind in "iu":
        return array
    if array.dtype != object:
        raise ParameterError(f"sizes {name} must be integers, got an array of {array.dtype}")
    return np.array([integer_size(name, element) for element in array.flat], object).reshape(array.shape)


def broadcast(sizes: Mapping[str, int | IntegerArray]) -> tuple[IntegerArray, ...]:
    """Return *sizes* as integer arrays of one shape; raises :class:`ParameterError` if that is impossible."""
    arrays = {name: integer_array(name, size) for name, size in sizes.items()}
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ParameterError(f"the shapes of the sizes do not broadcast together: {shapes}") from error


# }}}


# {{{ bounds


def largest_intermediate(forms: Sequence[ClosedForm], largest: Mapping[str, int]) -> int:
    """Return a bound on all intermediate integers if the magnitudes of parameters are at most *largest*."""
    bounds: dict[Atom, int] = {**largest}
    reached = max(largest.values(), default=0)
    for atom in cf.atoms(forms):
        if isinstance(atom, Floor):
            top = _affine_bound(atom.numerator, bounds)
            bounds[atom] = top // atom.denominator + 1
            reached = max(reached, top)
    for piece in (piece for form in forms for piece in form):
        terms = piece.polynomial.terms
        denominator = lcm(*(value.denominator for _, value in terms))
        total = sum(
            abs(value) * denominator * prod(max(bounds[atom], 1) for atom in product) for product, value in terms
        )
        reached = max(reached, int(total))
        for constraint in chain.from_iterable(piece.conditions):
            reached = max(reached, _affine_bound(constraint.expression, bounds))
    return reached


def _weight(output: Output) -> int:
    if isinstance(output, Least):
        return max(_weight(output.left), _weight(output.right))
    return sum(abs(multiplicity) for _, multiplicity in output.terms) + output.denominator


def _affine_bound(expression: Affine[Atom], bounds: Mapping[Atom, int]) -> int:
    return abs(expression.constant) + sum(abs(value) * bounds[atom] for atom, value in expression.terms) + 1


# }}}
