"""Which groups a sample is: a part of the grid that begins where the grid does, so many times Psat in size.

A device launches boxes, so that the first groups in their order, the first axis fastest, are a box only where they end
with a row. Where the longest sample is no longer than a row, samples are the beginning of a row. Otherwise rows are
shortened so that Psat is a whole number of them, as nearly as can be,

    rows = ⌈Psat / length of the grid⌉,    length = ⌊Psat / rows⌋

and a sample of m·Psat is m times so many rows, of which the same holds along the next axis. So samples are parts of one
another, and less than Psat by less than a group for each row.
"""

from collections.abc import Sequence
from math import prod

Grid = tuple[int, ...]
"""groups along each axis"""


def sub_grids(grid: Grid, saturation: int, multiples: Sequence[int]) -> tuple[Grid, ...] | None:
    """Return the parts of *grid* that are as many times *saturation* as *multiples* say, which increase.

    None where the grid has no such parts: the last would be all of it or more, or an axis is too short.
    """
    cut = tuple(_cut(grid, saturation, multiple, multiples[-1]) for multiple in multiples)
    fits = all(part <= whole for part, whole in zip(cut[-1], grid, strict=True))
    return cut if fits and prod(cut[-1]) < prod(grid) else None


def _cut(grid: Grid, saturation: int, multiple: int, most: int) -> Grid:
    length, further = grid[0], grid[1:]
    if most * saturation <= length or prod(further) == 1:
        return (multiple * saturation, *(1 for _ in further))
    rows = -(-saturation // length)
    return (saturation // rows, *_cut(further, rows, multiple, most))
