"""What expressions of the passes of loops can be while each loop is anywhere in a range of its passes."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import inf
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies
from pymbolic.mapper.coefficient import CoefficientCollector

Range = tuple[float, float]
"""the least and the largest value"""
Box = Mapping[str, Range]
"""loop -> the first and the last of its passes"""

ANYTHING: Range = (-inf, inf)


def coefficients(expression: Any) -> dict[str | None, int] | None:
    """Return loop -> the factor of its pass in *expression*, and None -> the constant; None if it is not affine."""
    try:
        found: dict[Any, Any] = dict(CoefficientCollector()(expression))
    except (RuntimeError, ValueError, NotImplementedError, AssertionError):  # the last is a product with a sum
        return None
    named = {key.name if isinstance(key, prim.Variable) else None: value for key, value in found.items()}
    return named if all(isinstance(value, int) for value in named.values()) else None


def bounds(expression: Any, box: Box) -> Range:
    """Return a least and a largest value of *expression* in *box*: exact ones where it is affine."""
    affine = coefficients(expression)
    if affine is not None:
        return _sum(_product((factor, factor), box[name] if name else (1, 1)) for name, factor in affine.items())
    match expression:
        case prim.Sum(children=children):
            return _sum(bounds(child, box) for child in children)
        case prim.Product(children=(one, other)):
            return _product(bounds(one, box), bounds(other, box))
        case prim.FloorDiv(numerator=numerator, denominator=int(divisor)) if divisor > 0:
            return _floor(bounds(numerator, box), divisor)
        case prim.Remainder(numerator=numerator, denominator=int(divisor)) if divisor > 0:
            return _remainder(numerator, divisor)
        case prim.Min(children=children) | prim.Max(children=children):
            ranges = [bounds(child, box) for child in children]
            choose = min if isinstance(expression, prim.Min) else max
            return choose(low for low, _ in ranges), choose(high for _, high in ranges)
        case _:
            return ANYTHING


def truth(condition: Any, box: Box) -> bool | None:
    """Return whether *condition* holds everywhere in *box* or nowhere; None if that is not certain."""
    match condition:
        case None:
            return True
        case prim.LogicalAnd(children=children):
            return _all([truth(child, box) for child in children])
        case prim.LogicalOr(children=children):
            return _not(_all([_not(truth(child, box)) for child in children]))
        case prim.LogicalNot(child=child):
            return _not(truth(child, box))
        case prim.Comparison():
            compared: Any = condition
            return _compared(bounds(compared.left - compared.right, box), compared.operator)
        case _:
            return bool(condition) if isinstance(condition, (bool, int)) else None


def varies_with(condition: Any, name: str, box: Box) -> bool:
    """Return whether in *box* *condition* may depend on the pass of the loop of that *name*."""
    if truth(condition, box) is not None:
        return False
    if isinstance(condition, (prim.LogicalAnd, prim.LogicalOr)):
        return any(varies_with(child, name, box) for child in condition.children)
    if isinstance(condition, prim.LogicalNot):
        return varies_with(condition.child, name, box)
    return mentions(condition, name)


def mentions(expression: Any, name: str) -> bool:
    """Return whether the pass of the loop of that *name* occurs in *expression*."""
    return expression is not None and name in get_dependencies(expression)


def periods(expression: Any) -> frozenset[int]:
    """Return the divisors of floors and remainders in *expression*."""
    divisions = (part for part in _parts(expression) if isinstance(part, (prim.FloorDiv, prim.Remainder)))
    return frozenset(part.denominator for part in divisions if isinstance(part.denominator, int))


def _parts(expression: Any) -> Iterator[Any]:
    """Yield *expression* and what it is made of, as far as it is of sums, products, divisions and comparisons."""
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
    affine = coefficients(numerator)
    if affine is not None and all(factor % divisor == 0 for name, factor in affine.items() if name):
        rest = affine.get(None, 0) % divisor
        return rest, rest
    return 0, divisor - 1


def _compared(difference: Range, operator: Any) -> bool | None:
    """Return whether a difference in that range compares to 0 so."""
    low, high = difference
    match str(operator):
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
