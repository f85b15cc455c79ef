"""How many points of a set there are at each place, by Barvinok's algorithm or by listing them.

Barvinok's algorithm answers for all places at once. Where several integer divisions tie places to loops, it takes
minutes for what are some ten thousand points.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

import islpy as isl

from loopyperf.errors import ENGINE_REMEDY, EngineError
from loopyperf.polyhedral.points import points_listed, without
from loopyperf.polyhedral.quasipolynomial import engine_is_exact

SET = isl.dim_type.set
PARAM = isl.dim_type.param
DIV = isl.dim_type.div
MOST_DIVISIONS = 1
"""for Barvinok's algorithm, where points can be listed"""
LISTED = 4096
"""places, at most: warps whose numbers of executions differ from one to the next are compared one by one"""
MOST_POINTS = 2**17
"""at these places, to be listed"""


class NumberByPlace:
    """How many points of a bounded set without parameters there are at each value of its first dimensions."""

    def __init__(self, points: isl.Set, dimensions: int) -> None:
        """Count *points* by the first so many *dimensions*; raises :class:`EngineError` without barvinok."""
        if not engine_is_exact():
            raise EngineError(f"the installed islpy lacks barvinok, so warps cannot be told apart; {ENGINE_REMEDY}")
        apart = points.move_dims(PARAM, 0, SET, 0, dimensions)
        for place in range(dimensions):
            apart = apart.set_dim_name(PARAM, place, f"w{place}")
        self._number = apart.card()

    def pieces(self) -> Iterator[tuple[isl.Set, bool]]:
        """Yield where the number is one polynomial of the place, and whether that is a constant."""
        for where, number in self._number.get_pieces():
            places = isl.Set.from_params(where.params())
            kinds = [(kind, at) for kind in (PARAM, DIV) for at in range(number.dim(kind))]
            varies = any(term.get_exp(*each) for term in number.get_terms() for each in kinds)
            yield places.move_dims(SET, 0, PARAM, 0, places.dim(PARAM)), not varies

    def depends_on(self, dimension: int) -> bool:
        """Return whether the number at a place depends on where that is along *dimension*, inside some piece."""
        return any(number.involves_dims(PARAM, dimension, 1) for _, number in self._number.get_pieces())

    def at(self, place: Mapping[int, int]) -> int:
        """Return the number at *place*, of which the dimensions count that it depends on."""
        point = isl.Point.zero(self._number.get_domain_space())
        for dimension, value in place.items():
            point = point.set_coordinate_val(PARAM, dimension, isl.Val(value))
        return self._number.eval(point).to_python()


class ListedNumber:
    """How many points of a bounded set without parameters there are at each value of its first dimensions."""

    def __init__(self, points: isl.Set, dimensions: int) -> None:
        """List *points*, and count them by the first so many *dimensions*, those of them that constraints involve."""
        self._dimensions = dimensions
        self._axes = [axis for axis in range(dimensions) if points.involves_dims(SET, axis, 1)]
        rows = points_listed(without(points, [axis for axis in range(dimensions) if axis not in self._axes]))
        places: list[list[int]] = rows[:, : len(self._axes)].tolist()
        self._numbers = Counter(map(tuple, places))

    def pieces(self) -> Iterator[tuple[isl.Set, bool]]:
        """Yield where the number varies, and that it is no constant there: everywhere."""
        yield isl.Set.universe(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, self._dimensions)), False

    def depends_on(self, dimension: int) -> bool:
        """Return whether the number at a place depends on where that is along *dimension*."""
        return dimension in self._axes

    def at(self, place: Mapping[int, int]) -> int:
        """Return the number at *place*, of which the dimensions count that it depends on."""
        return self._numbers[tuple(place[axis] for axis in self._axes)]


def number_by_place(points: isl.Set, dimensions: int) -> NumberByPlace | ListedNumber:
    """Return how many *points* there are at each value of their first so many *dimensions*, in the faster way."""
    divisions = max(basic.dim(DIV) for basic in points.get_basic_sets())
    if divisions <= MOST_DIVISIONS:
        return NumberByPlace(points, dimensions)
    extents = [_extent(points, place) for place in range(points.dim(SET))]
    if prod(extents[:dimensions]) <= LISTED and prod(extents) <= MOST_POINTS:
        return ListedNumber(points, dimensions)
    return NumberByPlace(points, dimensions)


def _extent(points: isl.Set, place: int) -> int:
    """Return how many values the dimension at *place* has at most; 1 where no constraint involves it."""
    if not points.involves_dims(SET, place, 1):
        return 1
    return points.dim_max_val(place).sub(points.dim_min_val(place)).to_python() + 1
