"""What is counted: operations, accesses of memory, and what launching and waiting costs."""

from dataclasses import dataclass
from typing import Literal

from loopyperf.units import Word

Kind = Literal["add", "mul", "div", "pow", "special", "min/max", "compare", "logic", "bitwise", "shift"]
Direction = Literal["load", "store"]


class MemorySpace(Word):
    """Where an array lives."""

    GLOBAL = "global"
    LOCAL = "local"
    PRIVATE = "private"
    """the part of device memory that holds private arrays which are no registers"""


@dataclass(frozen=True, slots=True)
class Operation:
    """A scalar arithmetic operation."""

    kind: Kind
    """e.g. ``"mul"``"""
    dtype: str
    """e.g. ``"f32"``, ``"i64"``"""


@dataclass(frozen=True, slots=True)
class Access:
    """Loads or stores of one class."""

    direction: Direction
    """``"load"`` or ``"store"``"""
    space: MemorySpace
    """the memory"""
    bits: int
    """of a value"""
    stride: str
    """amortized stride fraction of a global access; empty for local memory"""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a launch costs beside its instructions."""

    kind: Literal["barriers", "work-groups", "launches"]
    """of what"""


WORK_GROUPS = Overhead("work-groups")
LAUNCHES = Overhead("launches")

Item = Operation | Access | Overhead
