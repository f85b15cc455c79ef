"""Closed forms compiled to Python functions: exact on integers, vectorised on arrays.

All forms of one compilation share their powers, floors and conditions, so evaluating the properties of a kernel costs
a few microseconds at one size and a few nanoseconds a size in a batch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import lcm
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from loopyperf.counts import closed_form as cf
from loopyperf.counts.closed_form import Affine, Atom, ClosedForm, Conjunction, Floor, Monomial, Piece
from loopyperf.counts.formula import text
from loopyperf.errors import ParameterError

IntegerArray = NDArray[Any]
"""int64, or object where an exact value needs more than 63 bits"""

CHUNK = 8192
"""sizes evaluated at once, so that intermediate arrays stay in cache"""

INT64_SAFE = 2**62


@dataclass(frozen=True, slots=True)
class Total:
    """Σ multiplicity · form: for each form that takes part, its index and its multiplicity."""

    terms: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Least:
    """The lesser of two totals."""

    left: Total
    right: Total


Output = Total | Least


class Evaluator:
    """Several closed forms, and sums and minima of them, as one function of their parameters."""

    def __init__(self, forms: Sequence[ClosedForm], outputs: Sequence[Output], assumptions: ClosedForm) -> None:
        """Evaluate *outputs* made of *forms*, refusing sizes where *assumptions* is zero.

        *assumptions* may involve only parameters that *forms* depend on.
        """
        self.forms = tuple(forms)
        self.outputs = tuple(outputs)
        self.assumptions = assumptions
        self.parameters = tuple(sorted(cf.parameters(forms)))

    # {{{ one size

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the exact value of each output at *sizes*; raises :class:`ParameterError`."""
        if set(sizes) != set(self.parameters):
            self._explain_names(sizes)
        values = [_as_integer(name, sizes[name]) for name in self.parameters]
        admissible, results = self._scalar(*values)
        if not admissible:
            raise ParameterError(self._violation(dict(zip(self.parameters, values, strict=True))))
        return results

    @cached_property
    def _scalar(self) -> Callable[..., tuple[bool, tuple[int, ...]]]:
        return _compiled(self, _ScalarDialect())

    # }}}

    # {{{ many sizes

    def at_arrays(self, sizes: Mapping[str, int | IntegerArray]) -> tuple[IntegerArray, ...]:
        """Return each output at arrays of sizes, in their broadcast shape; raises :class:`ParameterError`."""
        if set(sizes) != set(self.parameters):
            self._explain_names(sizes)
        arrays = np.broadcast_arrays(*(_as_integer_array(name, sizes[name]) for name in self.parameters))
        if not arrays:
            return tuple(np.asarray(value) for value in self.at({}))
        shape = arrays[0].shape
        flat = [np.ravel(array).astype(self._dtype(arrays)) for array in arrays]
        results = [np.empty(flat[0].shape, flat[0].dtype) for _ in self.outputs]
        for start in range(0, flat[0].size, CHUNK):
            self._evaluate_chunk([array[start : start + CHUNK] for array in flat], results, start)
        return tuple(result.reshape(shape) for result in results)

    def _evaluate_chunk(self, chunk: list[IntegerArray], results: list[IntegerArray], start: int) -> None:
        admissible, values = self._vector(*chunk)
        if not np.all(admissible):
            worst = int(np.argmin(np.broadcast_to(admissible, chunk[0].shape)))
            sizes = {name: int(array[worst]) for name, array in zip(self.parameters, chunk, strict=True)}
            raise ParameterError(self._violation(sizes))
        for result, value in zip(results, values, strict=True):
            result[start : start + CHUNK] = value

    @cached_property
    def _vector(self) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
        return _compiled(self, _VectorDialect())

    def _dtype(self, arrays: Sequence[IntegerArray]) -> Any:
        """Return int64 where no intermediate value can overflow, else object (exact Python integers)."""
        largest = {
            name: max((abs(int(array.max())), abs(int(array.min()))), default=0) if array.size else 0
            for name, array in zip(self.parameters, arrays, strict=True)
        }
        bound = largest_intermediate(self.forms, largest) * max(map(_weight, self.outputs), default=1)
        return np.int64 if bound < INT64_SAFE else object

    # }}}

    # {{{ refusals

    def _explain_names(self, sizes: Mapping[str, Any]) -> None:
        wanted = ", ".join(self.parameters) or "none"
        missing = [name for name in self.parameters if name not in sizes]
        if missing:
            raise ParameterError(f"missing size {', '.join(missing)}; the sizes needed are: {wanted}")
        extra = [name for name in sizes if name not in self.parameters]
        raise ParameterError(f"superfluous size {', '.join(extra)}; the sizes needed are: {wanted}")

    def _violation(self, sizes: Mapping[str, int]) -> str:
        given = ", ".join(f"{name}={value}" for name, value in sizes.items())
        return f"{given} is outside what the kernel assumes: {text(self.assumptions).removeprefix('1 if ')}"

    # }}}


