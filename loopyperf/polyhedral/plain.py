"""Sets and maps of integer points as plain numbers, which are equal, hashed and pickled by value.

A value of isl belongs to isl's memory. What is kept in a value of ours are its constraints; isl makes the same set of
them again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import islpy as isl

CONSTANT, PARAM, IN, OUT, SET, DIV = (
    isl.dim_type.cst,
    isl.dim_type.param,
    isl.dim_type.in_,
    isl.dim_type.out,
    isl.dim_type.set,
    isl.dim_type.div,
)
Rows = tuple[tuple[int, ...], ...]
"""of a constraint each: its constant, then the coefficient of each dimension, then of each existential variable"""


@dataclass(frozen=True, slots=True)
class Conjunction:
    """The points at which some affine expressions are 0, and others are at least 0."""

    equalities: Rows
    """expressions that are 0"""
    inequalities: Rows
    """expressions that are at least 0"""
    columns: int
    """of each row"""


@dataclass(frozen=True, slots=True)
class PlainSet:
    """The points of some conjunctions together, without parameters."""

    dimensions: int
    """coordinates of a point"""
    parts: tuple[Conjunction, ...]
    """which may share points"""

    @classmethod
    def of(cls, points: isl.Set) -> "PlainSet":
        """Return *points*, which have no parameters."""
        order = (CONSTANT, PARAM, SET, DIV)
        return cls(points.dim(SET), tuple(_conjunction(each, order) for each in points.get_basic_sets()))

    @property
    def isl(self) -> isl.Set:
        """Return it as isl has it, without names."""
        space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, self.dimensions)
        parts = (
            isl.BasicSet.from_constraint_matrices(space, *_matrices(each), CONSTANT, PARAM, SET, DIV).to_set()
            for each in self.parts
        )
        return reduce(isl.Set.union, parts, isl.Set.empty(space))


@dataclass(frozen=True, slots=True)
class PlainMap:
    """The pairs of points of some conjunctions together, without parameters."""

    inputs: int
    """coordinates of what is mapped"""
    outputs: int
    """coordinates of what it is mapped to"""
    parts: tuple[Conjunction, ...]
    """whose rows have the inputs before the outputs"""

    @classmethod
    def of(cls, pairs: isl.Map) -> "PlainMap":
        """Return *pairs*, which have no parameters."""
        order = (CONSTANT, PARAM, IN, OUT, DIV)
        parts = tuple(_conjunction(each, order) for each in pairs.get_basic_maps())
        return cls(pairs.dim(IN), pairs.dim(OUT), parts)

    @property
    def isl(self) -> isl.Map:
        """Return it as isl has it, without names."""
        space = isl.Space.alloc(isl.DEFAULT_CONTEXT, 0, self.inputs, self.outputs)
        parts = (
            isl.BasicMap.from_constraint_matrices(space, *_matrices(each), CONSTANT, PARAM, IN, OUT, DIV).to_map()
            for each in self.parts
        )
        return reduce(isl.Map.union, parts, isl.Map.empty(space))


def _conjunction(part: isl.BasicSet | isl.BasicMap, order: Sequence[isl.dim_type]) -> Conjunction:
    assert not part.dim(PARAM), f"{part} has parameters"
    equal, least = part.equalities_matrix(*order), part.inequalities_matrix(*order)
    return Conjunction(_rows(equal), _rows(least), equal.cols())


def _rows(matrix: isl.Mat) -> Rows:
    columns = range(matrix.cols())
    return tuple(
        tuple(matrix.get_element_val(row, column).to_python() for column in columns) for row in range(matrix.rows())
    )


def _matrices(part: Conjunction) -> tuple[isl.Mat, isl.Mat]:
    return _matrix(part.equalities, part.columns), _matrix(part.inequalities, part.columns)


def _matrix(rows: Rows, columns: int) -> isl.Mat:
    found = isl.Mat.alloc(isl.DEFAULT_CONTEXT, len(rows), columns)
    for place, row in enumerate(rows):
        for column, value in enumerate(row):
            found = found.set_element_val(place, column, _number(value))
    return found


@lru_cache(256)
def _number(value: int) -> isl.Val:
    """Return *value* as isl has it: most coefficients are the same few numbers."""
    return isl.Val(value)
