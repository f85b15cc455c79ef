"""How many sectors and lines the cells of an array touch that are no box: unions of several, triangles, every k-th.

Cells are counted in the box that holds them, thinned out by how much of it they fill: where they lie together, as those
of a triangle or of a stencil do, they fill as much of its sectors. Where they lie apart from each other within sectors,
as the members of records that are looked at, x and y of (x, y, z, t), the sectors themselves are counted in that way.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import prod

import islpy as isl

from loopyperf.counts.quasipolynomial import number_of_points
from loopyperf.idg.access.blocks import Touched, touched
from loopyperf.idg.access.sectors import LINE, SECTOR


def touched_by(cells: isl.Set, axes: Sequence[int], width: int) -> Touched:
    """Return the sectors and lines that *cells* lie in: elements of *width* bytes, so many bytes apart along *axes*."""
    if cells.is_empty():
        return Touched()
    box, filled = _in_box(cells, axes, width)
    if filled == 1:
        return box
    thinned = box.times(filled)
    sectors, lines = (_by_blocks(cells, axes, size) or thinned for size in (SECTOR, LINE))
    return Touched(sectors.sectors, lines.lines)


def _in_box(cells: isl.Set, axes: Sequence[int], width: int) -> tuple[Touched, Fraction]:
    """Return what the box touches that holds *cells*, with their strides, and the part of it that they fill."""
    first, steps = 0, list[tuple[int, int]]()
    for place, distance in enumerate(axes):
        least, most = cells.dim_min_val(place).to_python(), cells.dim_max_val(place).to_python()
        step = max(1, cells.get_stride(place).to_python())
        first += distance * (least if distance > 0 else most)
        steps.append((distance * step, (most - least) // step + 1))
    box = touched(first, steps, width)
    if cells.is_box():
        return box, Fraction(1)
    return box, min(Fraction(number_of_points(cells), prod(number for _, number in steps)), Fraction(1))


def _by_blocks(cells: isl.Set, axes: Sequence[int], size: int) -> Touched | None:
    """Return what the blocks of *size* bytes touch that *cells* lie in; None where they fill these."""
    within = [place for place, distance in enumerate(axes) if 0 < abs(distance) < size]
    nearest = min(within, key=lambda place: abs(axes[place]), default=None)
    if nearest is None:
        return None
    parts = map(isl.Set.from_basic_set, cells.get_basic_sets())
    if all(_run(part, nearest) * abs(axes[nearest]) >= size for part in parts):
        return None
    names = [f"i{number}" for number in range(len(axes))]
    blocks = [
        f"floor(({axes[nearest]}*{each})/{size})" if place == nearest else each for place, each in enumerate(names)
    ]
    to_blocks = isl.Map(f"{{[{', '.join(names)}] -> [{', '.join(blocks)}]}}", context=cells.get_ctx())
    apart = [size if place == nearest else distance for place, distance in enumerate(axes)]
    box, filled = _in_box(cells.apply(to_blocks), apart, size)
    return box.times(filled)


def _run(cells: isl.Set, place: int) -> int:
    """Return how many of *cells* lie one after the other along the axis at *place*: 1 where others are between them."""
    if cells.get_stride(place).to_python() != 1:
        return 1
    return cells.dim_max_val(place).to_python() - cells.dim_min_val(place).to_python() + 1
