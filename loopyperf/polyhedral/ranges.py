"""Bounds of expressions, and truth of conditions, while each loop ranges over an interval of its iterations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import inf
from typing import Any, TypeVar, cast

import pymbolic.primitives as prim

from loopyperf.polyhedral.affine import Affine, names_in_expression

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
    return expression is not None and name in names_in_expression(expression)


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
