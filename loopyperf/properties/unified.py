"""The properties of the unified model (Stevens and Klöckner, section 2), by name.

=====================================================  ======================================================
name                                                   counts
=====================================================  ======================================================
``f32 add``, ``f64 mul``, ``f32 div``, ``f32 pow``,    scalar floating-point operations, of the paper's two types and
``f32 special``                                        any other; ``special`` is every other function (square roots,
                                                       exponentials, ...)
``global load 32-bit stride 1``,                       accesses of global memory by size, direction and
``global store 64-bit stride 2/2``                     amortized stride fraction
``global min(load, store) 32-bit stride 1``            the lesser of the kernel's total loads and stores of a class
``local load 32-bit``, ``local store 32-bit``          accesses of local memory (stores: the paper's future work)
``barriers``                                           barriers per work-item times work-items
``work-groups``, ``launches``                          what launching costs
=====================================================  ======================================================
"""

import re
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any, get_args

from loopyperf.counts.item import LAUNCHES, WORK_GROUPS, Access, Item, Kind, MemorySpace, Operation, Overhead
from loopyperf.counts.stride_classes import STRIDE_CLASSES
from loopyperf.errors import ParameterError

OPERATION_KINDS = frozenset({"add", "mul", "div", "pow", "special"})
TYPES = ("f32", "f64")
"""the paper's types of arithmetic"""
BITS = (32, 64, 128)
"""the paper's sizes of accesses"""


def property_name(item: Item) -> str | None:
    """Return the property that *item* belongs to; None where the unified model takes it as free."""
    match item:
        case Operation(kind=kind, dtype=dtype):
            return f"{dtype} {kind}" if kind in OPERATION_KINDS and dtype.startswith("f") else None
        case Access(space=MemorySpace.LOCAL):
            return f"local {item.direction} {item.bits}-bit"
        case Access():
            return f"global {item.direction} {_size_and_stride(item)}"
        case Overhead():
            return item.kind


_OPERATION = re.compile(r"(?P<dtype>[fiu]\d+) (?P<kind>\S+)")
_LOCAL = re.compile(r"local (?P<direction>load|store) (?P<bits>\d+)-bit")
_GLOBAL = re.compile(r"global (?P<direction>load|store) (?P<bits>\d+)-bit stride (?P<stride>\S+)")


def item_named(name: object) -> Item:
    """Return the item that counts as the property *name*; raises :class:`ParameterError` for an unknown one."""
    if not isinstance(name, str):
        raise ParameterError(f"a property is named by a string, received {name!r}; e.g. 'f32 add'")
    found: Any
    if (found := _OPERATION.fullmatch(name)) and found["kind"] in get_args(Kind):
        return Operation(found["kind"], found["dtype"])
    if found := _LOCAL.fullmatch(name):
        return Access(found["direction"], MemorySpace.LOCAL, int(found["bits"]), "")
    if (found := _GLOBAL.fullmatch(name)) and found["stride"] in STRIDE_CLASSES:
        return Access(found["direction"], MemorySpace.GLOBAL, int(found["bits"]), found["stride"])
    raise ParameterError(
        f"no property {name!r} that code can have; e.g. 'f32 add', 'global load 32-bit stride 1', 'local store 64-bit'"
    )


BYTES_OF_AN_OPERATION = 32
"""bytes moved that are as much work as one operation"""


def work_of_one(name: str) -> float:
    """Return how much work one count of the property *name* is, in operations: 1, or bytes moved / 32.

    Minima of loads and stores, barriers, groups and launches are no work of their own.
    """
    if _OPERATION.fullmatch(name):
        return 1.0
    access = _LOCAL.fullmatch(name) or _GLOBAL.fullmatch(name)
    return int(access["bits"]) / 8 / BYTES_OF_AN_OPERATION if access else 0.0


def minimum_name(item: Item) -> str | None:
    """Return the name of the minimum of loads and stores that a global load takes part in, otherwise None."""
    if isinstance(item, Access) and item.space == MemorySpace.GLOBAL and item.direction == "load":
        return f"global min(load, store) {_size_and_stride(item)}"
    return None


def matching_store(item: Access) -> Access:
    """Return the store of the same size and stride class as the load *item*."""
    return Access("store", item.space, item.bits, item.stride)


def _size_and_stride(item: Access) -> str:
    return f"{item.bits}-bit stride {item.stride}"


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
"""every property of the paper's section 2; its local loads by size as well, and local stores, its future work"""


# {{{ what counts cost at prices by property


class Pricing:
    """Prices in the order of a kernel's counts by source; counts of properties without a price are left out."""

    __slots__ = ("minima", "prices", "sums", "unpriced", "work")

    def __init__(
        self, names: Sequence[str], minima: Mapping[str, tuple[str, str]], prices: Mapping[str, float]
    ) -> None:
        """Price counts of the properties *names*, and *minima* of two such properties each."""
        self.prices = prices
        self.sums = [(prices[name], place) for place, name in enumerate(names) if name in prices]
        places = {
            side: [at for at, name in enumerate(names) if name == side] for pair in minima.values() for side in pair
        }
        self.minima = [
            (prices[name], places[left], places[right]) for name, (left, right) in minima.items() if name in prices
        ]

        self.work = [work_of_one(name) for name in names]
        self.unpriced = [(work, at) for at, work in enumerate(self.work) if work and names[at] not in prices]

    def share_unpriced(self, counts: Sequence[int]) -> float:
        """Return the share, from 0 to 1, of the work of *counts* that is of properties without a price."""
        if not self.unpriced:
            return 0.0
        return sum(work * counts[at] for work, at in self.unpriced) / max(sum(map(mul, self.work, counts)), 1.0)

    def costs(self, counts: Sequence[int]) -> list[float]:
        """Return price · count of each of *counts*; of a minimum, of those that are fewer together."""
        found = [price * counts[place] for price, place in self.sums]
        for price, left, right in self.minima:
            first, second = [counts[place] for place in left], [counts[place] for place in right]
            found += [price * count for count in (first if sum(first) <= sum(second) else second)]
        return found


# }}}
