"""Enumeration of all integer points of a parametric set with NumPy, at many sizes at once.

For each dimension in turn, each point found so far is extended by every value between the bounds of the next dimension,
and the points that satisfy all constraints are kept. isl only computes projections; it counts nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import numpy as np

DIV, PARAM, SET = isl.dim_type.div, isl.dim_type.param, isl.dim_type.set
Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Points:
    """Points at several sizes, one row per point."""

    columns: Columns
    """coordinates and parameters, by name"""
    size: np.ndarray
    """index of the size of each point"""
    sizes: int
    """number of sizes, including those without points"""

    def __len__(self) -> int:
        return len(self.size)

    def number(self, where: np.ndarray | None = None) -> np.ndarray:
        """Return the number of points at each size, or of the points selected by *where*."""
        return np.bincount(self.size if where is None else self.size[where], minlength=self.sizes)

    def agree(self, values: np.ndarray) -> bool:
        """Return whether *values*, one for each point, are equal at all points of each size."""
        of_size = np.zeros(self.sizes, int)
        of_size[self.size] = values
        return bool((values == of_size[self.size]).all())

    def rows(self, names: Sequence[str], size: int) -> list[tuple[int, ...]]:
        """Return the coordinates *names* of the points at one size."""
        there = self.size == size
        columns = [self.columns[name][there].tolist() for name in names]
        return list(zip(*columns, strict=True)) if columns else [()] * int(there.sum())


def listed(domain: isl.Set, sizes: Sequence[Mapping[str, int]]) -> Points:
    """Return all points of *domain* at each of *sizes*."""
    columns = {name: np.array([size[name] for size in sizes], dtype=int) for name in (sizes[0] if sizes else ())}
    points = Points(columns, np.arange(len(sizes)), len(sizes))
    for place in range(domain.dim(SET) + 1):
        outer = domain.project_out(SET, place, domain.dim(SET) - place)
        points = _extended(outer.compute_divs(), place, points)
    return points


def _extended(outer: isl.Set, place: int, points: Points) -> Points:
    """Return *points* extended by the last coordinate of *outer*; only filtered if *place* is 0."""
    name = outer.get_dim_name(SET, place - 1) if place else None
    parts = [_inside(basic, points, name) for basic in outer.get_basic_sets()]
    if not parts:
        return _chosen(points if name is None else _with(points, name, points.size), np.zeros(0, int))
    joined = Points(
        {key: np.concatenate([part.columns[key] for part in parts]) for key in parts[0].columns},
        np.concatenate([part.size for part in parts]),
        points.sizes,
    )
    return joined if len(parts) == 1 else _each_once(joined)


def _inside(basic: isl.BasicSet, points: Points, name: str | None) -> Points:
    if name is not None:
        points = _between_bounds(basic, points, name)
    columns = _with_divs(basic, points)
    inside = np.ones(len(points), bool)
    for constraint in basic.get_constraints():
        value = _value(constraint.get_aff(), columns, len(points))
        inside &= value == 0 if constraint.is_equality() else value >= 0
    return _chosen(points, np.flatnonzero(inside))


def _between_bounds(basic: isl.BasicSet, points: Points, name: str) -> Points:
    """Return *points*, each repeated for every value of *name* between its rational bounds."""
    low, high = [], []
    for constraint in basic.remove_divs().get_constraints():
        expression = constraint.get_aff()
        step = _integer(expression.get_coefficient_val(isl.dim_type.in_, expression.dim(isl.dim_type.in_) - 1))
        rest = _value(expression, {**points.columns, name: np.zeros(len(points), int)}, len(points))
        if step > 0 or (step and constraint.is_equality()):
            low.append(-(rest // step) if step > 0 else -((-rest) // -step))
        if step < 0 or (step and constraint.is_equality()):
            high.append(rest // -step if step < 0 else (-rest) // step)
    bottom = np.max(low, axis=0)
    number = np.maximum(np.min(high, axis=0) - bottom + 1, 0)
    chosen = np.repeat(np.arange(len(points)), number)
    first = np.repeat(np.cumsum(number) - number, number)
    return _with(_chosen(points, chosen), name, bottom[chosen] + np.arange(len(chosen)) - first)


def _with_divs(basic: isl.BasicSet, points: Points) -> Columns:
    """Return the columns of *points* and those of the integer divisions in *basic*, by index."""
    columns = dict(points.columns)
    for place in range(basic.dim(DIV)):
        numerator = basic.get_div(place)
        denominator = _integer(numerator.get_denominator_val())
        columns[f"div {place}"] = _value(numerator.scale_val(isl.Val(denominator)), columns, len(points)) // denominator
    return columns


def _value(expression: isl.Aff, columns: Columns, number: int) -> np.ndarray:
    """Return the integer-valued *expression* at each point."""
    value = np.full(number, _integer(expression.get_constant_val()))
    for kind in (PARAM, isl.dim_type.in_):
        for place in range(expression.dim(kind)):
            factor = _integer(expression.get_coefficient_val(kind, place))
            if factor:
                value = value + factor * columns[str(expression.get_dim_name(kind, place))]
    for place in range(expression.dim(DIV)):
        factor = _integer(expression.get_coefficient_val(DIV, place))
        if factor:
            value = value + factor * columns[f"div {place}"]
    return value


def _integer(value: isl.Val) -> int:
    assert value.is_int(), value
    return value.to_python()


# {{{ points with more or fewer rows


def _with(points: Points, name: str, column: np.ndarray) -> Points:
    return Points({**points.columns, name: column}, points.size, points.sizes)


def _chosen(points: Points, rows: np.ndarray) -> Points:
    return Points({name: column[rows] for name, column in points.columns.items()}, points.size[rows], points.sizes)


def _each_once(points: Points) -> Points:
    table = np.stack([points.size, *points.columns.values()], axis=1)
    _, first = np.unique(table, axis=0, return_index=True)
    return _chosen(points, first)


# }}}
