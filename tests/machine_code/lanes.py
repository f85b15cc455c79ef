"""Values of a warp's lanes: 32 bits in each, known or unknown, and sets of lanes as bits of an integer."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

WIDTH = 32
"""lanes of a warp"""
ALL = (1 << WIDTH) - 1
"""the set of all lanes"""


@dataclass(frozen=True, slots=True)
class Lanes:
    """A 32-bit value in each lane: an array of 32 values, or of one value that all lanes share."""

    values: NDArray[np.uint32]
    known: int = ALL
    """the set of lanes whose value is known; values loaded from memory are not"""

    @property
    def signed(self) -> NDArray[np.int64]:
        """Return the values read as signed, wide enough for a sum not to wrap."""
        return self.values.view(np.int32).astype(np.int64)

    @property
    def unsigned(self) -> NDArray[np.int64]:
        """Return the values read as unsigned, wide enough for a sum not to wrap."""
        return self.values.astype(np.int64)

    @property
    def floats(self) -> NDArray[np.float64]:
        """Return the values read as single-precision numbers, in double precision."""
        return self.values.view(np.float32).astype(np.float64)


def uniform(value: int) -> Lanes:
    """Return *value* in every lane."""
    return Lanes(np.array([value & 0xFFFFFFFF], dtype=np.uint32))


def of_integers(values: NDArray[np.int64], known: int) -> Lanes:
    """Return the lowest 32 bits of *values*."""
    return Lanes((values & 0xFFFFFFFF).astype(np.uint32), known)


ZERO = uniform(0)
UNKNOWN = Lanes(ZERO.values, known=0)


def lane_set(flags: NDArray[np.bool_]) -> int:
    """Return the lanes whose flag is set; a single flag stands for all lanes."""
    if flags.size == 1:
        return ALL if flags[0] else 0
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


@cache
def flags(lanes: int) -> NDArray[np.bool_]:
    """Return an array of 32 flags, set for *lanes*."""
    octets = np.frombuffer(lanes.to_bytes(4, "little"), dtype=np.uint8)
    return np.unpackbits(octets, bitorder="little").astype(bool)


def members(lanes: int) -> list[int]:
    """Return the numbers of *lanes*."""
    return [lane for lane in range(WIDTH) if lanes >> lane & 1]


def merged(before: Lanes, value: Lanes, written: int, certain: int) -> Lanes:
    """Return *value* in the *written* lanes, known only in the *certain* ones, and *before* in the others."""
    if certain == ALL:
        return value
    values = np.where(flags(written), value.values, before.values)
    return Lanes(values, (before.known & ~written) | (value.known & certain))


@dataclass(frozen=True, slots=True)
class Truth:
    """A predicate in each lane: true, false or unknown."""

    true: int
    """the set of lanes where it holds"""
    known: int = ALL
    """the set of lanes where it is known whether it holds"""

    def __invert__(self) -> "Truth":
        """Return the opposite."""
        return Truth(ALL & ~self.true, self.known)

    @property
    def possible(self) -> int:
        """Return the lanes where it holds or may hold."""
        return self.true | (ALL & ~self.known)

    @property
    def certain(self) -> int:
        """Return the lanes where it is known to hold."""
        return self.true & self.known


TRUE = Truth(ALL)
FALSE = Truth(0)
UNSURE = Truth(0, known=0)


def looked_up(table: int, *inputs: Truth) -> Truth:
    """Return entry 4a + 2b + c of *table* for three inputs; known where the unknown inputs do not matter."""
    can_hold = can_fail = 0
    for entry in range(8):
        possible = ALL
        for truth, bit in zip(inputs, (entry & 4, entry & 2, entry & 1), strict=True):
            possible &= truth.possible if bit else (~truth).possible
        if table >> entry & 1:
            can_hold |= possible
        else:
            can_fail |= possible
    return Truth(can_hold, ALL & ~(can_hold & can_fail))
