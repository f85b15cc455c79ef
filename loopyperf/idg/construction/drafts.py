"""Instructions in the making: what they do, and where their operands come from, whichever warp executes them."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from loopyperf.counts.item import Item
from loopyperf.counts.memory import Reference
from loopyperf.counts.predicates.conditions import Conditions
from loopyperf.idg.construction.values import Value
from loopyperf.idg.warps.nest import Statement


@dataclass(slots=True)
class Draft:
    """An instruction in the making: what it does, and where its operands come from."""

    kind: str
    dtype: str
    subsystem: str
    text: str
    statement: Statement
    conditions: Conditions
    operands: list[Value] = field(default_factory=list[Value])
    reference: Reference | None = None
    item: Item | None = None
    """what it is counted as"""
    expression: Any = None
    """what it computes, where loop variables and sizes alone determine that"""
    controls: tuple[Value, ...] = ()
    """what decides whether it is executed"""
    number: int | Fraction | None = None
    """how often it is executed in one execution of its statement, where ``typical`` says so"""
    part: int = 0
    """which it is of those alike that one operation of the source is made of"""
    beside: tuple[int, ...] = ()
    """the others that compute parts of its value"""


@dataclass(frozen=True, slots=True)
class Definition:
    """A value that a statement gives to a private variable."""

    statement: Statement
    variable: str
    index: tuple[Any, ...]
    node: int
    is_part: bool = False
    """that instruction computes it alone, without those beside it"""
