"""Number of points at each place (value of the first dimensions), by Barvinok's algorithm or by listing points.

Barvinok's algorithm counts for all places at once. If several integer divisions couple places and loops, it takes
minutes for some ten thousand points.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

import islpy as isl

from loopyperf.errors import ENGINE_REMEDY, EngineError
from loopyperf.polyhedral.isl_values import as_int
from loopyperf.polyhedral.points import points_listed, without_dimensions
from loopyperf.polyhedral.quasipolynomial import engine_is_exact

SET = isl.dim_type.set
PARAM = isl.dim_type.param
DIV = isl.dim_type.div
MOST_DIVISIONS = 1
"""maximum number of integer divisions for Barvinok's algorithm, if points can be listed instead"""
LISTED = 4096
"""maximum number of places for listing points; warps with different numbers of executions are compared one by one"""
MOST_POINTS = 2**17
"""maximum number of points at these places for listing"""


class DigitExpansion:
    """The number of points of a bounded set at each value of its first dimensions, by Barvinok's algorithm."""

    def __init__(self, points: isl.Set, dimensions: int) -> None:
        """Count *points* by their first *dimensions* dimensions; raises :class:`EngineError` without barvinok."""
        if not engine_is_exact():
            raise EngineError(f"the installed islpy lacks barvinok, so it cannot count per warp; {ENGINE_REMEDY}")
        apart = points.move_dims(PARAM, 0, SET, 0, dimensions)
        for place in range(dimensions):
            apart = apart.set_dim_name(PARAM, place, f"w{place}")
        self._number = apart.card()

    def pieces(self) -> Iterator[tuple[isl.Set, bool]]:
        """Yield sets of places on which the number is one polynomial, and whether that is constant."""
        for where, number in self._number.get_pieces():
            places = isl.Set.from_params(where.params())
            kinds = [(kind, at) for kind in (PARAM, DIV) for at in range(number.dim(kind))]
            varies = any(term.get_exp(*each) for term in number.get_terms() for each in kinds)
            yield places.move_dims(SET, 0, PARAM, 0, places.dim(PARAM)), not varies

    def depends_on(self, dimension: int) -> bool:
        """Return whether the number depends on the position along *dimension* inside some piece."""
        return any(number.involves_dims(PARAM, dimension, 1) for _, number in self._number.get_pieces())

    def at(self, place: Mapping[int, int]) -> int:
        """Return the number at *place*, which contains at least the dimensions on which it depends."""
        point = isl.Point.zero(self._number.get_domain_space())
        for dimension, value in place.items():
            point = point.set_coordinate_val(PARAM, dimension, isl.Val(value))
        return as_int(self._number.eval(point))


class ListedNumber:
    """The number of points of a bounded set at each value of its first dimensions, by listing the points."""

    def __init__(self, points: isl.Set, dimensions: int) -> None:
        """List *points*, and count them by those of the first *dimensions* dimensions that constraints involve."""
        self._dimensions = dimensions
        self._axes = [axis for axis in range(dimensions) if points.involves_dims(SET, axis, 1)]
        rows = points_listed(without_dimensions(points, [axis for axis in range(dimensions) if axis not in self._axes]))
        places: list[list[int]] = rows[:, : len(self._axes)].tolist()
        self._numbers = Counter(map(tuple, places))

    def pieces(self) -> Iterator[tuple[isl.Set, bool]]:
        """Yield the whole space as one piece on which the number is not constant."""
        yield isl.Set.universe(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, self._dimensions)), False

    def depends_on(self, dimension: int) -> bool:
        """Return whether the number depends on the position along *dimension*."""
        return dimension in self._axes

    def at(self, place: Mapping[int, int]) -> int:
        """Return the number at *place*, which contains at least the dimensions on which it depends."""
        return self._numbers[tuple(place[axis] for axis in self._axes)]


def number_by_place(points: isl.Set, dimensions: int) -> DigitExpansion | ListedNumber:
    """Return the number of *points* at each value of their first *dimensions* dimensions, by the faster method."""
    divisions = max(basic.dim(DIV) for basic in points.get_basic_sets())
    if divisions <= MOST_DIVISIONS:
        return DigitExpansion(points, dimensions)
    extents = [_extent(points, place) for place in range(points.dim(SET))]
    if prod(extents[:dimensions]) <= LISTED and prod(extents) <= MOST_POINTS:
        return ListedNumber(points, dimensions)
    return DigitExpansion(points, dimensions)


def _extent(points: isl.Set, place: int) -> int:
    """Return an upper bound on the number of values of the dimension at *place*; 1 if no constraint involves it."""
    if not points.involves_dims(SET, place, 1):
        return 1
    return as_int(points.dim_max_val(place).sub(points.dim_min_val(place))) + 1
