"""Where an operand comes from: another instruction, a private variable, or the source itself."""

from dataclasses import dataclass, replace
from typing import Any


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
    read: Read | None = None
    """the private variable that holds it"""
    known: Any = None
    """a number, or an expression of loop variables, sizes and scalar arguments"""
    is_negated: bool = False

    def negated(self) -> "Value":
        """Return its negative: on GPUs an operand's modifier, no instruction."""
        return replace(self, is_negated=not self.is_negated)