# {{{ sizes


def _as_integer(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, np.integer):
        return int(cast("np.integer[Any]", value))
    raise ParameterError(f"size {name} must be an integer, received {value!r} ({type(value).__name__})")


def _as_integer_array(name: str, value: object) -> IntegerArray:
    array = np.asarray(value)
    if array.dtype.kind in "iu" or (array.dtype == object and all(isinstance(v, int) for v in array.flat)):
        return array
    raise ParameterError(f"sizes {name} must be integers, received an array of {array.dtype}")


def largest_intermediate(forms: Sequence[ClosedForm], largest: Mapping[str, int]) -> int:
    """Return a bound of every integer that evaluation meets when parameters are at most *largest* in magnitude."""
    bounds: dict[Atom, int] = {**largest}
    reached = max(largest.values(), default=0)
    for atom in cf.atoms(forms):
        if isinstance(atom, Floor):
            top = _affine_bound(atom.numerator, bounds)
            bounds[atom] = top // atom.denominator + 1
            reached = max(reached, top)
    for piece in (piece for form in forms for piece in form):
        denominator = lcm(*(value.denominator for _, value in piece.terms))
        total = sum(abs(value) * denominator * _monomial_bound(monomial, bounds) for monomial, value in piece.terms)
        reached = max(reached, int(total))
        for constraint in chain.from_iterable(piece.conditions):
            reached = max(reached, _affine_bound(constraint.expression, bounds))
    return reached


def _weight(output: Output) -> int:
    if isinstance(output, Least):
        return max(_weight(output.left), _weight(output.right))
    return sum(abs(multiplicity) for _, multiplicity in output.terms)


def _affine_bound(expression: Affine, bounds: Mapping[Atom, int]) -> int:
    return int(abs(expression.constant) + sum(abs(value) * bounds[atom] for atom, value in expression.coefficients)) + 1


def _monomial_bound(monomial: Monomial, bounds: Mapping[Atom, int]) -> int:
    product = 1
    for atom, exponent in monomial:
        product *= max(bounds[atom], 1) ** exponent
    return product


# }}}


# {{{ source text


class _ScalarDialect:
    """Python source for exact integers."""

    conjunction, disjunction, true, false = " and ", " or ", "True", "False"

    @staticmethod
    def choice(condition: str, value: str, otherwise: str) -> str:
        return f"({value} if {condition} else {otherwise})"

    @staticmethod
    def least(left: str, right: str) -> str:
        return f"({left} if {left} < {right} else {right})"


class _VectorDialect:
    """Python source for NumPy arrays."""

    conjunction, disjunction, true, false = " & ", " | ", "True", "False"

    @staticmethod
    def choice(condition: str, value: str, otherwise: str) -> str:
        return f"where({condition}, {value}, {otherwise})"

    @staticmethod
    def least(left: str, right: str) -> str:
        return f"minimum({left}, {right})"


