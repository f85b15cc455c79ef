"""Bounds of expressions, and truth of conditions, while each loop ranges over an interval of its iterations."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import inf, prod
from typing import Any, TypeVar, cast

import islpy as isl
import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies

from loopyperf.errors import ENGINE_REMEDY, EngineError
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import points_listed, without_dimensions
from loopyperf.polyhedral.quasipolynomial import engine_is_exact

Range = tuple[float, float]
"""minimum and maximum"""
Box = Mapping[str, Range]
"""loop -> its first and its last iteration"""
Value = TypeVar("Value")
OfBox = Callable[[Box], Value]
"""function of a box, evaluated in many boxes"""

ANYTHING: Range = (-inf, inf)
KNOWN = 1 << 9
"""size of the caches of analyzed expressions"""


@lru_cache(maxsize=KNOWN)
def bounds(expression: Any) -> OfBox[Range]:
    """Return a function of a box: lower and upper bounds of *expression*, exact if it is affine."""
    affine = Affine.of(expression)
    if affine is not None:
        return _affine(affine)
    match expression:
        case prim.Sum(children=children):
            parts = [bounds(child) for child in children]
            return lambda box: _sum(part(box) for part in parts)
        case prim.Product(children=(one, other)):
            first, second = bounds(one), bounds(other)
            return lambda box: _product(first(box), second(box))
        case prim.FloorDiv(numerator=numerator, denominator=int(divisor)) if divisor > 0:
            divided = bounds(numerator)
            return lambda box: _floor(divided(box), divisor)
        case prim.Remainder(numerator=numerator, denominator=int(divisor)) if divisor > 0:
            rest = _remainder(numerator, divisor)
            return lambda _: rest
        case prim.Min(children=children) | prim.Max(children=children):
            return _chosen(min if isinstance(expression, prim.Min) else max, [bounds(child) for child in children])
        case _:
            return lambda _: ANYTHING


def _affine(known: Affine[str]) -> OfBox[Range]:
    def in_box(box: Box) -> Range:
        low = high = known.constant
        for name, factor in known.terms:
            first, last = box[name] if factor > 0 else reversed(box[name])
            low, high = low + factor * first, high + factor * last
        return low, high

    return in_box


def _chosen(choose: Callable[[Iterable[float]], float], parts: Sequence[OfBox[Range]]) -> OfBox[Range]:
    def in_box(box: Box) -> Range:
        ranges = [part(box) for part in parts]
        return choose(low for low, _ in ranges), choose(high for _, high in ranges)

    return in_box


@lru_cache(maxsize=KNOWN)
def truth(condition: Any) -> OfBox[bool | None]:
    """Return a function of a box: True or False if *condition* holds everywhere or nowhere in it, None if undecided.

    A condition of None is always true.
    """
    match condition:
        case prim.LogicalAnd(children=children):
            parts = [truth(child) for child in children]
            return lambda box: _all([part(box) for part in parts])
        case prim.LogicalOr(children=children):
            others = [truth(child) for child in children]
            return lambda box: _not(_all([_not(other(box)) for other in others]))
        case prim.LogicalNot(child=child):
            inside = truth(child)
            return lambda box: _not(inside(box))
        case prim.Comparison(left=left, operator=operator, right=right):
            difference, sign = bounds(cast("Any", left) - right), str(operator)
            return lambda box: _compared(difference(box), sign)
        case None:
            return lambda _: True
        case _:
            known = bool(condition) if isinstance(condition, (bool, int)) else None
            return lambda _: known


@lru_cache(maxsize=KNOWN)
def variation(condition: Any, name: str) -> OfBox[bool]:
    """Return a function of a box: whether *condition* may depend on the iteration of the loop *name*."""
    whole = truth(condition)
    match condition:
        case prim.LogicalAnd(children=children) | prim.LogicalOr(children=children):
            parts = [variation(child, name) for child in children]
            return lambda box: whole(box) is None and any(part(box) for part in parts)
        case prim.LogicalNot(child=child):
            return variation(child, name)
        case _:
            is_in = mentions(condition, name)
            return lambda box: is_in and whole(box) is None


def any_holds(conditions: Iterable[OfBox[bool]], box: Box) -> bool:
    """Return whether any of *conditions* holds in *box*."""
    return any(each(box) for each in conditions)


def mentions(expression: Any, name: str) -> bool:
    """Return whether the iteration of the loop *name* occurs in *expression*."""
    return expression is not None and name in _names(expression)


@lru_cache(maxsize=KNOWN)
def _names(expression: Any) -> frozenset[str]:
    return get_dependencies(expression)


def divisors_of(expression: Any) -> frozenset[int]:
    """Return the divisors of floors and remainders in *expression*."""
    divisions = (part for part in _parts(expression) if isinstance(part, (prim.FloorDiv, prim.Remainder)))
    return frozenset(part.denominator for part in divisions if isinstance(part.denominator, int))


def _parts(expression: Any) -> Iterator[Any]:
    """Yield *expression* and its operands, recursively, through sums, products, divisions, comparisons and logic."""
    yield expression
    match expression:
        case prim.Sum(children=c) | prim.Product(children=c) | prim.Min(children=c) | prim.Max(children=c):
            inside: tuple[Any, ...] = c
        case prim.LogicalAnd(children=c) | prim.LogicalOr(children=c):
            inside = c
        case prim.LogicalNot(child=child):
            inside = (child,)
        case prim.FloorDiv(numerator=one, denominator=other) | prim.Remainder(numerator=one, denominator=other):
            inside = (one, other)
        case prim.Comparison(left=one, right=other):
            inside = (one, other)
        case _:
            inside = ()
    for child in inside:
        yield from _parts(child)


# {{{ ranges


def _sum(ranges: Iterable[Range]) -> Range:
    low, high = 0.0, 0.0
    for each in ranges:
        low, high = low + each[0], high + each[1]
    return low, high


def _product(one: Range, other: Range) -> Range:
    corners = [0 if 0 in pair else pair[0] * pair[1] for pair in product(one, other)]
    return min(corners), max(corners)


def _floor(values: Range, divisor: int) -> Range:
    if inf in values or -inf in values:
        return ANYTHING
    return values[0] // divisor, values[1] // divisor


def _remainder(numerator: Any, divisor: int) -> Range:
    affine = Affine.of(numerator)
    if affine is not None and all(factor % divisor == 0 for _, factor in affine.terms):
        rest = affine.constant % divisor
        return rest, rest
    return 0, divisor - 1


def _compared(difference: Range, operator: str) -> bool | None:
    """Return whether a difference in this range satisfies the comparison with 0; None if undecided."""
    low, high = difference
    match operator:
        case ">=":
            return True if low >= 0 else False if high < 0 else None
        case ">":
            return True if low > 0 else False if high <= 0 else None
        case "<=":
            return True if high <= 0 else False if low > 0 else None
        case "<":
            return True if high < 0 else False if low >= 0 else None
        case "==":
            return True if low == high == 0 else False if low > 0 or high < 0 else None
        case _:
            return _not(_compared(difference, "=="))


def _all(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


# }}}


# {{{ number of points at each place (value of the first dimensions), by Barvinok's algorithm or by listing points
#
# Barvinok's algorithm counts for all places at once. If several integer divisions couple places and loops, it takes
# minutes for some ten thousand points.


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
        return self._number.eval(point).to_python()


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
    return points.dim_max_val(place).sub(points.dim_min_val(place)).to_python() + 1


# }}}
