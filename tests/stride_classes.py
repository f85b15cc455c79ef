"""The amortized stride fraction of an access, computed from its addresses (Stevens and Klöckner, section 2.1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

UNSEEN = "unseen"
"""the class of accesses that are not executed at the class sizes, or only in lanes without neighbors"""
EDGE = Fraction(1, 64)
"""of a half, third or quarter: a larger excess over a multiple of it raises the class"""


FAR_ENOUGH = 5
"""elements; larger gaps between lanes count as this many, because the highest class is a stride of more than 4"""


@dataclass(frozen=True)
class Access:
    """Loads or stores of one expression at all points."""

    direction: str
    array: str
    bits: int
    axes: np.ndarray
    """contribution of each axis of the array to the address at each point, in elements"""
    lanes: "Lanes | UnevenLanes"

    @property
    def addresses(self) -> np.ndarray:
        """Return the address at each point, in elements."""
        return self.axes.sum(axis=0)


@dataclass(frozen=True)
class Lanes:
    """Change of the address from one work-item to the next, in elements."""

    stride: int
    steps: tuple[int, ...]
    """along each axis"""
    row: int
    """memory stride of the axis with the largest change in memory"""
    block: int
    """change from one lane to the next along this axis alone; a multiple of *row*"""


@dataclass(frozen=True)
class UnevenLanes:
    """Addresses of lanes that are not equally spaced, in several iterations of the other loops."""

    passes: tuple[np.ndarray, ...]


def needs_points(access: Access) -> bool:
    """Return whether the class of *access* depends on more than one point."""
    return isinstance(access.lanes, UnevenLanes) or access.lanes.stride > 1


def _class_of_uneven(lanes: UnevenLanes, cells: np.ndarray) -> str:
    """Return the class by the span of the lanes, with gaps shortened, and the share of touched cells between them.

    The span is the median over the iterations that have all lanes. Lanes that a condition excludes still count as
    neighbors of the others.
    """
    if not lanes.passes:
        return UNSEEN
    most = max(map(len, lanes.passes))
    full = sorted((_span(lanes), lanes.tolist()) for lanes in lanes.passes if len(lanes) == most)
    span, typical = full[(len(full) - 1) // 2]
    stride = -(-span // max(most - 1, 1))
    if stride <= 1:
        return str(stride)
    first, last = min(typical), max(typical)
    touched = np.union1d(cells, typical)
    return _share(Fraction(int(((touched >= first) & (touched < last)).sum()), last - first), stride)


def _span(addresses: np.ndarray) -> int:
    return int(np.minimum(np.diff(np.unique(addresses)), FAR_ENOUGH).sum())


def _share(density: Fraction, stride: int) -> str:
    parts = min(stride, 4)
    share = min(max(math.ceil(density * parts - EDGE), 1), parts)
    return f"{share}/{stride if stride <= 4 else '>4'}"


def stride_class(access: Access, cells: Mapping[str, np.ndarray], is_only_size: bool) -> str:
    """Return the class by the share of touched cells between the row of each lane and that of the next one.

    If no lane has a neighbor, lanes may have one at other sizes, unless *is_only_size*.
    """
    if isinstance(access.lanes, UnevenLanes):
        return _class_of_uneven(access.lanes, cells[access.array])
    stride = access.lanes.stride
    if stride <= 1:
        return str(stride)
    if not len(access.addresses):
        return UNSEEN
    with_neighbor = access.addresses[_have_neighbors(access)]
    if not len(with_neighbor) and (len(access.axes) > 2 or not is_only_size):
        return UNSEEN  # the neighbor of a row's last lane would be outside the row
    lanes = np.unique(with_neighbor if len(with_neighbor) else access.addresses)
    starts = np.unique(lanes // access.lanes.row * access.lanes.row)
    between = int(np.minimum(np.diff(starts), access.lanes.block).sum()) + access.lanes.block
    last_start = np.searchsorted(starts, cells[access.array], side="right") - 1
    into = cells[access.array] - starts[last_start]
    density = Fraction(int(((last_start >= 0) & (into < access.lanes.block)).sum()), between)
    return _share(density, stride)


def _have_neighbors(access: Access) -> np.ndarray:
    """Return which addresses have a neighboring lane one step further along the axes; the end of a row has none."""
    places = np.zeros(len(access.addresses), int)
    step = 0
    for axis, moved in zip(access.axes, access.lanes.steps, strict=True):
        length = int(axis.max() - axis.min()) + 2 * abs(moved) + 1
        places = places * length + axis - axis.min() + abs(moved)
        step = step * length + moved
    upward = step if sum(access.lanes.steps) > 0 else -step
    return np.isin(places + upward, places)
