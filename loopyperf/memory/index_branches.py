"""An index that a condition chooses, as at the border of a stencil, taken apart: one index for each branch."""

from collections.abc import Iterator
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import IdentityMapper, WalkMapper

from loopyperf.counts.conditions import ALWAYS, SEVERAL, Condition, Conditions

Indices = tuple[Any, ...]


def branches(indices: Indices, conditions: Conditions = ALWAYS) -> Iterator[tuple[Indices, Conditions]]:
    """Yield *indices* without choices in them, and the conditions under which they are those, beside *conditions*.

    Indices with as many conditions as have more than :data:`SEVERAL` branches are not taken apart any further.
    """
    finder = _ConditionFinder()
    for index in indices:
        finder(index)
    if not finder.found or 2 ** len(conditions) >= SEVERAL:
        yield indices, conditions
        return
    for holds in (True, False):
        chosen = Condition(finder.found[0], holds)
        branch = _Branch(chosen)
        yield from branches(tuple(branch(index) for index in indices), conditions | {chosen})


class _ConditionFinder(WalkMapper[[]]):
    """Finds the conditions of choices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def map_if(self, expr: prim.If) -> None:
        self.found.append(expr.condition)


class _Branch(IdentityMapper[[]]):
    """Replaces the choices that a condition makes by what they are where it holds, or where it does not."""

    def __init__(self, chosen: Condition) -> None:
        super().__init__()
        self.chosen = chosen

    def map_if(self, expr: prim.If) -> Any:
        if expr.condition != self.chosen.expression:
            return super().map_if(expr)
        return self.rec(expr.then if self.chosen.holds else expr.else_)
