"""Polynomials with rational coefficients: addresses during compilation, and pieces of counts.

A variable is a name, a quotient rounded down, or any other expression that is neither a sum nor a product.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from numbers import Integral
from operator import mul
from typing import Any, Generic, cast

import pymbolic.primitives as prim

from loopyperf.polyhedral.affine import Affine, Opaque, Symbol, V, W, names_of_variable, substituted

Rational = int | Fraction
Monomial = tuple[V, ...]
"""sorted variables of a product, repeated for powers; empty for a constant"""
Term = tuple[Monomial[V], Rational]


@dataclass(frozen=True, slots=True)
class Polynomial(Generic[V]):
    """A sum of multiples of products of variables, in canonical form: equal sums have equal fields."""

    terms: tuple[tuple[Monomial[V], Rational], ...] = ()
    """sorted pairs of product and nonzero coefficient"""

    # {{{ construction

    @staticmethod
    def of(expression: Any) -> "Polynomial[Symbol]":
        """Return *expression*, of integers and variables, expanded."""
        return Polynomial.total(_terms(expression))

    @staticmethod
    def total(coefficients: Mapping[Monomial[W], Rational]) -> "Polynomial[W]":
        """Return the sum of products with these *coefficients*."""
        terms = [term for term in coefficients.items() if term[1]]
        if len(terms) > 1:
            terms.sort()
        return Polynomial(tuple(terms))

    @staticmethod
    def number(value: Rational) -> "Polynomial[Any]":
        """Return the constant polynomial *value*."""
        return Polynomial((((), value),) if value else ())

    @staticmethod
    def variable(variable: W) -> "Polynomial[W]":
        """Return the polynomial *variable*."""
        return Polynomial((((variable,), 1),))

    @staticmethod
    def of_affine(expression: Affine[W]) -> "Polynomial[W]":
        """Return *expression* as a polynomial of degree one."""
        return Polynomial.total({(): expression.constant, **{(each,): factor for each, factor in expression.terms}})

    # }}}

    # {{{ properties

    @property
    def constant(self) -> Rational:
        """Return the constant term."""
        return self.terms[0][1] if self.terms and not self.terms[0][0] else 0

    @property
    def without_constant(self) -> "Polynomial[V]":
        """Return the sum without its constant term; accesses that differ only in it share a register."""
        return Polynomial(tuple(term for term in self.terms if term[0]))

    @property
    def variables(self) -> frozenset[V]:
        """Return the variables of all products."""
        return frozenset(variable for product, _ in self.terms for variable in product)

    @property
    def names(self) -> frozenset[str]:
        """Return the names in all variables, including names inside floors and opaque expressions."""
        return frozenset(name for variable in self.variables for name in names_of_variable(variable))

    def factor_of(self, variable: V) -> "Polynomial[V]":
        """Return the factor of *variable*, which must not occur in a power."""
        found = {_without(product, variable): value for product, value in self.terms if variable in product}
        return Polynomial.total(found)

    def without(self, names: frozenset[str]) -> "Polynomial[V]":
        """Return the sum without the products that depend on any of *names*."""
        moving = {variable for variable in self.variables if not names.isdisjoint(names_of_variable(variable))}
        return Polynomial(tuple(term for term in self.terms if moving.isdisjoint(term[0])))

    def is_affine_in(self, names: Collection[str]) -> bool:
        """Return whether the polynomial is linear in each of *names*, so that each step adds the same amount."""
        inside = {name for each in self.variables if not isinstance(each, str) for name in names_of_variable(each)}
        powers = (product.count(name) for product, _ in self.terms for name in cast("Collection[Any]", names))
        return inside.isdisjoint(names) and max(powers, default=0) < 2

    def __str__(self) -> str:
        return " + ".join(_written(*term) for term in self.terms) or "0"

    # }}}

    # {{{ arithmetic

    def __add__(self, other: "Polynomial[V]") -> "Polynomial[V]":
        total = dict(self.terms)
        _add(total, other.terms)
        return Polynomial.total(total)

    def __sub__(self, other: "Polynomial[V]") -> "Polynomial[V]":
        return self + other * -1

    def __mul__(self, other: "Polynomial[V] | Rational") -> "Polynomial[V]":
        if isinstance(other, Polynomial):
            return Polynomial.total(_multiplied(self.terms, other.terms))
        return Polynomial(tuple((product, value * other) for product, value in self.terms)) if other else Polynomial()

    def __pow__(self, exponent: int) -> "Polynomial[V]":
        return reduce(mul, [self] * exponent, Polynomial.number(1))

    def replaced(self, values: Mapping[V, "Polynomial[V]"]) -> "Polynomial[V]":
        """Return the sum with variables replaced by *values*."""
        return self._with({each: value.terms for each, value in values.items()}) if values else self

    def _with(self, values: Mapping[V, Collection[Term[V]]]) -> "Polynomial[V]":
        total: dict[Monomial[V], Rational] = {}
        for product, value in self.terms:
            if values.keys().isdisjoint(product):
                total[product] = total.get(product, 0) + value
                continue
            part = {tuple([each for each in product if each not in values]): value}
            for each in product:
                if each in values:
                    part = _multiplied(part.items(), values[each])
            _add(total, part.items())
        return Polynomial.total(total)

    def in_terms_of(self: "Polynomial[Symbol]", values: Mapping[str, Any]) -> "Polynomial[Symbol]":
        """Return the sum with names replaced by the expressions *values*, evaluated where no names are left."""
        known: dict[Symbol, tuple[Term[Symbol], ...]] = {}
        for each in {variable for product, _ in self.terms for variable in product}:
            if each in values if isinstance(each, str) else not names_of_variable(each).isdisjoint(values):
                known[each] = _terms_of(_in_terms_of(each, values))
        return self._with(known) if known else self

    # }}}


def _in_terms_of(variable: Symbol, values: Mapping[str, Any]) -> Any:
    if isinstance(variable, str):
        return values[variable]
    names = sorted(names_of_variable(variable))
    return substituted(variable.expression, tuple([(name, values[name]) for name in names if name in values]))


def _written(product: Monomial[Any], value: Rational) -> str:
    factors = [each if isinstance(each, str) else f"({each})" for each in product]
    return "*".join([str(value), *factors] if value != 1 or not factors else factors)


# {{{ terms


def _terms_of(expression: Any) -> tuple[Term[Symbol], ...]:
    """Return the terms of an expression in any order."""
    if isinstance(expression, Affine):
        known = cast("Affine[Symbol]", expression)
        constant: tuple[Term[Symbol], ...] = (((), known.constant),) if known.constant else ()
        return (*constant, *[((variable,), factor) for variable, factor in known.terms])
    return tuple(_terms(expression).items())


def _terms(expression: Any) -> dict[Monomial[Symbol], Rational]:
    match expression:
        case Integral():
            return {(): int(expression)}
        case Affine():
            return dict(Polynomial.of_affine(cast("Affine[Symbol]", expression)).terms)
        case prim.Variable(name=name):
            return {(name,): 1}
        case prim.Sum(children=children):
            total: dict[Monomial[Symbol], Rational] = {}
            for child in children:
                _add(total, _terms(child).items())
            return total
        case prim.Product(children=children):
            return _product(children)
        case prim.Power(base=base, exponent=int(exponent)) if exponent > 0:
            return _product([base] * exponent)
        case _:
            return {(Opaque(expression),): 1}


def _product(factors: Iterable[Any]) -> dict[Monomial[Symbol], Rational]:
    found: dict[Monomial[Symbol], Rational] = {(): 1}
    for factor in factors:
        found = _multiplied(found.items(), _terms(factor).items())
    return found


def _multiplied(left: Iterable[Term[W]], right: Collection[Term[W]]) -> dict[Monomial[W], Rational]:
    total: dict[Monomial[W], Rational] = {}
    for one, factor in left:
        for other, multiple in right:
            product = tuple(sorted(cast("Any", (*one, *other)))) if one and other else one or other
            total[product] = total.get(product, 0) + factor * multiple
    return total


def _add(total: dict[Monomial[W], Rational], terms: Iterable[Term[W]]) -> None:
    for product, value in terms:
        total[product] = total.get(product, 0) + value


def _without(product: Monomial[W], variable: W) -> Monomial[W]:
    place = product.index(variable)
    return product[:place] + product[place + 1 :]


# }}}
