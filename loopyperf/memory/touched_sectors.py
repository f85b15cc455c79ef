"""Sectors and lines that parts of an array touch: boxes in closed form; unions, triangles and every k-th cell.

Cells are counted in their bounding box, scaled by the share of it that they fill. This is accurate for long contiguous
rows, such as those of a triangle, and for cells that fill nearly all of the box, such as those of a stencil. For cells
that are apart, such as a diagonal, or some members of records (x and y of (x, y, z, t)), sectors are counted this way
instead of cells.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, prod
from typing import NamedTuple

import islpy as isl
import numpy as np
from numpy.typing import NDArray

from loopyperf.memory.sectors import LINE, SECTOR, touched_blocks
from loopyperf.polyhedral.points import Points, contained, values_along_each
from loopyperf.polyhedral.quasipolynomial import number_of_points
from loopyperf.polyhedral.sets import factors

# {{{ sectors and lines of a part of an array: in closed form for all sizes
#
# The part is a box of elements: along each axis a number of equally spaced ones. Contiguous elements form runs of
# memory, and the runs are apart from each other.


@dataclass(frozen=True, slots=True)
class Touched:
    """The touched part of an array."""

    sectors: Fraction = Fraction(0)
    """touched sectors of 32 bytes"""
    lines: Fraction = Fraction(0)
    """touched lines of 128 bytes"""

    def times(self, number: int | Fraction) -> "Touched":
        """Return *number* times as much."""
        return Touched(self.sectors * number, self.lines * number)

    def __add__(self, other: "Touched") -> "Touched":
        return Touched(self.sectors + other.sectors, self.lines + other.lines)

    def __sub__(self, other: "Touched") -> "Touched":
        return Touched(self.sectors - other.sectors, self.lines - other.lines)

    def at_least(self, other: "Touched") -> "Touched":
        """Return the larger of the two, in sectors and in lines."""
        return Touched(max(self.sectors, other.sectors), max(self.lines, other.lines))

    def at_most(self, other: "Touched") -> "Touched":
        """Return the smaller of the two, in sectors and in lines."""
        return Touched(min(self.sectors, other.sectors), min(self.lines, other.lines))


ByArray = Mapping[str, Touched]
"""array -> touched part"""


def times(parts: ByArray, number: int | Fraction) -> ByArray:
    """Return *number* times as much of each array."""
    return {array: part.times(number) for array, part in parts.items()}


def total_cells(parts: Iterable[ByArray]) -> ByArray:
    """Return the sum of *parts* for each array."""
    found: dict[str, Touched] = {}
    for part in parts:
        for array, each in part.items():
            found[array] = found.get(array, Touched()) + each
    return found


def at_least(fetched: ByArray, touched: ByArray) -> ByArray:
    """Return *fetched*, for each array at least *touched*."""
    return {array: fetched.get(array, Touched()).at_least(amount) for array, amount in touched.items()}


def at_most(parts: ByArray, touched: ByArray) -> ByArray:
    """Return *parts*, for each array at most *touched*."""
    return {array: part.at_most(touched[array]) for array, part in parts.items()}


def touched(first: int, axes: Sequence[tuple[int, int]], width: int) -> Touched:
    """Return the sectors and lines that a box of elements of *width* bytes touches, the lowest one at byte *first*.

    *axes* has the distance of neighbors in bytes and their number for each axis. The result is exact if runs do not
    overlap and start either at all offsets of a line equally often, or all at the same one.
    """
    return Touched(_blocks(first, axes, width, SECTOR), _blocks(first, axes, width, LINE))


def _blocks(first: int, axes: Sequence[tuple[int, int]], width: int, block: int) -> Fraction:
    """Return the number of touched aligned blocks of *block* bytes."""
    run, runs, apart, end = width, 1, block, width
    for distance, number in sorted((abs(distance), number) for distance, number in axes if number > 1):
        if runs == 1 and distance < run + block:  # no block between two of them is skipped
            run += (number - 1) * distance
        elif distance:
            runs *= number
            apart = gcd(apart, distance)
        end += (number - 1) * distance
    within = Fraction(first % block + end + block - 1, block)  # the runs may overlap
    return min(runs * _mean(first, run, apart, block), Fraction(int(within)))


def _mean(first: int, run: int, apart: int, block: int) -> Fraction:
    """Return the mean number of blocks touched by a *run* of bytes that starts at *first* plus multiples of *apart*."""
    starts = range(first % apart, block, apart)
    return Fraction(sum(-(-(start + run) // block) for start in starts), len(starts))


def mean_blocks(offsets: NDArray[np.int64], width: int, apart: int, block: int) -> Fraction:
    """Return the mean number of blocks of *block* bytes that elements at byte *offsets* from some start touch.

    Elements have *width* bytes. Starts are at all multiples of *apart* equally often.
    """
    starts = range(0, block, gcd(apart, block))
    return Fraction(sum(touched_blocks(offsets + start, width, block) for start in starts), len(starts))


# }}}


# {{{ cells


SET = isl.dim_type.set
DIV = isl.dim_type.div
NEARLY_ALL = Fraction(9, 10)
"""share of a box from which on its cells count as contiguous"""
LONG = 4
"""blocks; in longer rows, partly touched blocks at the ends are negligible"""
TESTED_CELLS = 10**5
"""elements of a box up to which cells are tested one by one instead of counted with formulas, for a union of sets"""
TESTED_CELLS_OF_ONE = 2**15
"""the same limit for a single conjunction"""


class _Box(NamedTuple):
    """The strided bounding box of some cells."""

    whole: Touched
    """sectors and lines of the whole box"""
    values: Sequence[range]
    """values along each axis"""
    cells: int
    """number of cells in the box"""

    @property
    def elements(self) -> int:
        return prod(map(len, self.values))

    @property
    def filled(self) -> Fraction:
        return min(Fraction(self.cells, self.elements), Fraction(1))

    @property
    def thinned(self) -> Touched:
        return self.whole.times(self.filled)


def touched_by(cells: isl.Set, axes: Sequence[int], width: int) -> Touched:
    """Return the sectors and lines touched by *cells*: elements of *width* bytes, at distances *axes* in bytes."""
    if cells.is_empty():
        return Touched()
    all_cells = _Cells(cells)
    box = _box(all_cells, axes, width)
    if box.filled >= NEARLY_ALL:
        return box.thinned
    sectors, lines = (_by_blocks(all_cells, axes, box, size) for size in (SECTOR, LINE))
    return Touched(sectors.sectors, lines.lines)


def _box(cells: "_Cells", axes: Sequence[int], width: int) -> _Box:
    values = cells.values
    first = sum(
        distance * (along[0] if distance > 0 else along[-1]) for distance, along in zip(axes, values, strict=True)
    )
    steps = [(distance * along.step, len(along)) for distance, along in zip(axes, values, strict=True)]
    return _Box(touched(first, steps, width), values, cells.number)


def _by_blocks(cells: "_Cells", axes: Sequence[int], box: _Box, size: int) -> Touched:
    """Return the sectors and lines of the blocks of *size* bytes that contain *cells*, which are in *box*."""
    within = [place for place, distance in enumerate(axes) if 0 < abs(distance) < size]
    nearest = min(within, key=lambda place: abs(axes[place]), default=None)
    if nearest is None or _are_rows(cells, nearest, LONG * size / abs(axes[nearest]), box):
        return box.thinned
    apart = [size if place == nearest else distance for place, distance in enumerate(axes)]
    return _box(cells.blocks(nearest, axes[nearest], size), apart, size).thinned


def _are_rows(cells: "_Cells", place: int, length: float, box: _Box) -> bool:
    """Return whether *cells* are rows without holes along axis *place*, with a mean length of at least *length*."""
    return not cells.have_holes(place) and box.cells >= length * cells.without(place).number


class _Cells:
    """Cells as an isl set."""

    def __init__(self, cells: isl.Set) -> None:
        self._cells, self._without = cells, dict[int, _Cells]()

    @cached_property
    def values(self) -> Sequence[range]:
        """Return the equally spaced values along each axis."""
        return Points(self._cells).box or values_along_each(self._cells)

    @cached_property
    def number(self) -> int:
        """Return the number of cells."""
        cells, elements = self._cells, prod(map(len, self.values))
        if cells.is_box():
            return elements
        if cells.n_basic_set() == 1 and self.values:
            (part,) = cells.detect_equalities().get_basic_sets()  # without redundant divisions
            return prod(_number_along(axes, isl.Set.from_basic_set(each), self.values) for axes, each in factors(part))
        return number_of_points(cells) if elements > TESTED_CELLS or not self.values else _number_in(cells, self.values)

    def have_holes(self, place: int) -> bool:
        """Return whether cells may be strided along an axis, or all leave out a part of the axis at *place*."""
        if any(part.dim(DIV) for part in self._cells.get_basic_sets()):
            return True
        along = self._cells.project_out(SET, place + 1, self._cells.dim(SET) - place - 1).project_out(SET, 0, place)
        return along.coalesce().n_basic_set() > 1

    def without(self, place: int) -> "_Cells":
        """Return the cells projected along the axis at *place*."""
        if place not in self._without:
            self._without[place] = _Cells(self._cells.project_out(SET, place, 1))
        return self._without[place]

    def blocks(self, place: int, distance: int, size: int) -> "_Cells":
        """Return the blocks of *size* bytes in which cells start; *distance* is between cells along axis *place*."""
        names = [f"i{number}" for number in range(self._cells.dim(SET))]
        blocks = [*names]
        blocks[place] = f"floor(({distance}*{names[place]})/{size})"
        to_blocks = isl.Map(f"{{[{', '.join(names)}] -> [{', '.join(blocks)}]}}", context=self._cells.get_ctx())
        return _Cells(self._cells.apply(to_blocks))


def _number_along(axes: Sequence[int], cells: isl.Set, values: Sequence[range]) -> int:
    """Return the number of *cells*: a conjunction over *axes*, which have *values*."""
    if cells.is_box():
        return prod(len(values[axis]) for axis in axes)
    own = [values[axis] for axis in axes]
    return _number_in(cells, own) if prod(map(len, own)) <= TESTED_CELLS_OF_ONE else number_of_points(cells)


def _number_in(cells: isl.Set, values: Sequence[range]) -> int:
    """Return the number of *cells*, whose axes have *values*."""
    return int(contained(cells, np.meshgrid(*values, indexing="ij", sparse=True)).sum())


# }}}
