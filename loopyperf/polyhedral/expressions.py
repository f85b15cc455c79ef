"""Expressions of loop iterations: bounds, values, substitution, and in how many iterations a condition holds."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import inf, prod
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Generic, TypeVar, cast

import pymbolic
import pymbolic.primitives as prim
from pymbolic.mapper.substitutor import substitute

from loopyperf.polyhedral.affine import Affine, Symbol, expression_of, names_in_expression, substituted
from loopyperf.polyhedral.polynomial import Polynomial

# {{{ bounds of expressions, and truth of conditions, while each loop ranges over an interval of its iterations


Range = tuple[float, float]
"""minimum and maximum"""
Box = Mapping[str, Range]
"""loop -> its first and its last iteration"""
Value = TypeVar("Value")
OfBox = Callable[[Box], Value]
"""function of a box, evaluated in many boxes"""

ANYTHING: Range = (-inf, inf)
CACHED_EXPRESSIONS = 1 << 9
"""size of the caches of analyzed expressions"""


@lru_cache(maxsize=CACHED_EXPRESSIONS)
def bounds(expression: Any) -> OfBox[Range]:
    """Return a function of a box: lower and upper bounds of *expression*, exact if it is affine."""
    affine = Affine.of(expression)
    if affine is not None:
        return affine.between
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


def _chosen(choose: Callable[[Iterable[float]], float], parts: Sequence[OfBox[Range]]) -> OfBox[Range]:
    def in_box(box: Box) -> Range:
        ranges = [part(box) for part in parts]
        return choose(low for low, _ in ranges), choose(high for _, high in ranges)

    return in_box


@lru_cache(maxsize=CACHED_EXPRESSIONS)
def truth(condition: Any) -> OfBox[bool | None]:
    """Return a function of a box: True or False if *condition* holds everywhere or nowhere in it, None if undecided.

    A condition of None is always true.
    """
    match condition:
        case prim.LogicalAnd(children=children):
            parts = [truth(child) for child in children]
            return lambda box: _are_all([part(box) for part in parts])
        case prim.LogicalOr(children=children):
            others = [truth(child) for child in children]
            return lambda box: _not(_are_all([_not(other(box)) for other in others]))
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


@lru_cache(maxsize=CACHED_EXPRESSIONS)
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
    return any(condition(box) for condition in conditions)


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


def _sum(ranges: Iterable[Range]) -> Range:
    low, high = 0.0, 0.0
    for interval in ranges:
        low, high = low + interval[0], high + interval[1]
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


def _are_all(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


# }}}


WALKED = 8
"""maximum number of iterations of an innermost loop that are tested one by one"""

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
"""pymbolic's operators"""

IterationRanges = Mapping[str, int]
"""loop -> number of its current iteration"""
Trips = Sequence[tuple[str, Any]]
"""loops, outermost first, with trip counts, which may depend on the iterations of outer loops"""


