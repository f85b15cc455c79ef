"""Affine expressions: sums of integer multiples of variables, converted from and to pymbolic.

A variable is a name, the floor of a quotient (from isl's functions), or an expression that is not affine.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import prod
from numbers import Integral
from operator import add
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import pymbolic.primitives as prim
from pymbolic import evaluate
from pymbolic.mapper.dependency import DependencyMapper
from pymbolic.mapper.substitutor import substitute

NOTHING: Mapping[str, Any] = MappingProxyType({})
V = TypeVar("V", bound=Hashable)
W = TypeVar("W", bound=Hashable)
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Floor:
    """A quotient rounded down; as a variable, it sorts after all names."""

    numerator: "Affine[Atom]"
    """an integer-valued expression"""
    denominator: int
    """a positive integer"""

    def __str__(self) -> str:
        return str(self.expression)

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Floor) and self._place < other._place

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Floor) or self._place > other._place

    @property
    def _place(self) -> tuple[Any, ...]:
        return self.numerator.terms, self.numerator.constant, self.denominator

    @property
    def expression(self) -> Any:
        """Return the quotient as a pymbolic expression."""
        return prim.FloorDiv(self.numerator.expression, self.denominator)


Atom = str | Floor


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expression that is not decomposed further; as a variable, it sorts after all names."""

    expression: Any
    """a pymbolic expression"""

    def __str__(self) -> str:
        return _text(self.expression)

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Opaque) and str(self) < str(other)

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Opaque) or str(self) > str(other)


Symbol = str | Opaque


