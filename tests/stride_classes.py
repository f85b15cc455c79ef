"""The amortized stride fraction of an access, seen on the addresses themselves (Stevens and Klöckner, section 2.1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

UNSEEN = "unseen"
"""the class of what does not happen at the sizes at which classes are taken, or only in lone lanes"""
EDGE = Fraction(1, 64)
"""of a half, third or quarter: what is more than that tips a class"""


@dataclass(frozen=True)
class Access:
    """Loads or stores that one expression does, at all points."""

    direction: str
    array: str
    bits: int
    axes: np.ndarray
    """what each axis of the array adds to the address in elements, at each point"""
    lanes: "Lanes"

    @property
    def addresses(self) -> np.ndarray:
        """Return the address at each point, in elements."""
        return self.axes.sum(axis=0)


@dataclass(frozen=True)
class Lanes:
    """How an access moves from one work-item to the next, in elements."""

    stride: int
    steps: tuple[int, ...]
    """of each axis"""
    row: int
    """along the array's axis that moves most in memory, from one index to the next"""
    block: int
    """from one lane to the next along this axis alone: whole rows"""


def stride_class(access: Access, cells: Mapping[str, np.ndarray]) -> str:
    """Of the cells from the row of each lane to that of the next one, how many are touched?"""
    stride = access.lanes.stride
    if stride <= 1:
        return str(stride)
    if not len(access.addresses):
        return UNSEEN
    parts = min(stride, 4)
    neighboured = access.addresses[_have_neighbours(access)]
    if not len(neighboured) and len(access.axes) > 2:
        return UNSEEN  # the neighbour of a row's last lane would be in no row
    lanes = np.unique(neighboured if len(neighboured) else access.addresses)
    starts = np.unique(lanes // access.lanes.row * access.lanes.row)
    between = int(np.minimum(np.diff(starts), access.lanes.block).sum()) + access.lanes.block
    last_start = np.searchsorted(starts, cells[access.array], side="right") - 1
    into = cells[access.array] - starts[last_start]
    density = Fraction(int(((last_start >= 0) & (into < access.lanes.block)).sum()), between)
    share = min(max(math.ceil(density * parts - EDGE), 1), parts)
    return f"{share}/{stride if stride <= 4 else '>4'}"


def _have_neighbours(access: Access) -> np.ndarray:
    """Return which addresses have a lane that accesses the next one, axis by axis: the end of a row has none."""
    places = np.zeros(len(access.addresses), int)
    step = 0
    for axis, moved in zip(access.axes, access.lanes.steps, strict=True):
        length = int(axis.max() - axis.min()) + 2 * abs(moved) + 1
        places = places * length + axis - axis.min() + abs(moved)
        step = step * length + moved
    upward = step if sum(access.lanes.steps) > 0 else -step
    return np.isin(places + upward, places)
