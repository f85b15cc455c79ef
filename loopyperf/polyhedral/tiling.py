"""Tiled loops as the loops that they were before.

The points of a tiled loop, ``0 <= inner < 16`` of ``outer``, are as many as those of ``16*outer + inner``: the pair
numbers them one to one. Joined, the domain is simpler. A tiled triangle, say, is a triangle again, and its count
n²/2 + n/2 where Barvinok's algorithm would give the two loops a polynomial in floors of n/16.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import islpy as isl

SET = isl.dim_type.set
DIV = isl.dim_type.div


@dataclass(frozen=True, slots=True)
class _Tile:
    """Two dimensions that some constraint uses as width·outer + inner."""

    outer: int
    inner: int
    width: int


def without_tiles(points: isl.Set) -> isl.Set:
    """Return a set of as many points as *points*, in which inner and outer variables of tiles are joined.

    A tile of which only some elements are there would leave a set with holes, and is left as it is.
    """
    for tile in _tiles(points):
        if _fits(points, tile):
            joined = points.apply(_joining(points.dim(SET), tile)).coalesce()
            if _existentials(joined) <= _existentials(points):
                return without_tiles(joined)
    return points


def _tiles(points: isl.Set) -> list[_Tile]:
    """Return what may be tiles of *points*, narrow ones first: of tiles of tiles, the inner ones."""
    constraints = (constraint for basic in points.get_basic_sets() for constraint in basic.get_constraints())
    found = dict.fromkeys(tile for constraint in constraints for tile in _proportions(_coefficients(constraint)))
    return sorted(found, key=lambda tile: tile.width)


def _coefficients(constraint: isl.Constraint) -> dict[int, int]:
    """Return the coefficients of the dimensions that *constraint* involves."""
    values = ((dim, constraint.get_coefficient_val(SET, dim)) for dim in range(constraint.dim(SET)))
    return {dim: value.to_python() for dim, value in values if not value.is_zero()}


def _proportions(coefficients: Mapping[int, int]) -> Iterator[_Tile]:
    """Yield the pairs of dimensions whose coefficients have an integer ratio above one."""
    for outer, inner in ((outer, inner) for outer in coefficients for inner in coefficients):
        width, rest = divmod(coefficients[outer], coefficients[inner])
        if width > 1 and not rest:
            yield _Tile(outer, inner, width)


def _fits(points: isl.Set, tile: _Tile) -> bool:
    """Return whether 0 <= inner < width, so that width·outer + inner tells all points apart."""
    least, most = points.dim_min_val(tile.inner), points.dim_max_val(tile.inner)
    return least.is_nonneg() and most.is_int() and most.to_python() < tile.width


@cache
def _joining(dims: int, tile: _Tile) -> isl.Map:
    """Return the map to width·outer + inner in the place of outer, without inner."""
    joined = {tile.outer: f"{tile.width}*x{tile.outer} + x{tile.inner}"}
    before = ", ".join(f"x{dim}" for dim in range(dims))
    after = ", ".join(joined.get(dim, f"x{dim}") for dim in range(dims) if dim != tile.inner)
    return isl.Map(f"{{ [{before}] -> [{after}] }}")


def _existentials(points: isl.Set) -> int:
    return sum(basic.dim(DIV) for basic in points.get_basic_sets())