_Dialect = _ScalarDialect | _VectorDialect


def _compiled(evaluator: Evaluator, dialect: _Dialect) -> Callable[..., Any]:
    source = "\n".join(_source(evaluator, dialect))
    names: dict[str, Any] = {"where": np.where, "minimum": np.minimum}
    # The source is generated from integers and the parameters' names alone, which Loopy has checked to be identifiers.
    exec(compile(source, "<loopyperf closed forms>", "exec"), names)
    return names["evaluate"]


def _source(evaluator: Evaluator, dialect: _Dialect) -> Iterator[str]:
    writer = _Writer(dialect, evaluator.parameters)
    yield f"def evaluate({', '.join(writer.names[name] for name in evaluator.parameters)}):"
    admissible = dialect.disjunction.join(writer.disjunction(piece) for piece in evaluator.assumptions)
    forms = [writer.form(form) for form in evaluator.forms]
    values = [writer.output(output, forms) for output in evaluator.outputs]
    yield from (f"    {line}" for line in writer.lines)
    yield f"    return {admissible}, ({', '.join(values)}{',' if values else ''})"


class _Writer:
    """Writes each shared subexpression once, as an assignment."""

    def __init__(self, dialect: _Dialect, parameters: Sequence[str]) -> None:
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

    def affine(self, expression: Affine) -> str:
        terms = [_scaled(int(value), self.atom(atom)) for atom, value in expression.coefficients]
        return " + ".join([*terms, str(int(expression.constant))] if expression.constant or not terms else terms)

    def conjunction(self, conjunction: Conjunction) -> str:
        tests = [
            f"({self.affine(constraint.expression)} {'==' if constraint.is_equality else '>='} 0)"
            for constraint in conjunction
        ]
        return self.dialect.conjunction.join(tests) or self.dialect.true

    def disjunction(self, piece: Piece) -> str:
        return self.dialect.disjunction.join(f"({self.conjunction(c)})" for c in piece.conditions)

    def monomial(self, monomial: Monomial) -> str:
        factors = [self.atom(atom) for atom, exponent in monomial for _ in range(exponent)]
        product = factors[0]
        for factor in factors[1:]:
            key = f"{product}*{factor}"
            product = self.shared(key, key)
        return product

    def polynomial(self, piece: Piece) -> str:
        denominator = lcm(*(value.denominator for _, value in piece.terms))
        terms = [self.term(monomial, value * denominator) for monomial, value in piece.terms]
        return _divided(" + ".join(terms), denominator)

    def term(self, monomial: Monomial, value: Fraction) -> str:
        return _scaled(int(value), self.monomial(monomial)) if monomial else str(int(value))

    def form(self, form: ClosedForm) -> str:
        result = "0"
        for piece in form:
            value = self.shared(piece.terms, self.polynomial(piece))
            if piece.is_unconditional:
                return value
            result = self.dialect.choice(self.shared(piece.conditions, self.disjunction(piece)), value, result)
        return self.shared(form, result) if form else result

    def output(self, output: Output, forms: Sequence[str]) -> str:
        if isinstance(output, Least):
            return self.dialect.least(self.output(output.left, forms), self.output(output.right, forms))
        total = " + ".join(_scaled(multiplicity, forms[index]) for index, multiplicity in output.terms) or "0"
        return total if len(output.terms) == 1 and output.terms[0][1] == 1 else self.shared(output, total)


def _divided(numerator: str, denominator: int) -> str:
    """Return floor division; by a power of two it is a shift, which NumPy does ten times faster."""
    if denominator & (denominator - 1) == 0:
        shift = denominator.bit_length() - 1
        return f"({numerator}) >> {shift}" if shift else numerator
    return f"({numerator}) // {denominator}"


def _scaled(factor: int, name: str) -> str:
    return name if factor == 1 else f"{factor}*{name}"


# }}}
