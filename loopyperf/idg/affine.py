"""Expressions of passes as sums of multiples of variables, where they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim
from pymbolic import evaluate
from pymbolic.mapper.coefficient import CoefficientCollector
from pymbolic.mapper.evaluator import UnknownVariableError
from pymbolic.mapper.flattener import flatten


@dataclass(frozen=True, slots=True)
class Affine:
    """A constant plus integer multiples of variables."""

    constant: int
    factors: Mapping[str, int]
    """variable -> multiple; none is zero"""

    @classmethod
    def of(cls, expression: Any) -> "Affine | None":
        """Return *expression* as a sum of multiples; None where it is none, or not known."""
        if expression is None:
            return None
        if isinstance(expression, int):
            return cls(expression, {})
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

    @property
    def expression(self) -> Any:
        """Return the sum as an integer or as a pymbolic expression."""
        total: Any = self.constant
        for name, factor in sorted(self.factors.items()):
            variable = prim.Variable(name)
            total = total + (variable if factor == 1 else factor * variable)
        return total

    def may_be(self, value: int, trips: Mapping[str, Any]) -> bool:
        """Return whether the sum may be *value*, each variable being a pass of the loop that makes so many *trips*."""
        if not all(isinstance(trips.get(name), int) for name in self.factors):
            return True
        ends = [factor * (trips[name] - 1) for name, factor in self.factors.items()]
        least, greatest = (self.constant + sum(side(0, end) for end in ends) for side in (min, max))
        return least <= value <= greatest

    def divided(self, divisor: int) -> "Affine":
        """Return the exact quotient by *divisor*, which divides all multiples and the constant."""
        return Affine(self.constant // divisor, {name: factor // divisor for name, factor in self.factors.items()})
