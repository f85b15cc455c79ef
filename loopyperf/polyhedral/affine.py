"""Expressions of passes as sums of multiples of variables, where they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import Any

import pymbolic.primitives as prim
from pymbolic import evaluate
from pymbolic.mapper.coefficient import CoefficientCollector
from pymbolic.mapper.evaluator import UnknownVariableError
from pymbolic.mapper.flattener import flatten

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Affine:
    """A constant plus integer multiples of variables."""

    constant: int
    """what is added to the multiples"""
    factors: Mapping[str, int]
    """variable -> multiple; none is zero"""

    @classmethod
    def of(cls, expression: Any) -> "Affine | None":
        """Return *expression* as a sum of multiples; None where it is none, or not known."""
        if expression is None:
            return None
        if isinstance(expression, int):
            return cls(expression, {})
        if (plain := cls.of_plain(expression)) is not None:
            return plain
        try:
            found: dict[Any, Any] = dict(CoefficientCollector()(flatten(expression)))
            # The collector leaves products of numbers as they are.
            values: dict[Any, Any] = {variable: evaluate(factor) for variable, factor in found.items()}
        except (RuntimeError, TypeError, NotImplementedError, UnknownVariableError):
            return None
        factors = {getattr(variable, "name", None): factor for variable, factor in values.items() if variable != 1}
        numbers = [*factors.values(), values.get(1, 0)]
        if not all(isinstance(each, int) for each in numbers) or not all(isinstance(each, str) for each in factors):
            return None
        return cls(values.get(1, 0), {str(name): factor for name, factor in factors.items() if factor})

    @classmethod
    def of_plain(cls, expression: Any, passes: Mapping[str, Any] = NOTHING) -> "Affine | None":
        """Return the sum that *expression* is where variables are in *passes*; None where it would have to be expanded.

        Nearly all addresses are such, and this is many times as fast as to collect the coefficients of any expression.
        """
        terms: dict[str, int] = {}
        if not _is_added(expression, 1, passes, terms):
            return None
        constant = terms.pop("", 0)
        return cls(constant, {name: factor for name, factor in terms.items() if factor})

    @property
    def expression(self) -> Any:
        """Return the sum as an integer or as a pymbolic expression."""
        terms: list[Any] = [self.constant] if self.constant or not self.factors else []
        for name, factor in sorted(self.factors.items()):
            terms.append(prim.Variable(name) if factor == 1 else factor * prim.Variable(name))
        return reduce(add, terms)

    def may_be(self, value: int, trips: Mapping[str, Any]) -> bool:
        """Return whether the sum may be *value*, each variable being a pass of the loop that makes so many *trips*."""
        if not all(isinstance(trips.get(name), int) for name in self.factors):
            return True
        ends = [factor * (trips[name] - 1) for name, factor in self.factors.items()]
        least, greatest = (self.constant + sum(side(0, end) for end in ends) for side in (min, max))
        return least <= value <= greatest

    def minus(self, other: "Affine") -> "Affine":
        """Return the difference."""
        names = self.factors.keys() | other.factors.keys()
        factors = {name: self.factors.get(name, 0) - other.factors.get(name, 0) for name in names}
        return Affine(self.constant - other.constant, {name: factor for name, factor in factors.items() if factor})

    def moved(self, by: Mapping[str, int]) -> "Affine":
        """Return the sum where each variable is that much more."""
        return Affine(self.constant + sum(factor * by[name] for name, factor in self.factors.items()), self.factors)

    def between(self, ranges: Mapping[str, range]) -> tuple[int, int]:
        """Return the least and the largest value while each variable is anywhere in its range, none of them empty."""
        ends = [sorted((factor * ranges[name][0], factor * ranges[name][-1])) for name, factor in self.factors.items()]
        return self.constant + sum(low for low, _ in ends), self.constant + sum(high for _, high in ends)

    def divided(self, divisor: int) -> "Affine":
        """Return the exact quotient by *divisor*, which divides all multiples and the constant."""
        return Affine(self.constant // divisor, {name: factor // divisor for name, factor in self.factors.items()})


def _is_added(expression: Any, factor: int, passes: Mapping[str, Any], terms: dict[str, int]) -> bool:
    """Add *factor* times *expression* to *terms*, the constant under no name; return whether it is as plain as that.

    What variables are in *passes* is in other terms.
    """
    if isinstance(expression, int):
        terms[""] = terms.get("", 0) + factor * expression
    elif isinstance(expression, prim.Variable):
        if expression.name in passes:
            return _is_added(passes[expression.name], factor, NOTHING, terms)
        terms[expression.name] = terms.get(expression.name, 0) + factor
    elif isinstance(expression, prim.Sum):
        return all(_is_added(child, factor, passes, terms) for child in expression.children)
    elif isinstance(expression, prim.Product) and len(expression.children) == 2:
        one, other = expression.children
        if isinstance(one, int):
            return _is_added(other, factor * one, passes, terms)
        return isinstance(other, int) and _is_added(one, factor * other, passes, terms)
    else:
        return False
    return True
