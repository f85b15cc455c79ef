"""Conditions under which something runs, taken apart where the source does not tell how often they hold.

A condition that is an affine function of loop variables and sizes stays whole: it selects points, exactly. One that
depends on data is taken apart at its ``and``, ``or`` and ``not``, so that what is affine in it stays exact and what is
not can be asked for by name.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pymbolic.primitives as prim
from loopy.symbolic import WalkMapper


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition under which something runs: *expression* is true, or false where *holds* is False."""

    expression: Any
    holds: bool = True


def plain_text(expression: Any) -> str:
    """Return *expression* as people write it: Loopy underlines the names of the functions that it knows."""
    return str(expression).replace("\N{COMBINING LOW LINE}", "")


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
    """Yield disjoint sets of conditions; all of *expressions* are true (or false) where one of them holds."""
    each = [tuple(alternatives(expression, is_known, holds)) for expression in expressions]
    return (ALWAYS.union(*chosen) for chosen in product(*each))


def _first_deciding(children: tuple[Any, ...], is_known: IsKnown, deciding: bool) -> Iterator[Conditions]:
    """Yield the ways in which one child is *deciding* and those before it are not."""
    for place, child in enumerate(children):
        for before in all_of(children[:place], is_known, not deciding):
            yield from (before | decided for decided in alternatives(child, is_known, deciding))