@dataclass(frozen=True, slots=True)
class Affine(Generic[V]):
    """A constant plus integer multiples of variables, in canonical form: equal sums have equal fields."""

    terms: tuple[tuple[V, int], ...] = ()
    """sorted pairs of variable and nonzero factor"""
    constant: int = 0
    """the constant term"""

    # {{{ construction

    @staticmethod
    def of(expression: Any, iterations: Mapping[str, Any] = NOTHING) -> "Affine[str] | None":
        """Return *expression* as a sum, with loops replaced by their *iterations*; None if it is not affine."""
        terms: dict[str, int] = {}
        if not _is_added(expression, 1, iterations, terms):
            return None
        constant = terms.pop("", 0)
        return Affine.total(terms, constant)

    @staticmethod
    def around(expression: Any) -> "Affine[Symbol]":
        """Return *expression* as a sum of multiples of variables and of its parts that are not affine."""
        if (known := Affine.of(expression)) is not None:
            return cast("Affine[Symbol]", known)
        if not isinstance(expression, prim.Sum):
            return Affine.variable(Opaque(expression))
        parts = map(Affine.around, expression.children)
        return reduce(add, parts)

    @staticmethod
    def total(factors: Mapping[W, int], constant: int = 0) -> "Affine[W]":
        """Return the sum with these *factors* of variables and this *constant*."""
        terms = [term for term in factors.items() if term[1]]
        if len(terms) > 1:
            terms.sort()
        return Affine(tuple(terms), constant)

    @staticmethod
    def variable(variable: W, constant: int = 0) -> "Affine[W]":
        """Return *variable* plus *constant*."""
        return Affine(((variable, 1),), constant)

    # }}}

    # {{{ properties

    @property
    def variables(self) -> frozenset[V]:
        """Return the variables."""
        return frozenset(variable for variable, _ in self.terms)

    @property
    def names(self) -> frozenset[str]:
        """Return the names in all variables, including names inside floors and opaque expressions."""
        return frozenset(name for variable, _ in self.terms for name in names_of_variable(variable))

    def factor(self, variable: V) -> int:
        """Return the factor of *variable*."""
        return next((factor for each, factor in self.terms if each == variable), 0)

    @property
    def expression(self) -> Any:
        """Return the sum as an integer or as a pymbolic expression."""
        terms: list[Any] = [self.constant] if self.constant or not self.terms else []
        for variable, factor in self.terms:
            known = prim.Variable(variable) if isinstance(variable, str) else cast("Any", variable).expression
            terms.append(known if factor == 1 else factor * known)
        if len(terms) == 1 or any(isinstance(term, prim.Sum) for term in terms):
            return reduce(add, terms)
        return prim.Sum(tuple(terms))

    def __str__(self) -> str:
        return str(self.expression)

    def at(self, values: Mapping[Any, Any]) -> Any:
        """Return the value of the sum at *values* of the variables: integers, or arrays that broadcast together."""
        return sum((factor * _value(variable, values) for variable, factor in self.terms), self.constant)

    def between(self, ranges: Mapping[V, Sequence[N]]) -> tuple[N, N]:
        """Return the minimum and maximum over the *ranges* of the variables, given by their values or by both ends."""
        low: Any = self.constant
        high: Any = self.constant
        for variable, factor in self.terms:
            ends = ranges[variable]
            first, last = factor * ends[0], factor * ends[-1]
            low, high = (low + first, high + last) if factor > 0 else (low + last, high + first)
        return low, high

    # }}}

    # {{{ arithmetic

    def __add__(self, other: "Affine[V]") -> "Affine[V]":
        factors = dict(self.terms)
        for variable, factor in other.terms:
            factors[variable] = factors.get(variable, 0) + factor
        return Affine.total(factors, self.constant + other.constant)

    def __sub__(self, other: "Affine[V]") -> "Affine[V]":
        return self + other * -1

    def __mul__(self, factor: int) -> "Affine[V]":
        if not factor:
            return Affine()
        return Affine(tuple((variable, factor * each) for variable, each in self.terms), factor * self.constant)

    def replaced(self: "Affine[Symbol]", values: "Mapping[str, Affine[Symbol]]") -> "Affine[Symbol]":
        """Return the sum with names replaced by *values*."""
        factors: dict[Symbol, int] = {}
        constant, is_same = self.constant, True
        for variable, factor in self.terms:
            value = values.get(variable) if isinstance(variable, str) else _replaced(variable, values)
            if value is None:
                factors[variable] = factors.get(variable, 0) + factor
                continue
            is_same = False
            for each, times in value.terms:
                factors[each] = factors.get(each, 0) + factor * times
            constant += factor * value.constant
        return self if is_same else Affine.total(factors, constant)

    def divided(self, divisor: int) -> "Affine[V]":
        """Return the quotient by *divisor*, which must divide all factors and the constant."""
        return Affine(tuple((variable, each // divisor) for variable, each in self.terms), self.constant // divisor)

    # }}}


def _value(variable: Any, values: Mapping[Any, Any]) -> Any:
    if isinstance(variable, Floor) and variable not in values:
        return variable.numerator.at(values) // variable.denominator
    if isinstance(variable, Opaque):
        return evaluate(variable.expression, dict(values))
    return values[variable]


def _replaced(variable: Opaque, values: Mapping[str, Affine[Symbol]]) -> Affine[Symbol] | None:
    """Return *variable* with names replaced by *values*; None if it contains none of these names."""
    own = tuple([(name, values[name]) for name in sorted(names_of_variable(variable)) if name in values])
    return Affine.around(substituted(variable.expression, own)) if own else None


@lru_cache(maxsize=1 << 10)
def substituted(expression: Any, values: tuple[tuple[str, Any], ...]) -> Any:
    """Return *expression* with names replaced by *values*, evaluated if no names are left."""
    found: Any = substitute(expression, {name: expression_of(each) for name, each in values})
    return found if names_in_expression(found) else cast("Any", evaluate(found))


def expression_of(value: Any) -> Any:
    """Return *value* as a pymbolic expression if it is an affine sum; otherwise unchanged."""
    return cast("Affine[Any]", value).expression if isinstance(value, Affine) else value


def names_of_variable(variable: Any) -> frozenset[str]:
    """Return the names on which the value of *variable* depends."""
    if isinstance(variable, str):
        return frozenset((variable,))
    if isinstance(variable, Floor):
        return frozenset(name for each in variable.numerator.variables for name in names_of_variable(each))
    return names_in_expression(variable.expression)


@lru_cache(maxsize=1 << 10)
def names_in_expression(expression: Any) -> frozenset[str]:
    """Return the names in a pymbolic expression, including names of functions."""
    return frozenset(map(str, _Names(composite_leaves=False)(expression)))


class _Names(DependencyMapper[[]]):
    def map_type_cast(self, expr: Any) -> Any:
        """Return the names in a Loopy cast."""
        return self.rec(expr.child)


@lru_cache(maxsize=1 << 10)
def _text(expression: Any) -> str:
    """Return *expression* as text, the sort key of terms."""
    return str(expression)


# {{{ conversion from pymbolic


def _is_added(expression: Any, factor: int, iterations: Mapping[str, Any], terms: dict[str, int]) -> bool:
    """Add *factor* times *expression* to *terms*, with the constant under ""; return whether it is affine.

    Loops are replaced by their *iterations*.
    """
    if isinstance(expression, prim.Variable):
        name = expression.name
        if name in iterations:
            return _is_added(iterations[name], factor, NOTHING, terms)
        terms[name] = terms.get(name, 0) + factor
        return True
    if isinstance(expression, int):
        terms[""] = terms.get("", 0) + factor * expression
        return True
    if isinstance(expression, prim.Product):
        return _is_product_added(expression.children, factor, iterations, terms)
    if isinstance(expression, prim.Sum):
        return all(_is_added(child, factor, iterations, terms) for child in expression.children)
    if isinstance(expression, Affine):
        return _is_sum_added(cast("Affine[Symbol]", expression), factor, terms)
    match expression:
        case Integral():
            return _is_added(int(expression), factor, NOTHING, terms)
        case prim.Power(base=int(base), exponent=int(exponent)) if exponent >= 0:
            return _is_added(base**exponent, factor, NOTHING, terms)
        case _:
            return False


def _is_sum_added(known: Affine[Symbol], factor: int, terms: dict[str, int]) -> bool:
    """Add *factor* times *known* to *terms*; return whether all of its variables are names."""
    for variable, times in known.terms:
        if not isinstance(variable, str):
            return False
        terms[variable] = terms.get(variable, 0) + factor * times
    terms[""] = terms.get("", 0) + factor * known.constant
    return True


def _is_product_added(
    factors: tuple[Any, ...], factor: int, iterations: Mapping[str, Any], terms: dict[str, int]
) -> bool:
    """Do the same as :func:`_is_added` for a product, all but one of whose *factors* must be numbers."""
    others: list[Any] = []
    for each in factors:
        if isinstance(each, int):
            factor *= each
        else:
            others.append(each)
    if len(others) == 1:
        return _is_added(others[0], factor, iterations, terms)
    found = [Affine.of(each, iterations) for each in others]
    sums = [each for each in found if each is None or each.terms]
    if len(sums) > 1 or None in sums:
        return False
    numbers = [each.constant for each in found if each is not None and not each.terms]
    return _is_added(sums[0].expression if sums and sums[0] else 1, factor * prod(numbers), NOTHING, terms)


# }}}
