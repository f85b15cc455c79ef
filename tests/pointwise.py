"""Evaluation of expressions at all points at once, and a test for linearity that needs no points."""

from typing import Any

import numpy as np
import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies
from pymbolic.mapper.evaluator import EvaluationMapper


class PointwiseEvaluator(EvaluationMapper):
    """Evaluates at all points at once; pymbolic's own logical operators need a single truth value."""

    def map_logical_and(self, expr: prim.LogicalAnd) -> Any:
        return np.logical_and.reduce(np.broadcast_arrays(*map(self.rec, expr.children)))

    def map_logical_or(self, expr: prim.LogicalOr) -> Any:
        return np.logical_or.reduce(np.broadcast_arrays(*map(self.rec, expr.children)))

    def map_logical_not(self, expr: prim.LogicalNot) -> Any:
        return np.logical_not(self.rec(expr.child))

    def map_if(self, expr: prim.If) -> Any:
        return np.where(self.rec(expr.condition), self.rec(expr.then), self.rec(expr.else_))

    def map_call(self, expr: prim.Call) -> Any:
        assert str(getattr(expr.function, "name", "")) == "abs", f"{expr} is not known"
        return np.abs(self.rec(expr.parameters[0]))

    def map_min(self, expr: prim.Min) -> Any:
        return np.minimum.reduce(np.broadcast_arrays(*map(self.rec, expr.children)))

    def map_max(self, expr: prim.Max) -> Any:
        return np.maximum.reduce(np.broadcast_arrays(*map(self.rec, expr.children)))


def is_even(expr: Any, variable: str, loops: frozenset[str]) -> bool:
    """Return whether the form of *expr* shows that its step in *variable* is the same at all points of *loops*."""
    parts = [part for part in getattr(expr, "children", ()) if variable in get_dependencies(part)]
    if variable not in get_dependencies(expr) or isinstance(expr, prim.Variable):
        return True
    if (
        isinstance(expr, prim.Product)
        and sum(not loops.isdisjoint(get_dependencies(each)) for each in expr.children) > 1
    ):
        return False
    return isinstance(expr, (prim.Sum, prim.Product)) and all(is_even(part, variable, loops) for part in parts)
