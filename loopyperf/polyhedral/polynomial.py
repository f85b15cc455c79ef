"""Addresses as the compiler knows them: sums of products of sizes, loop variables and hardware indices."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

import pymbolic.primitives as prim
from pymbolic import evaluate
from pymbolic.mapper.dependency import DependencyMapper
from pymbolic.mapper.substitutor import substitute

Monomial = tuple[str, ...]
"""the variables of a product, in alphabetical order; empty for a number"""


class Opaque(str):
    """What is neither a sum nor a product, as a variable called as it is written."""

    __slots__ = ("expression",)

    def __new__(cls, expression: Any) -> "Opaque":
        """Take the expression."""
        found = super().__new__(cls, expression)
        found.expression = expression
        return found

    def __getnewargs__(self) -> tuple[Any]:
        """Return what it is unpickled from."""
        return (self.expression,)


@dataclass(frozen=True)
class Polynomial:
    """A sum of integer multiples of products; what is neither a sum nor a product is a variable called as written."""

    terms: frozenset[tuple[Monomial, int]]
    """each product once, none a zero times"""

    @classmethod
    def of(cls, expression: Any) -> "Polynomial":
        """Return *expression*, of integers and variables, multiplied out."""
        return cls._of_terms(_terms(expression))

    @classmethod
    def _of_terms(cls, terms: Mapping[Monomial, int]) -> "Polynomial":
        return cls(frozenset((product, factor) for product, factor in terms.items() if factor))

    @property
    def constant(self) -> int:
        """Return the number in the sum."""
        return dict(self.terms).get((), 0)

    @property
    def without_constant(self) -> "Polynomial":
        """Return the sum without its number: accesses that differ in nothing else share a register."""
        return Polynomial(frozenset((product, factor) for product, factor in self.terms if product))

    @property
    def variables(self) -> frozenset[str]:
        """Return the variables of all products."""
        return frozenset(name for product, _ in self.terms for name in product)

    @property
    def names(self) -> frozenset[str]:
        """Return the variables of all products, and those within what is called as it is written."""
        return frozenset(name for each in self.variables for name in _names(each))

    def factor_of(self, name: str) -> "Polynomial":
        """Return what the sum grows by where the variable *name*, which is in no power, grows by 1."""
        return self._of_terms({_without(product, name): factor for product, factor in self.terms if name in product})

    def without(self, names: frozenset[str]) -> "Polynomial":
        """Return the sum without the products that depend on some of *names*."""
        left = (
            (product, factor) for product, factor in self.terms if not any(names & _names(each) for each in product)
        )
        return Polynomial(frozenset(left))

    def is_affine_in(self, names: Collection[str]) -> bool:
        """Return whether a step of each of the variables *names* adds the same, whatever its value."""
        inside = {name for each in self.variables if isinstance(each, Opaque) for name in _names(each)}
        powers = (product.count(name) for product, _ in self.terms for name in names)
        return not inside.intersection(names) and max(powers, default=0) < 2

    def in_terms_of(self, values: Mapping[str, Any]) -> "Polynomial":
        """Return the sum with expressions instead of some variables."""
        if self.names.isdisjoint(values):
            return self
        total: dict[Monomial, int] = {}
        for product, factor in self.terms:
            part: dict[Monomial, int] = {(): factor}
            for name in product:
                part = _product(part, _terms(_in_terms_of(name, values)))
            _add(total, part)
        return self._of_terms(total)


def _names(variable: str) -> frozenset[str]:
    """Return the variables in what a *variable* stands for."""
    if isinstance(variable, Opaque):
        return frozenset(map(str, DependencyMapper()(variable.expression)))
    return frozenset((variable,))


def is_axis(name: str) -> bool:
    """Return whether the variable *name* is a hardware index, as ``l.0`` and ``g.1`` are."""
    return name.startswith(("l.", "g.")) and not isinstance(name, Opaque)


def _without(product: Monomial, name: str) -> Monomial:
    place = product.index(name)
    return product[:place] + product[place + 1 :]


def _terms(expression: Any) -> dict[Monomial, int]:
    match expression:
        case Integral():
            return {(): int(expression)}
        case prim.Variable(name=name):
            return {(name,): 1}
        case prim.Sum(children=children):
            total: dict[Monomial, int] = {}
            for child in children:
                _add(total, _terms(child))
            return total
        case prim.Product(children=children):
            return _multiplied(list(children))
        case prim.Power(base=base, exponent=int(exponent)) if exponent > 0:
            return _multiplied([base] * exponent)
        case _:
            return {(Opaque(expression),): 1}


def _in_terms_of(name: str, values: Mapping[str, Any]) -> Any:
    """Return what the variable *name* is with *values* in place of variables, worked out where none is left."""
    if not isinstance(name, Opaque):
        return values.get(name, prim.Variable(name))
    found: Any = substitute(name.expression, dict(values))
    return found if DependencyMapper()(found) else cast("Any", evaluate(found))


def _multiplied(factors: Sequence[Any]) -> dict[Monomial, int]:
    product: dict[Monomial, int] = {(): 1}
    for each in factors:
        product = _product(product, _terms(each))
    return product


def _product(left: Mapping[Monomial, int], right: Mapping[Monomial, int]) -> dict[Monomial, int]:
    total: dict[Monomial, int] = {}
    for one, factor in left.items():
        _add(total, dict(_times(one, factor, right)))
    return total


def _times(one: Monomial, factor: int, others: Mapping[Monomial, int]) -> Iterator[tuple[Monomial, int]]:
    for other, multiple in others.items():
        yield tuple(sorted((*one, *other))), factor * multiple


def _add(total: dict[Monomial, int], part: Mapping[Monomial, int]) -> None:
    for product, factor in part.items():
        total[product] = total.get(product, 0) + factor
