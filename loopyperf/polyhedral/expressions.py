"""Expressions of loop iterations: values, substitution, and the number of iterations in which a condition holds."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Generic, TypeVar, cast

import pymbolic
import pymbolic.primitives as prim
from pymbolic.mapper.substitutor import substitute

from loopyperf.polyhedral.affine import Affine, Symbol, expression_of, names_in_expression, substituted
from loopyperf.polyhedral.polynomial import Polynomial
from loopyperf.polyhedral.ranges import Box, mentions, truth

WALKED = 8
"""maximum number of iterations of an innermost loop that are tested one by one"""

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
"""pymbolic's operators"""

IterationRanges = Mapping[str, int]
"""loop -> number of its current iteration"""
Trips = Sequence[tuple[str, Any]]
"""loops, outermost first, with trip counts, which may depend on the iterations of outer loops"""


Value = TypeVar("Value")


@dataclass(eq=False, slots=True)
class Same(Generic[Value]):
    """A key that compares by identity; comparing values would be slow, or treat different sets as equal."""

    value: Value

    def __hash__(self) -> int:
        return object.__hash__(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is cast("Same[object]", other).value


def conjunction(one: Any, other: Any) -> Any:
    """Return the conjunction of two conditions; None stands for true."""
    return other if one is None else one if other is None else prim.LogicalAnd((one, other))


# {{{ values


def valued(expression: Any, iterations: IterationRanges) -> int:
    """Return the integer value of *expression* in the given iterations."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, prim.Variable):
        return iterations[expression.name]
    return int(_in_iterations(expression, iterations))


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


def _in_iterations(expression: prim.ExpressionNode, iterations: IterationRanges) -> Any:
    names, function = _compiled(expression)
    return function(*[iterations[name] for name in names])


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
    for each in expressions:
        if isinstance(each, Affine):
            for variable, _ in cast("Affine[Symbol]", each).terms:
                found |= {variable} if isinstance(variable, str) else names_in_expression(variable.expression)
        elif isinstance(each, Polynomial):
            found |= cast("Polynomial[Symbol]", each).names
        elif isinstance(each, prim.ExpressionNode):
            found |= names_in_expression(each)
    return found


def in_terms_of_all(expressions: Iterable[Any], iterations: Mapping[str, Any]) -> list[Any]:
    """Return :func:`in_terms_of` of each of *expressions*; None stays None."""
    return [None if each is None else in_terms_of(each, iterations) for each in expressions]


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
        return _all(in_terms_of(each, iterations) for each in expression.children)
    return substituted(expression, own)


def _all(tests: Iterable[Any]) -> Any:
    """Return the conjunction of *tests*, simplified; True or False if no test depends on anything."""
    left: list[Any] = []
    for test in tests:
        if test is False:
            return False
        left += [test] if test is not True else []
    return prim.LogicalAnd(tuple(left)) if len(left) > 1 else next(iter(left), True)


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
