"""Conditions under which something runs, taken apart where the source does not tell how often they hold.

A condition that is an affine function of loop variables and sizes stays whole: it selects points, exactly. One that
depends on data is taken apart at its ``and``, ``or`` and ``not``, so that what is affine in it stays exact and what is
not can be asked for by name.

Conditions of several ways each to hold multiply them. Where that gets many, those on data alone stay whole too, and how
often they hold together is found where the shares of their parts are known.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import pymbolic.primitives as prim
from loopy.symbolic import WalkMapper

from loopyperf.errors import UncountableError


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition under which something runs: *expression* is true, or false where *holds* is False."""

    expression: Any
    holds: bool = True


UNDERLINED = re.compile(".(?:\N{COMBINING LOW LINE}.)+")
"""the name of a function, as Loopy writes it"""


def plain_text(expression: Any, function_names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return *expression* as people write it: Loopy underlines the names of the functions that it knows.

    It also numbers functions that are called with several types: *function_names* are those that have other names.
    """

    def written(found: re.Match[str]) -> str:
        name = found[0].replace("\N{COMBINING LOW LINE}", "")
        return function_names.get(name, name)

    return UNDERLINED.sub(written, str(expression))


def has_fractions(expression: Any) -> bool:
    """Return whether there is a number in *expression* that is not an integer."""
    finder = _FractionFinder()
    finder(expression)
    return finder.found


class _FractionFinder(WalkMapper[[]]):
    found = False

    def map_constant(self, expr: Any) -> None:
        self.found |= not isinstance(expr, (bool, np.bool_)) and expr != int(expr.real)


Conditions = frozenset[Condition]
"""all of them hold"""
ALWAYS: Conditions = frozenset()

SEVERAL = 16
"""ways to hold together: more are not written down where that can be avoided"""
MOST = 256
"""ways to hold together: more take too long to count"""

IsKnown = Callable[[Any], bool]
"""tells whether an expression depends on nothing but loop variables and sizes"""


def alternatives(expression: Any, is_known: IsKnown, holds: bool = True) -> Iterator[Conditions]:
    """Yield disjoint sets of conditions; *expression* is true (or false, as *holds* says) where one of them holds."""
    if is_known(expression):
        yield frozenset({Condition(expression, holds)})
    elif isinstance(expression, prim.LogicalNot):
        yield from alternatives(expression.child, is_known, not holds)
    elif isinstance(expression, (prim.LogicalAnd, prim.LogicalOr)):
        deciding = isinstance(expression, prim.LogicalOr)
        if holds == deciding:
            yield from _first_deciding(expression.children, is_known, deciding)
        else:
            yield from all_of(expression.children, is_known, holds)
    else:
        yield frozenset({Condition(expression, holds)})


def all_of(expressions: Iterable[Any], is_known: IsKnown, holds: bool = True) -> Iterator[Conditions]:
    """Yield disjoint sets of conditions; all of *expressions* are true (or false) where one of them holds.

    Raises :class:`UncountableError` where there are too many.
    """
    each = {expression: tuple(alternatives(expression, is_known, holds)) for expression in expressions}
    if prod(map(len, each.values())) > SEVERAL:
        on_data = (whole for whole in each if not any(is_known(part) for part in parts(whole, is_known)))
        each |= {whole: (frozenset({Condition(whole, holds)}),) for whole in on_data}
    if (ways := prod(map(len, each.values()))) > MOST:
        raise UncountableError(
            f"conditions with {ways} ways to hold together, more than {MOST}: "
            f"{' and '.join(f'({plain_text(whole)})' for whole, ways in each.items() if len(ways) > 1)}"
        )
    return (ALWAYS.union(*chosen) for chosen in product(*each.values()))


def parts(expression: Any, is_known: IsKnown) -> Iterator[Any]:
    """Yield what *expression* is made of by ``and``, ``or`` and ``not``, as far as it is taken apart."""
    if is_known(expression) or not isinstance(expression, (prim.LogicalNot, prim.LogicalAnd, prim.LogicalOr)):
        yield expression
    else:
        for child in (expression.child,) if isinstance(expression, prim.LogicalNot) else expression.children:
            yield from parts(child, is_known)


def is_true(expression: Any, of_parts: Mapping[Any, bool]) -> bool:
    """Return whether *expression* is, where it is known of its parts."""
    if expression in of_parts:
        return of_parts[expression]
    if isinstance(expression, prim.LogicalNot):
        return not is_true(expression.child, of_parts)
    combined = all if isinstance(expression, prim.LogicalAnd) else any
    return combined(is_true(child, of_parts) for child in expression.children)


def _first_deciding(children: tuple[Any, ...], is_known: IsKnown, deciding: bool) -> Iterator[Conditions]:
    """Yield the ways in which one child is *deciding* and those before it are not."""
    for place, child in enumerate(children):
        for before in all_of(children[:place], is_known, not deciding):
            yield from (before | decided for decided in alternatives(child, is_known, deciding))
