"""Counted items (operations, memory accesses and overheads of launches), and their names as properties.

The properties of the unified model (Stevens and Klöckner, section 2):

=====================================================  ======================================================
name                                                   counts
=====================================================  ======================================================
``f32 add``, ``f64 mul``, ``f32 div``, ``f32 pow``,    scalar floating-point operations of any type (the paper has f32
``f32 special``                                        and f64); ``special`` is any other function (square root,
                                                       exponential, ...)
``global load 32-bit stride 1``,                       accesses of global memory by size, direction and
``global store 64-bit stride 2/2``                     amortized stride fraction
``global min(load, store) 32-bit stride 1``            the smaller of the kernel's total loads and stores of a class
``local load 32-bit``, ``local store 32-bit``          accesses of local memory (stores: the paper's future work)
``barriers``                                           barriers per work-item times work-items
``work-groups``, ``launches``                          overhead of launches
=====================================================  ======================================================
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from loopyperf.errors import ParameterError
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

# {{{ properties of the unified model (Stevens and Klöckner, section 2)


STRIDE_CLASSES = (
    "0",
    "1",
    "1/2",
    "2/2",
    "1/3",
    "2/3",
    "3/3",
    *(f"{used}/{n}" for n in ("4", ">4") for used in (1, 2, 3, 4)),
)
"""amortized stride fractions"""

OPERATION_KINDS = frozenset({"add", "mul", "div", "pow", "special"})
TYPES = ("f32", "f64")
"""arithmetic types of the paper"""
BITS = (32, 64, 128)
"""access sizes of the paper"""


def property_name(item: Item) -> str | None:
    """Return the property that counts *item*; None if the item is free in the unified model."""
    match item:
        case Operation(kind=kind, dtype=dtype):
            return f"{dtype} {kind}" if kind in OPERATION_KINDS and dtype.startswith("f") else None
        case Access(space=MemorySpace.LOCAL):
            return f"local {item.direction} {item.bits}-bit"
        case Access():
            return f"global {item.direction} {item.bits}-bit stride {item.stride}"
        case Overhead():
            return item.kind


_OPERATION = re.compile(r"(?P<dtype>[fiu]\d+) (?P<kind>\S+)")
_LOCAL = re.compile(r"local (?P<direction>load|store) (?P<bits>\d+)-bit")
_GLOBAL = re.compile(r"global (?P<direction>load|store) (?P<bits>\d+)-bit stride (?P<stride>\S+)")


def item_named(name: object) -> Item:
    """Return the item that property *name* counts; raises :class:`ParameterError` if the name is unknown."""
    if not isinstance(name, str):
        raise ParameterError(f"a property name must be a string such as 'f32 add', got {name!r}")
    found: Any
    if (found := _OPERATION.fullmatch(name)) and found["kind"] in get_args(Kind):
        return Operation(found["kind"], found["dtype"])
    if found := _LOCAL.fullmatch(name):
        return Access(found["direction"], MemorySpace.LOCAL, int(found["bits"]), "")
    if (found := _GLOBAL.fullmatch(name)) and found["stride"] in STRIDE_CLASSES:
        return Access(found["direction"], MemorySpace.GLOBAL, int(found["bits"]), found["stride"])
    raise ParameterError(
        f"unknown property {name!r}; use e.g. 'f32 add', 'global load 32-bit stride 1' or 'local store 64-bit'"
    )


BYTES_OF_AN_OPERATION = 32
"""moved bytes that count as much work as one operation"""


@cache
def work_of_one(name: str) -> float:
    """Return the work of one count of property *name*, in operations: 1, or moved bytes / 32.

    It is 0 for minima of loads and stores, barriers, groups and launches.
    """
    if _OPERATION.fullmatch(name):
        return 1.0
    access = _LOCAL.fullmatch(name) or _GLOBAL.fullmatch(name)
    return int(access["bits"]) / 8 / BYTES_OF_AN_OPERATION if access else 0.0


PAPER_PROPERTIES: tuple[str, ...] = (
    *(f"{dtype} {kind}" for dtype in TYPES for kind in sorted(OPERATION_KINDS)),
    *(
        f"global {direction} {bits}-bit stride {stride}"
        for direction in ("load", "store", "min(load, store)")
        for bits in BITS
        for stride in STRIDE_CLASSES
    ),
    *(f"local {direction} {bits}-bit" for direction in ("load", "store") for bits in BITS),
    "barriers",
    WORK_GROUPS.kind,
    LAUNCHES.kind,
)
"""all properties of section 2 of the paper, with local loads by size, and local stores, which are its future work"""


# }}}
