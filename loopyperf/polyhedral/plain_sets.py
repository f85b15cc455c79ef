"""Sets and maps of integer points as plain numbers: compared, hashed and pickled by value.

An isl object belongs to isl's memory, so persistent values hold its constraints instead. isl reconstructs the set from
them, unless it is a box or maps boxes to boxes, which Python handles without isl.
"""

from dataclasses import dataclass
from functools import lru_cache, reduce

import islpy as isl

from loopyperf.polyhedral.points import Box
from loopyperf.polyhedral.sets import as_int

SET = isl.dim_type.set
PARAM = isl.dim_type.param
IN = isl.dim_type.in_
OUT = isl.dim_type.out
ORDER = (isl.dim_type.cst, PARAM, SET, isl.dim_type.div)
"""columns of a row"""


Rows = tuple[tuple[int, ...], ...]
"""one row per constraint: its constant, the coefficient of each dimension, then of each existential variable"""


@dataclass(frozen=True, slots=True)
class Conjunction:
    """The points at which some affine expressions are 0, and others are >= 0."""

    equalities: Rows
    """expressions that are 0"""
    inequalities: Rows
    """expressions that are >= 0"""
    columns: int
    """length of a row"""


@dataclass(frozen=True, slots=True)
class PlainSet:
    """A union of conjunctions without parameters."""

    dimensions: int
    """number of coordinates of a point"""
    parts: tuple[Conjunction, ...]
    """may overlap"""

    @classmethod
    def of(cls, points: isl.Set) -> "PlainSet":
        """Return *points*, which must have no parameters, as a plain set."""
        return cls(points.dim(SET), tuple(map(_conjunction, points.get_basic_sets())))

    @property
    def isl(self) -> isl.Set:
        """Return the set as an isl set without names."""
        space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, self.dimensions)
        parts = (
            isl.BasicSet.from_constraint_matrices(
                space, _matrix(part.equalities, part.columns), _matrix(part.inequalities, part.columns), *ORDER
            ).to_set()
            for part in self.parts
        )
        return reduce(isl.Set.union, parts, isl.Set.empty(space))


@dataclass(frozen=True, slots=True)
class PlainMap:
    """A union of conjunctions over pairs of points, without parameters."""

    inputs: int
    """number of coordinates of an input point"""
    outputs: int
    """number of coordinates of an output point"""
    parts: tuple[Conjunction, ...]
    """with the inputs before the outputs in each row"""

    @classmethod
    def of(cls, pairs: isl.Map) -> "PlainMap":
        """Return *pairs*, which must have no parameters, as a plain map."""
        inputs, outputs = pairs.dim(IN), pairs.dim(OUT)
        return cls(inputs, outputs, PlainSet.of(pairs.move_dims(OUT, 0, IN, 0, inputs).range()).parts)

    @property
    def isl(self) -> isl.Map:
        """Return the map as an isl map without names."""
        points = PlainSet(self.inputs + self.outputs, self.parts).isl
        return isl.Map.from_range(points).move_dims(IN, 0, OUT, 0, self.inputs)


def plain_box(points: PlainSet) -> Box | None:
    """Return *points* as a product of intervals; None if the constraints do not show that they are one."""
    if len(points.parts) != 1 or points.parts[0].columns > 1 + points.dimensions:
        return None
    (part,) = points.parts
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    for row in (*part.inequalities, *part.equalities, *(tuple(-each for each in row) for row in part.equalities)):
        involved = [place for place, factor in enumerate(row[1:]) if factor]
        if len(involved) != 1:
            return None
        place, factor = involved[0], row[1 + involved[0]]
        if factor > 0:
            low[place] = max(low.get(place, -(row[0] // factor)), -(row[0] // factor))
        else:
            high[place] = min(high.get(place, row[0] // -factor), row[0] // -factor)
    places = range(points.dimensions)
    if not low.keys() & high.keys() >= {*places} or any(low[place] > high[place] for place in places):
        return None
    return tuple(range(low[place], high[place] + 1) for place in places)


def _conjunction(part: isl.BasicSet) -> Conjunction:
    assert not part.dim(PARAM), f"{part} has parameters"
    equal, least = part.equalities_matrix(*ORDER), part.inequalities_matrix(*ORDER)
    return Conjunction(_rows(equal), _rows(least), equal.cols())


def _rows(matrix: isl.Mat) -> Rows:
    columns = range(matrix.cols())
    return tuple(
        tuple(as_int(matrix.get_element_val(row, column)) for column in columns) for row in range(matrix.rows())
    )


def _matrix(rows: Rows, columns: int) -> isl.Mat:
    found = isl.Mat.alloc(isl.DEFAULT_CONTEXT, len(rows), columns)
    for place, row in enumerate(rows):
        for column, value in enumerate(row):
            found = found.set_element_val(place, column, _number(value))
    return found


@lru_cache(256)
def _number(value: int) -> isl.Val:
    """Return *value* as an isl value; cached, since most coefficients are the same few numbers."""
    return isl.Val(value)
