"""Bounded sets of points, most of which are boxes (products of intervals), which Python handles without isl."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import groupby, islice
from math import prod
from operator import itemgetter
from typing import Any

import islpy as isl
import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import ENGINE_REMEDY, EngineError, LoopyperfError, ParameterError
from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.quasipolynomial import Dimension, affine_of, engine_is_exact, number_of_points
from loopyperf.polyhedral.sets import as_int

SET = isl.dim_type.set
PARAM = isl.dim_type.param
DIV = isl.dim_type.div
IN = isl.dim_type.in_
Box = tuple[range, ...]
"""one non-empty interval per dimension"""
MANY_DIVISIONS = 3
"""existential variables of a basic set from which on a small set is listed"""
MOST_BOXES = 6
"""maximum number of boxes that a set is decomposed into"""
MOST_CELLS = 2**20
"""maximum number of cells of a box that are tested for membership at once"""


class Points:
    """A bounded set of points with integer coordinates."""

    def __init__(self, points: isl.Set | Box) -> None:
        """Create the points from a set without parameters, or from a box."""
        self._made_of = points

    @cached_property
    def box(self) -> Box | None:
        """Return the intervals whose product the points are; None if they are not a product, or empty."""
        if isinstance(self._made_of, tuple):
            return self._made_of
        if self._made_of.is_empty() or not self._made_of.is_box():
            return None
        return tuple(_interval(self._made_of, place) for place in range(self._made_of.dim(SET)))

    @cached_property
    def boxes(self) -> tuple[Box, ...] | None:
        """Return disjoint boxes that make up the points; None if there are more than :data:`MOST_BOXES`.

        Loops over tiles with a partial last tile are two boxes: the last tile, and all others.
        """
        if self.box is not None or self.is_empty:
            return () if self.box is None else (self.box,)
        try:
            found = tuple(islice(_cut(_with_few_divisions(self.set)), MOST_BOXES + 1))
        except _NoBoxesError:
            return None
        return found if len(found) <= MOST_BOXES else None

    @cached_property
    def span(self) -> Box:
        """Return the bounding box of the points, which must not be empty."""
        return self.box or tuple(_interval(self.set, place) for place in range(self.dimensions))

    @cached_property
    def set(self) -> isl.Set:
        """Return the points as an isl set."""
        return boxed(self._made_of) if isinstance(self._made_of, tuple) else self._made_of

    @property
    def dimensions(self) -> int:
        """Return the number of coordinates of a point."""
        return len(self._made_of) if isinstance(self._made_of, tuple) else self._made_of.dim(SET)

    @cached_property
    def number(self) -> int:
        """Return the number of points."""
        if self.boxes is None:
            # Barvinok may take minutes for quotients of quotients, even if there are few points.
            few = not self.set.is_empty() and prod(map(len, self.span)) <= SCANNED
            return as_int(self.set.count_val()) if few else number_of_points(self.set)
        return sum(prod(map(len, box)) for box in self.boxes)

    @property
    def is_empty(self) -> bool:
        """Return whether there are no points."""
        return self.box is None and self.set.is_empty()

    def times(self, interval: range) -> "Points":
        """Return the product of the points with *interval*, which becomes the last dimension."""
        if self.box is not None:
            return Points((*self.box, interval))
        return Points(self.set.flat_product(boxed((interval,))))

    def outer(self, number: int) -> "Points":
        """Return the projection onto the first *number* dimensions."""
        if self.box is not None:
            return Points(self.box[:number])
        return Points(_with_few_divisions(self.set.project_out(SET, number, self.set.dim(SET) - number)))


def _with_few_divisions(points: isl.Set) -> isl.Set:
    """Return *points*; of sets with many existential variables, which isl cannot simplify, list few points as boxes."""
    if max((part.dim(DIV) for part in points.get_basic_sets()), default=0) < MANY_DIVISIONS:
        return points
    if points.is_empty() or prod(map(len, Points(points).span)) > SCANNED:
        return points
    boxes = _boxes_of(sorted(_coordinates(points)))
    return reduce(isl.Set.union, map(boxed, boxes)).coalesce()


def _boxes_of(rows: Sequence[tuple[int, ...]]) -> list[Box]:
    """Return disjoint boxes of the points with the coordinates *rows*, which are sorted."""
    if not rows[0]:
        return [()]
    slices = [(first, _boxes_of([row[1:] for row in same])) for first, same in groupby(rows, itemgetter(0))]
    boxes: list[Box] = []
    start = 0
    for end in range(1, len(slices) + 1):
        if end == len(slices) or slices[end] != (slices[end - 1][0] + 1, slices[start][1]):
            interval = range(slices[start][0], slices[end - 1][0] + 1)
            boxes += [(interval, *box) for box in slices[start][1]]
            start = end
    return boxes


class _NoBoxesError(LoopyperfError):
    """A set with holes."""


def _cut(points: isl.Set) -> Iterator[Box]:
    """Yield boxes that make up *points*: runs of equal slices along the first dimension, each cut recursively.

    Raises :class:`_NoBoxesError` if a dimension has holes.
    """
    if points.dim(SET) == 0:
        yield ()
        return
    while not points.is_empty():
        first = points.dim_min_val(0)
        slice_ = points.fix_val(SET, 0, first).project_out(SET, 0, 1)
        everywhere = points.project_out(SET, 1, points.dim(SET) - 1)
        extruded = everywhere.flat_product(slice_)
        others = (extruded - points).union(points - extruded).project_out(SET, 1, points.dim(SET) - 1)
        here = everywhere if others.is_empty() else everywhere.upper_bound_val(SET, 0, others.dim_min_val(0) - 1)
        interval = Points(here.coalesce()).box
        if interval is None:
            raise _NoBoxesError
        for box in _cut(slice_.coalesce()):
            yield (*interval, *box)
        points = points.lower_bound_val(SET, 0, isl.Val(interval[0].stop))


def union(parts: Sequence[Points], dimensions: int) -> Points:
    """Return the union of *parts*, which have *dimensions* dimensions."""
    boxes = dict.fromkeys(part.box for part in parts if not part.is_empty)
    for box in boxes:
        if box is not None and all(other is not None and is_inside(other, box) for other in boxes):
            return Points(box)
    nothing = isl.Set.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, dimensions))
    return Points(reduce(isl.Set.union, (part.set for part in parts), nothing).coalesce())


def is_inside(inner: Box, outer: Box) -> bool:
    """Return whether *inner* is a subset of *outer*."""
    return all(there.start <= here.start and here.stop <= there.stop for here, there in zip(inner, outer, strict=True))


def boxed(box: Box) -> isl.Set:
    """Return *box* as an isl set."""
    points = isl.Set.universe(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(box)))
    for place, interval in enumerate(box):
        points = points.lower_bound_val(SET, place, isl.Val(interval.start))
        points = points.upper_bound_val(SET, place, isl.Val(interval.stop - 1))
    return points


def _interval(points: isl.Set, place: int) -> range:
    return range(as_int(points.dim_min_val(place)), as_int(points.dim_max_val(place)) + 1)


def values_along(points: isl.Set, place: int) -> range:
    """Return the evenly spaced values of the dimension at *place* in *points*, which are not empty.

    If the values are not evenly spaced, the range also contains others between them.
    """
    alone = points.project_out(SET, place + 1, points.dim(SET) - place - 1).project_out(SET, 0, place)
    least, most = as_int(alone.dim_min_val(0)), as_int(alone.dim_max_val(0))
    return range(least, most + 1, max(1, as_int(alone.get_stride(0))))


def values_along_each(points: isl.Set) -> list[range]:
    """Return :func:`values_along` for each dimension of *points*."""
    return [values_along(points, place) for place in range(points.dim(SET))]


# {{{ images


def image(points: isl.Set, names: Sequence[str], coordinates: Sequence[Affine[Any]]) -> isl.Set:
    """Return the image of *points*, whose dimensions are *names*, under *coordinates*, functions of these names."""
    return points.reset_tuple_id().apply(affine_map(names, coordinates))


def isl_function(value: Affine[Any], space: isl.LocalSpace, places: Mapping[Any, Dimension]) -> isl.Aff:
    """Return *value* as an isl function on *space*, in which *places* gives the dimension of each variable."""
    found: isl.Aff = isl.Aff.zero_on_domain(space).set_constant_val(isl.Val(value.constant))
    for variable, factor in value.terms:
        if isinstance(variable, Floor):
            floor = (
                isl_function(variable.numerator, space, places).scale_down_val(isl.Val(variable.denominator)).floor()
            )
            found = found.add(floor.scale_val(isl.Val(factor)))
        else:
            found = found.set_coefficient_val(*places[variable], isl.Val(factor))
    return found


def affine_map(names: Sequence[str], coordinates: Sequence[Affine[Any]]) -> isl.Map:
    """Return the map from points with dimensions *names* to points with these *coordinates*."""
    space = isl.LocalSpace.from_space(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(names)))
    places = {name: (IN, place) for place, name in enumerate(names)}
    values = isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(coordinates))
    for each in coordinates:
        values = values.add(isl_function(each, space, places))
    to = isl.Space.alloc(isl.DEFAULT_CONTEXT, 0, len(names), len(coordinates))
    return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(to, values))


# }}}


# {{{ membership


Membership = Callable[[Sequence[NDArray[Any]]], NDArray[np.bool_]]
"""function of coordinates, arrays that broadcast together, that tells which points are members of a set"""


def contained(points: isl.Set, coordinates: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Return which points are members of *points*; *coordinates* are arrays that broadcast together."""
    return membership(points)(coordinates)


