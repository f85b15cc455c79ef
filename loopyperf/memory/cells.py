"""How many sectors and lines parts of an array touch: blocks in closed form; unions, triangles and every k-th cell.

Cells are counted in the box that holds them, thinned out by how much of it they fill: where they lie together in long
rows, as those of a triangle do, or fill nearly all of it, as those of a stencil, they fill as much of its sectors.
Where they lie apart, as a diagonal does, or the members of records that are looked at, x and y of (x, y, z, t), the
sectors themselves are counted in that way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, prod
from typing import NamedTuple

import islpy as isl
import numpy as np

from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.polyhedral.points import Box, contained, values_along_each
from loopyperf.polyhedral.quasipolynomial import number_of_points

# {{{ how many sectors and lines a part of an array touches: in closed form, whatever its size
#
# The part is a box of elements: along each axis so many of them, equally far apart. Elements that lie together make
# runs of memory, and the runs lie apart from each other.


@dataclass(frozen=True, slots=True)
class Touched:
    """What is touched of an array."""

    sectors: Fraction = Fraction(0)
    """of 32 bytes"""
    lines: Fraction = Fraction(0)
    """of 128 bytes"""

    def times(self, number: int | Fraction) -> "Touched":
        """Return so many times as much."""
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
"""array -> what is touched of it"""


def times(parts: ByArray, number: int | Fraction) -> ByArray:
    """Return so many times as much of each array."""
    return {array: each.times(number) for array, each in parts.items()}


def total(parts: Iterable[ByArray]) -> ByArray:
    """Return what *parts* are together."""
    found: dict[str, Touched] = {}
    for part in parts:
        for array, each in part.items():
            found[array] = found.get(array, Touched()) + each
    return found


def at_least(fetched: ByArray, touched: ByArray) -> ByArray:
    """Return *fetched*, of each array no less than what is *touched* of it."""
    return {array: fetched.get(array, Touched()).at_least(each) for array, each in touched.items()}


def at_most(parts: ByArray, touched: ByArray) -> ByArray:
    """Return *parts*, of each array no more than what is *touched* of it."""
    return {array: each.at_most(touched[array]) for array, each in parts.items()}


def touched(first: int, axes: Sequence[tuple[int, int]], width: int) -> Touched:
    """Return the sectors and lines that a box of elements touches, of which the lowest begins at byte *first*.

    *axes* has for each axis the distance of neighbours, in bytes, and how many there are; an element has *width* bytes.
    It is exact where runs begin at all places of a line equally often, or all at the same one, and do not overlap.
    """
    return Touched(_blocks(first, axes, width, SECTOR), _blocks(first, axes, width, LINE))


def _blocks(first: int, axes: Sequence[tuple[int, int]], width: int, block: int) -> Fraction:
    """Return how many aligned blocks of *block* bytes are touched."""
    run, runs, apart, end = width, 1, block, width
    for distance, number in sorted((abs(distance), number) for distance, number in axes if number > 1):
        if runs == 1 and distance < run + block:  # no block between two of them is left out
            run += (number - 1) * distance
        elif distance:
            runs *= number
            apart = gcd(apart, distance)
        end += (number - 1) * distance
    within = Fraction(first % block + end + block - 1, block)  # the runs may overlap
    return min(runs * _mean(first, run, apart, block), Fraction(int(within)))


def _mean(first: int, run: int, apart: int, block: int) -> Fraction:
    """Return how many blocks a *run* of bytes touches on average that begins at *first* plus multiples of *apart*."""
    starts = range(first % apart, block, apart)
    return Fraction(sum(-(-(start + run) // block) for start in starts), len(starts))


# }}}


# {{{ cells


SET = isl.dim_type.set
DIV = isl.dim_type.div
NEARLY_ALL = Fraction(9, 10)
"""of a box: cells that fill as much of it lie together"""
LONG = 4
"""blocks: of rows that are longer, what is touched at their ends does not count for much"""
FEW = 10**5
"""elements of a box that are looked at one by one, rather than to count a union of sets by formulas"""


class _Box(NamedTuple):
    """The box that holds some cells, with their strides."""

    whole: Touched
    """what all of it touches"""
    values: Sequence[range]
    """along each axis"""
    cells: int
    """that there are in it"""

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
    """Return the sectors and lines that *cells* lie in: elements of *width* bytes, so many bytes apart along *axes*."""
    if cells.is_empty():
        return Touched()
    box = _box(cells, axes, width)
    if box.filled >= NEARLY_ALL:
        return box.thinned
    sectors, lines = (_by_blocks(cells, axes, box, size) for size in (SECTOR, LINE))
    return Touched(sectors.sectors, lines.lines)


def _touched_by_box(values: Sequence[range], axes: Sequence[int], width: int) -> Touched:
    """Return what all elements with these *values* along each of *axes* lie in; see :func:`touched_by`."""
    first = sum(
        distance * (along[0] if distance > 0 else along[-1]) for distance, along in zip(axes, values, strict=True)
    )
    steps = [(distance * along.step, len(along)) for distance, along in zip(axes, values, strict=True)]
    return touched(first, steps, width)


def touched_by_boxes(boxes: Sequence[Box], axes: Sequence[int], width: int) -> Touched | None:
    """Return what *boxes* of elements touch, as far as they are one box together; None where they are not."""
    whole = _joined(boxes) if boxes else None
    return None if whole is None else _touched_by_box(whole, axes, width)


def _joined(boxes: Sequence[Box]) -> Box | None:
    """Return the box that *boxes* are together, as far as joining one after the other tells."""
    whole, *others = sorted(dict.fromkeys(boxes), key=lambda box: [(along.start, -len(along)) for along in box])
    for other in others:
        apart = [place for place, (one, two) in enumerate(zip(whole, other, strict=True)) if one != two]
        if all(_is_inside(other[place], whole[place]) for place in apart):
            continue
        one, two = whole[apart[0]], other[apart[0]]
        if len(apart) > 1 or one.step != 1 or two.step != 1 or two.start > one.stop or one.start > two.stop:
            return None
        both = range(min(one.start, two.start), max(one.stop, two.stop))
        whole = tuple(both if place == apart[0] else along for place, along in enumerate(whole))
    return whole


def _is_inside(inner: range, outer: range) -> bool:
    return inner.step == outer.step and inner[0] in outer and inner[-1] in outer


def _box(cells: isl.Set, axes: Sequence[int], width: int) -> _Box:
    values = values_along_each(cells)
    return _Box(_touched_by_box(values, axes, width), values, _number(cells, values))


def _number(cells: isl.Set, values: Sequence[range]) -> int:
    """Return how many *cells* there are in a box of *values* along each axis."""
    elements = prod(map(len, values))
    if cells.is_box():
        return elements
    if cells.n_basic_set() == 1 or elements > FEW or not values:
        return number_of_points(cells)
    return int(contained(cells, np.meshgrid(*values, indexing="ij", sparse=True)).sum())


def _by_blocks(cells: isl.Set, axes: Sequence[int], box: _Box, size: int) -> Touched:
    """Return what the blocks of *size* bytes touch that *cells* lie in, which are in *box*."""
    within = [place for place, distance in enumerate(axes) if 0 < abs(distance) < size]
    nearest = min(within, key=lambda place: abs(axes[place]), default=None)
    if nearest is None or _are_rows(cells, nearest, LONG * size / abs(axes[nearest]), box):
        return box.thinned
    names = [f"i{number}" for number in range(len(axes))]
    blocks = [*names]
    blocks[nearest] = f"floor(({axes[nearest]}*{names[nearest]})/{size})"
    to_blocks = isl.Map(f"{{[{', '.join(names)}] -> [{', '.join(blocks)}]}}", context=cells.get_ctx())
    apart = [size if place == nearest else distance for place, distance in enumerate(axes)]
    return _box(cells.apply(to_blocks), apart, size).thinned


def _are_rows(cells: isl.Set, place: int, length: float, box: _Box) -> bool:
    """Return whether *cells* are rows without holes along the axis at *place*, at least of that *length* on average."""
    if any(part.dim(DIV) for part in cells.get_basic_sets()):
        return False
    others = [values for other, values in enumerate(box.values) if other != place]
    return box.cells >= length * _number(cells.project_out(SET, place, 1), others)


# }}}
