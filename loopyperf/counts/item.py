"""Counted items: operations, memory accesses and overheads of launches."""

from dataclasses import dataclass
from typing import Literal

from loopyperf.units import Word

Kind = Literal["add", "mul", "div", "pow", "special", "min/max", "compare", "logic", "bitwise", "shift"]
Direction = Literal["load", "store"]


class MemorySpace(Word):
    """The memory that holds an array."""

    GLOBAL = "global"
    LOCAL = "local"
    PRIVATE = "private"
    """device memory of private arrays that are not in registers: local (stack) memory in CUDA's terms"""
    CONSTANT = "constant"
    """read-only memory behind the constant cache of an NVIDIA GPU; only in machine graphs, counts call it global"""


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
    """the accessed memory"""
    bits: int
    """size of a value"""
    stride: str
    """amortized stride fraction of a global access; empty for local memory"""


@dataclass(frozen=True, slots=True)
class Overhead:
    """An overhead of a launch beyond its instructions."""

    kind: Literal["barriers", "work-groups", "launches"]
    """kind of overhead"""


WORK_GROUPS = Overhead("work-groups")
LAUNCHES = Overhead("launches")

Item = Operation | Access | Overhead