def membership(points: isl.Set) -> Membership:
    """Return the membership function of *points*."""
    parts = points.compute_divs().get_basic_sets()
    floors = [[Floor(*_of_places(part.get_div(place))) for place in range(part.dim(DIV))] for part in parts]
    tests = [[(_of_places(each.get_aff())[0], each.is_equality()) for each in part.get_constraints()] for part in parts]

    def are_inside(coordinates: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        found = np.zeros(np.broadcast_shapes(*(along.shape for along in coordinates)), np.bool_)
        for of_part, known_floors in zip(tests, floors, strict=True):
            known: dict[Any, Any] = {f"x{place}": along for place, along in enumerate(coordinates)}
            for floor in known_floors:
                known[floor] = floor.numerator.at(known) // floor.denominator
            here = np.ones_like(found)
            for function, is_equality in of_part:
                value = function.at(known)
                here &= value == 0 if is_equality else value >= 0
            found |= here
        return found

    return are_inside


def _of_places(function: isl.Aff) -> tuple[Affine[Atom], int]:
    """Return *function* of dimensions named ``x0``, ``x1``... times a common denominator, and that denominator."""
    return affine_of(function, [((IN, place), f"x{place}") for place in range(function.dim(IN))])


# }}}


# {{{ sizes, projections, lists


def at_sizes(points: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    """Return *points* at *sizes*, without parameters; raises :class:`ParameterError` if a size is missing."""
    for name, (kind, place) in points.get_var_dict(PARAM).items():
        if name in sizes:
            points = points.fix_val(kind, place, isl.Val(str(sizes[name])))
        elif points.involves_dims(kind, place, 1):
            raise ParameterError(f"the loops depend on size {name!r}; give its value")
    return points.project_out(PARAM, 0, points.dim(PARAM))


def fixed(points: isl.Set, values: Mapping[int, int]) -> isl.Set:
    """Return the subset of *points* in which dimensions have the given *values*."""
    return reduce(lambda left, one: left.fix_val(SET, one[0], isl.Val(str(one[1]))), values.items(), points)


def without_dimensions(points: isl.Set, places: Sequence[int]) -> isl.Set:
    """Return the projection of *points* that removes the dimensions at *places*, which are in ascending order."""
    return reduce(lambda left, place: left.project_out(SET, place, 1), reversed(places), points)


def _coordinates(points: isl.Set) -> list[tuple[int, ...]]:
    """Return the coordinates of each of *points*, listed by isl."""
    rows: list[tuple[int, ...]] = []
    places = range(points.dim(SET))
    points.foreach_point(lambda point: rows.append(tuple(as_int(point.get_coordinate_val(SET, at)) for at in places)))
    return rows


def points_listed(points: isl.Set) -> NDArray[np.int64]:
    """Return bounded *points* as an array of shape (number of points, dimensions)."""
    places = range(points.dim(SET))
    if places and not points.is_empty():
        box = [_interval(points, place) for place in places]
        if prod(map(len, box)) <= MOST_CELLS:
            inside = contained(points, np.meshgrid(*box, indexing="ij", sparse=True))
            return np.argwhere(inside) + np.array([along.start for along in box], dtype=np.int64)
    rows = _coordinates(points)
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(places))


# }}}


# {{{ number of points at each place (value of the first dimensions), by Barvinok's algorithm or by listing points
#
# Barvinok's algorithm counts for all places at once. If several integer divisions couple places and loops, it takes
# minutes for some ten thousand points.


MOST_DIVISIONS = 1
"""maximum number of integer divisions for Barvinok's algorithm, if points can be listed instead"""
SCANNED = 10_000
"""largest number of points of a bounding box in which points are counted one by one"""
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
    extents = [_values_along(points, place) for place in range(points.dim(SET))]
    if prod(extents[:dimensions]) <= LISTED and prod(extents) <= MOST_POINTS:
        return ListedNumber(points, dimensions)
    return DigitExpansion(points, dimensions)


def _values_along(points: isl.Set, place: int) -> int:
    """Return an upper bound on the number of values of the dimension at *place*; 1 if no constraint involves it."""
    if not points.involves_dims(SET, place, 1):
        return 1
    return as_int(points.dim_max_val(place).sub(points.dim_min_val(place))) + 1


# }}}
