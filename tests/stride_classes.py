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


FAR_ENOUGH = 5
"""elements: a gap between lanes that is as wide as that is no wider for memory; the highest class is more than 4"""


@dataclass(frozen=True)
class Access:
    """Loads or stores that one expression does, at all points."""

    direction: str
    array: str
    bits: int
    axes: np.ndarray
    """what each axis of the array adds to the address in elements, at each point"""
    lanes: "Lanes | UnevenLanes"

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


@dataclass(frozen=True)
class UnevenLanes:
    """Lanes that are not all equally far apart, by their addresses in several passes of the other loops."""

    passes: tuple[np.ndarray, ...]


def needs_points(access: Access) -> bool:
    """Return whether more than one point has to be seen to tell the class of *access*."""
    return isinstance(access.lanes, UnevenLanes) or access.lanes.stride > 1


def _class_of_uneven(lanes: UnevenLanes, cells: np.ndarray) -> str:
    """How many cells is the reach of the lanes, gaps cut short, and what share of those between them is touched?

    Half of the passes that have all lanes reach as far as the one that is looked at, or less far. A condition may leave
    some of its lanes out; they are taken as neighbours of the others all the same.
    """
    if not lanes.passes:
        return UNSEEN
    most = max(map(len, lanes.passes))
    full = sorted((_reach(lanes), lanes.tolist()) for lanes in lanes.passes if len(lanes) == most)
    reach, typical = full[(len(full) - 1) // 2]
    stride = -(-reach // max(most - 1, 1))
    if stride <= 1:
        return str(stride)
    first, last = min(typical), max(typical)
    touched = np.union1d(cells, typical)
    return _share(Fraction(int(((touched >= first) & (touched < last)).sum()), last - first), stride)


def _reach(addresses: np.ndarray) -> int:
    return int(np.minimum(np.diff(np.unique(addresses)), FAR_ENOUGH).sum())


def _share(density: Fraction, stride: int) -> str:
    parts = min(stride, 4)
    share = min(max(math.ceil(density * parts - EDGE), 1), parts)
    return f"{share}/{stride if stride <= 4 else '>4'}"


def stride_class(access: Access, cells: Mapping[str, np.ndarray], is_only_size: bool) -> str:
    """Of the cells from the row of each lane to that of the next one, how many are touched?

    Where no lane has a neighbour, lanes may have one at other sizes, unless these are the only large ones.
    """
    if isinstance(access.lanes, UnevenLanes):
        return _class_of_uneven(access.lanes, cells[access.array])
    stride = access.lanes.stride
    if stride <= 1:
        return str(stride)
    if not len(access.addresses):
        return UNSEEN
    neighboured = access.addresses[_have_neighbours(access)]
    if not len(neighboured) and (len(access.axes) > 2 or not is_only_size):
        return UNSEEN  # the neighbour of a row's last lane would be in no row
    lanes = np.unique(neighboured if len(neighboured) else access.addresses)
    starts = np.unique(lanes // access.lanes.row * access.lanes.row)
    between = int(np.minimum(np.diff(starts), access.lanes.block).sum()) + access.lanes.block
    last_start = np.searchsorted(starts, cells[access.array], side="right") - 1
    into = cells[access.array] - starts[last_start]
    density = Fraction(int(((last_start >= 0) & (into < access.lanes.block)).sum()), between)
    return _share(density, stride)


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
