"""Where a condition holds that is affine in each pass of a short loop, if not in all of them together.

``l % 2**(k+1) == 0`` is such: with a number for k, isl takes it. So a loop over the levels of a tree, which is as short
as the logarithm of the tree's width, is as exact as one whose conditions are affine.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from typing import Any, cast

import islpy as isl
import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionToAffineConversionError
from loopy.symbolic import SubstitutionMapper, get_dependencies, isl_set_from_expr
from pymbolic import evaluate

from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, points_where_quasi_affine

MOST = 64
"""cases: a loop with more passes is none over the levels of a tree"""

Values = Callable[[str], "range | None"]
"""tells the values that a loop's variable has at most; None where sizes tell, and for what is no such variable"""


def points_where(space: isl.Space, condition: Any, values: Values, most: int = MOST) -> isl.Set | None:
    """Return the points of *space* at which *condition* is true, None where it is not affine in at most *most* cases.

    A case is a value of one of the variables, or of several: where they have *values* to try.
    """
    try:
        return isl_set_from_expr(space, condition)
    except (ExpressionToAffineConversionError, NotImplementedError, isl.Error, AttributeError):
        # An AttributeError is what Loopy raises for a truth value that is compared, as in (not i) == 0.
        with suppress(NotQuasiAffineError):  # Loopy takes no bits: (i & 1) != 0
            return points_where_quasi_affine(space, condition)
        tried = ((name, values(name)) for name in sorted(get_dependencies(condition)))
        found = (_in_cases(space, condition, name, each, values, most) for name, each in tried if each)
        return next((points for points in found if points is not None), None)


def _in_cases(space: isl.Space, condition: Any, name: str, each: range, values: Values, most: int) -> isl.Set | None:
    if len(each) > most:
        return None
    cases: list[isl.Set] = []
    for value in each:
        case = points_where(space, _WithValue(name, value)(condition), values, most // len(each))
        if case is None:
            return None
        cases.append(case & isl_set_from_expr(space, prim.Comparison(prim.Variable(name), "==", value)))
    return reduce(isl.Set.union, cases).coalesce()


class _WithValue(SubstitutionMapper):
    """Puts in a number for a variable, and works out the powers and shifts that are numbers then."""

    def __init__(self, name: str, value: int) -> None:
        super().__init__(lambda leaf: value if isinstance(leaf, prim.Variable) and leaf.name == name else None)

    def map_power(self, expr: prim.Power) -> Any:
        return _worked_out(super().map_power(expr))

    def map_left_shift(self, expr: prim.LeftShift) -> Any:
        return _worked_out(super().map_left_shift(expr))

    def map_right_shift(self, expr: prim.RightShift) -> Any:
        return _worked_out(super().map_right_shift(expr))


def _worked_out(expression: Any) -> Any:
    """Return *expression* as an integer if it is one: no other variable is in it, and no negative exponent or shift."""
    if get_dependencies(expression):
        return expression
    try:
        value = cast("Any", evaluate(expression))
    except ValueError:
        return expression
    return value if isinstance(value, int) else expression
