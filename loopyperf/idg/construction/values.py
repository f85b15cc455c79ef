"""Where an operand comes from: another instruction, a private variable, or the source itself."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Read:
    """A use of a private variable, which lives in registers."""

    variable: str
    index: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """An operand. One of the first three says where it comes from."""

    node: int | None = None
    """the instruction that computes it"""
    reads: tuple[Read, ...] = ()
    """the private variable that holds it; of a vector, each of its members"""
    known: Any = None
    """a number, or an expression of loop variables, sizes and scalar arguments"""
    is_negated: bool = False
    is_part: bool = False
    """it is what that instruction computes alone, without the others that compute parts of the same value"""

    def negated(self) -> "Value":
        """Return its negative: on GPUs an operand's modifier, no instruction."""
        return replace(self, is_negated=not self.is_negated)


def product_with_sign(value: Value, operand: Value) -> Value:
    """Return the product of two of which one is -1."""
    if _is_number(operand.known):
        return value.negated() if operand.known == -1 else value
    return operand.negated() if _is_number(value.known) and value.known == -1 else operand


def _is_number(known: Any) -> bool:
    return isinstance(known, (int, float, np.number))
