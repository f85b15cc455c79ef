"""Expressions of the passes of loops: their values, the same in terms of others, and how often conditions hold."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf, prod
from operator import eq, ge, gt, le, lt, ne
from typing import Any, cast

import pymbolic
import pymbolic.primitives as prim
from pymbolic.mapper.substitutor import substitute

from loopyperf.polyhedral.affine import Affine, Symbol, expression_of, names_in_expression, substituted
from loopyperf.polyhedral.polynomial import Polynomial
from loopyperf.polyhedral.ranges import Box, mentions, truth

WALKED = 8
"""passes of an innermost loop that are looked at one by one"""

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
"""as pymbolic writes them"""

IterationRanges = Mapping[str, int]
"""loop -> number of the pass that it is in"""
Trips = Sequence[tuple[str, Any]]
"""loops, the outermost first, each with its number of passes, which may depend on the passes of those around it"""


# {{{ values


def valued(expression: Any, passes: IterationRanges) -> int:
    """Return the integer that *expression* is in these *passes*."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, prim.Variable):
        return passes[expression.name]
    return int(_in_iterations(expression, passes))


def holds(condition: Any, passes: IterationRanges) -> bool:
    """Return whether *condition*, None for one that always does, holds in these *passes*."""
    return test_of(condition)(passes)


def test_of(condition: Any) -> Callable[[IterationRanges], bool]:
    """Return the function that tells whether *condition* holds in some passes, as :func:`holds` does."""
    if not isinstance(condition, prim.ExpressionNode):
        always = condition is None or bool(condition)
        return lambda _: always
    names, function = _compiled(condition)
    return lambda passes: bool(function(*[passes[name] for name in names]))


def _in_iterations(expression: prim.ExpressionNode, passes: IterationRanges) -> Any:
    names, function = _compiled(expression)
    return function(*[passes[name] for name in names])


@lru_cache(maxsize=1 << 14)
def _compiled(expression: prim.ExpressionNode) -> tuple[Sequence[str], Callable[..., Any]]:
    """Return *expression* as a function of the passes of some loops, and their names: many passes ask for its value."""
    names = sorted(names_of([expression]))
    # Loops may be called as Python's keywords are.
    arguments = [f"pass_{number}" for number in range(len(names))]
    renamed = substitute(expression, {name: prim.Variable(each) for name, each in zip(names, arguments, strict=True)})
    return names, cast("Any", pymbolic.compile(renamed, arguments))


# }}}


# {{{ in terms of others


def names_of(expressions: Sequence[Any]) -> set[str]:
    """Return the names of what *expressions* depend on; some may be sums of multiples."""
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


def in_terms_of_all(expressions: Iterable[Any], passes: Mapping[str, Any]) -> list[Any]:
    """Return each of *expressions* where loops are in *passes*, as :func:`in_terms_of` does."""
    return [None if each is None else in_terms_of(each, passes) for each in expressions]


def in_terms_of(expression: Any, passes: Mapping[str, Any]) -> Any:
    """Return *expression* where loops are in *passes*, evaluated where nothing else is in it.

    It is one of pymbolic's, or a sum of multiples or of products; anything else is returned as it is. *passes* are
    numbers, expressions, or sums of multiples; for a sum of multiples, these alone. Sums are written in one way.
    """
    if isinstance(expression, Affine):
        return cast("Affine[Symbol]", expression).replaced(passes)
    if isinstance(expression, Polynomial):
        return cast("Polynomial[Symbol]", expression).in_terms_of(passes)
    if not isinstance(expression, prim.ExpressionNode):
        return expression
    if isinstance(expression, prim.Variable):
        return expression_of(passes.get(expression.name, expression))
    names = names_in_expression(expression)
    own = tuple([(name, passes[name]) for name in sorted(names) if name in passes])
    return _node_in_terms_of(expression, own)


@lru_cache(maxsize=1 << 13)
def _node_in_terms_of(expression: prim.ExpressionNode, own: tuple[tuple[str, Any], ...]) -> Any:
    """Return *expression* where its *own* names are passes; copies of a loop ask for the same again and again."""
    passes = dict(own)
    if (known := Affine.of(expression, passes)) is not None:
        return known.expression
    if isinstance(expression, prim.Comparison):
        left, right = in_terms_of(expression.left, passes), in_terms_of(expression.right, passes)
        if isinstance(left, int) and isinstance(right, int):
            return _COMPARISONS[expression.operator](left, right)
        return prim.Comparison(left, expression.operator, right)
    if isinstance(expression, prim.LogicalAnd):
        return _all(in_terms_of(each, passes) for each in expression.children)
    return substituted(expression, own)


def _all(tests: Iterable[Any]) -> Any:
    """Return on what condition all *tests* hold: whether they do, where none is left that depends on anything."""
    left: list[Any] = []
    for test in tests:
        if test is False:
            return False
        left += [test] if test is not True else []
    return prim.LogicalAnd(tuple(left)) if len(left) > 1 else next(iter(left), True)


# }}}


# {{{ how often conditions hold


def times_held(condition: Any, loops: Trips) -> int:
    """Return in how many passes of *loops* *condition* holds.

    The passes of a loop are halved until it is certain for a part of them which tests of the condition hold in it.
    Parts in which the same tests are left are taken together, so that tests of different loops are multiplied.
    """
    if condition is None and all(isinstance(times, int) for _, times in loops):
        return prod(max(times, 0) for _, times in loops)
    return _times_held(condition, tuple(loops))


@lru_cache(maxsize=1 << 12)
def _times_held(condition: Any, loops: Trips) -> int:
    return _runs(condition, loops, {})


def _runs(condition: Any, loops: Trips, passes: IterationRanges) -> int:
    """Return in how many passes of *loops* what is left of a *condition* holds, *passes* being those around them."""
    if not loops:
        return int(holds(condition, {}))
    ((outer, times), *inner) = loops
    trips = valued(times, passes)
    if outer in names_of([each for _, each in inner]):
        each = ({outer: number} for number in range(trips))
        return sum(_runs(in_terms_of(condition, one), inner, {**passes, **one}) for one in each)
    box = {name: (0, each - 1 if isinstance(each, int) else inf) for name, each in inner}
    rests = Counter[Any]()
    for rest, number in _rests(condition, outer, range(trips), box):
        rests[rest] += number
    return sum(number * _runs(rest, inner, passes) for rest, number in rests.items())


def _rests(condition: Any, name: str, part: range, box: Box) -> Iterator[tuple[Any, int]]:
    """Yield what is left of *condition* in *part* of the passes of a loop, each with the number of passes.

    The loops inside are in *box*. Where the condition does not hold, nothing is left.
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
    """Return what of *condition* is not certain in *box*; True or False where all of it is."""
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