@dataclass(eq=False, slots=True)
class Same(Generic[Value]):
    """A key that compares by identity; comparing values would be slow, or treat different sets as equal."""

    value: Value

    def __hash__(self) -> int:
        return object.__hash__(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is cast("Same[object]", other).value


def conjunction(*conditions: Any) -> Any:
    """Return the conjunction of *conditions*; None stands for true."""
    tests = [condition for condition in conditions if condition is not None]
    return prim.LogicalAnd(tuple(tests)) if len(tests) > 1 else next(iter(tests), None)


# {{{ values


def valued(expression: Any, iterations: IterationRanges) -> int:
    """Return the integer value of *expression* in the given iterations."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, prim.Variable):
        return iterations[expression.name]
    names, function = _compiled(expression)
    return int(function(*[iterations[name] for name in names]))


def holds(condition: Any, iterations: IterationRanges) -> bool:
    """Return whether *condition* holds in the given iterations; None always holds."""
    return test_of(condition)(iterations)


def test_of(condition: Any) -> Callable[[IterationRanges], bool]:
    """Return a function of the current iterations that tells whether *condition* holds, as :func:`holds` does."""
    if not isinstance(condition, prim.ExpressionNode):
        always = condition is None or bool(condition)
        return lambda _: always
    names, function = _compiled(condition)
    return lambda iterations: bool(function(*[iterations[name] for name in names]))


@lru_cache(maxsize=1 << 10)
def _compiled(expression: prim.ExpressionNode) -> tuple[Sequence[str], Callable[..., Any]]:
    """Return the names in *expression*, and a compiled function of them; compiled because of many evaluations."""
    names = sorted(names_of([expression]))
    # Names of loops may be Python keywords.
    arguments = [f"iteration_{number}" for number in range(len(names))]
    renamed = substitute(expression, {name: prim.Variable(each) for name, each in zip(names, arguments, strict=True)})
    return names, cast("Any", pymbolic.compile(renamed, arguments))


# }}}


# {{{ substitution


def names_of(expressions: Sequence[Any]) -> set[str]:
    """Return the names on which *expressions* depend; they may be affine sums or polynomials."""
    found: set[str] = set()
    for expression in expressions:
        if isinstance(expression, Affine):
            for variable, _ in cast("Affine[Symbol]", expression).terms:
                found |= {variable} if isinstance(variable, str) else names_in_expression(variable.expression)
        elif isinstance(expression, Polynomial):
            found |= cast("Polynomial[Symbol]", expression).names
        elif isinstance(expression, prim.ExpressionNode):
            found |= names_in_expression(expression)
    return found


def in_terms_of_all(expressions: Iterable[Any], iterations: Mapping[str, Any]) -> list[Any]:
    """Return :func:`in_terms_of` of each of *expressions*; None stays None."""
    return [None if expression is None else in_terms_of(expression, iterations) for expression in expressions]


def in_terms_of(expression: Any, iterations: Mapping[str, Any]) -> Any:
    """Return *expression* with loops replaced by their *iterations*, evaluated if nothing else is in it.

    *expression* is a pymbolic expression, an affine sum or a polynomial; anything else is returned unchanged. The
    iterations are numbers, expressions or affine sums; if *expression* is an affine sum, they must be affine sums. The
    result is in canonical form.
    """
    if isinstance(expression, Affine):
        return cast("Affine[Symbol]", expression).replaced(iterations)
    if isinstance(expression, Polynomial):
        return cast("Polynomial[Symbol]", expression).in_terms_of(iterations)
    if not isinstance(expression, prim.ExpressionNode):
        return expression
    if isinstance(expression, prim.Variable):
        return expression_of(iterations.get(expression.name, expression))
    names = names_in_expression(expression)
    own = tuple([(name, iterations[name]) for name in sorted(names) if name in iterations])
    return _node_in_terms_of(expression, own)


@lru_cache(maxsize=1 << 11)
def _node_in_terms_of(expression: prim.ExpressionNode, own: tuple[tuple[str, Any], ...]) -> Any:
    """Return *expression* with the names in *own* replaced; cached, since copies of a loop repeat it."""
    iterations = dict(own)
    if (known := Affine.of(expression, iterations)) is not None:
        return known.expression
    if isinstance(expression, prim.Comparison):
        left, right = in_terms_of(expression.left, iterations), in_terms_of(expression.right, iterations)
        if isinstance(left, int) and isinstance(right, int):
            return _COMPARISONS[expression.operator](left, right)
        return prim.Comparison(left, expression.operator, right)
    if isinstance(expression, prim.LogicalAnd):
        return _all(in_terms_of(child, iterations) for child in expression.children)
    return substituted(expression, own)


def _all(tests: Iterable[Any]) -> Any:
    """Return the conjunction of *tests*, simplified; True or False if no test depends on anything."""
    left: list[Any] = []
    for test in tests:
        if test is False:
            return False
        left += [test] if test is not True else []
    return conjunction(*left) if left else True


# }}}


# {{{ how often a condition holds


def times_held(condition: Any, loops: Trips) -> int:
    """Return the number of iterations of *loops* in which *condition* holds.

    The range of a loop is halved until each test of the condition is decided for a part of it. Parts with the same
    undecided tests are merged, so that tests of different loops multiply.
    """
    if condition is None and all(isinstance(times, int) for _, times in loops):
        return prod(max(times, 0) for _, times in loops)
    return _times_held(condition, tuple(loops))


@lru_cache(maxsize=1 << 10)
def _times_held(condition: Any, loops: Trips) -> int:
    return _runs(condition, loops, {})


def _runs(condition: Any, loops: Trips, iterations: IterationRanges) -> int:
    """Return the number of iterations of *loops* in which *condition* holds, inside *iterations* of the outer loops."""
    if not loops:
        return int(holds(condition, {}))
    ((outer, times), *inner) = loops
    trips = valued(times, iterations)
    if outer in names_of([each for _, each in inner]):
        each = ({outer: number} for number in range(trips))
        return sum(_runs(in_terms_of(condition, one), inner, {**iterations, **one}) for one in each)
    box = {name: (0, each - 1 if isinstance(each, int) else inf) for name, each in inner}
    rests = Counter[Any]()
    for rest, number in _rests(condition, outer, range(trips), box):
        rests[rest] += number
    return sum(number * _runs(rest, inner, iterations) for rest, number in rests.items())


def _rests(condition: Any, name: str, part: range, box: Box) -> Iterator[tuple[Any, int]]:
    """Yield the undecided rest of *condition* in parts of the iterations *part*, with the number of iterations of each.

    *box* contains the inner loops. Parts in which the condition is false are omitted.
    """
    if not part:
        return
    rest = _undecided(condition, {**box, name: (part[0], part[-1])})
    if not mentions(rest, name):
        if rest is not False:
            yield rest, len(part)
    elif len(part) <= WALKED and not box:
        yield True, sum(holds(rest, {name: number}) for number in part)
    elif len(part) == 1:
        yield in_terms_of(rest, {name: part[0]}), 1
    else:
        middle = len(part) // 2
        for half in (part[:middle], part[middle:]):
            yield from _rests(rest, name, half, box)


def _undecided(condition: Any, box: Box) -> Any:
    """Return the part of *condition* that is not decided in *box*; True or False if all of it is decided."""
    known = truth(condition)(box)
    if known is not None:
        return known
    match condition:
        case prim.LogicalAnd(children=children) | prim.LogicalOr(children=children):
            left = [each for each in (_undecided(child, box) for child in children) if not isinstance(each, bool)]
            return type(condition)(tuple(left)) if len(left) > 1 else left[0]
        case prim.LogicalNot(child=child):
            return prim.LogicalNot(_undecided(child, box))
        case _:
            return condition


# }}}
