"""How well a fit can tell each property from the others, beside which kernels exercise it and in which numbers.

Let εᵢ be the own part of property i's column: the distance of the unit column from all combinations of the others
(:mod:`loopyperf.calibration.dependence`). Its variance inflation factor is 1/εᵢ²: 1 where no other property varies with
it; f where noise in the run times moves its weight √f times as far as it would if the others' weights were known. No
mean is subtracted first, as textbooks do, because the model has no constant: launches are a column like any other.
"""

from collections.abc import Iterable

import msgspec
import numpy as np

from loopyperf.calibration.dependence import nearest_combination, own_parts
from loopyperf.calibration.exercised import Coverage, tabulate
from loopyperf.calibration.problem import Problem

WEAK = 100.0
"""Variance inflation from which on a weight is weakly determined: noise of 1 % moves it by 10 % of the run time."""
_ROUNDING = 1e-8
"""An own part below this is 0 but for rounding."""
_SHARE = 0.1
"""of the largest coefficient: smaller ones are not named"""
_NAMED = 3
"""properties that are named as resembling another, at most"""


def coverage(problem: Problem, expected: Iterable[str] = ()) -> tuple[Coverage, ...]:
    """Return a row for each property of *problem*, or *expected*, sorted by name, with its variance inflation.

    The inflation is against all other properties of the problem, those that a fit leaves out among them.
    """
    inflations = variance_inflation(problem)
    return tuple(
        row if row.name not in inflations else _with_inflation(row, problem, inflations[row.name])
        for row in tabulate(problem.observations, expected)
    )


def variance_inflation(problem: Problem) -> dict[str, float]:
    """Return 1/ε² of each property of *problem* (dimensionless, at least 1); infinite where others make it up."""
    return {
        name: float(own**-2) if own > _ROUNDING else np.inf
        for name, own in zip(problem.properties, own_parts(problem.matrix), strict=True)
    }


def _with_inflation(row: Coverage, problem: Problem, inflation: float) -> Coverage:
    return msgspec.structs.replace(
        row,
        inflation=inflation if np.isfinite(inflation) else None,
        resembles=_resembled(problem, row.name) if inflation >= WEAK else (),
    )


def _resembled(problem: Problem, name: str) -> tuple[str, ...]:
    """Return the properties with the largest parts in the combination that comes closest to *name*, largest first."""
    column = problem.properties.index(name)
    others = [other for other in problem.properties if other != name]
    parts = np.abs(nearest_combination(problem.matrix, column))
    largest = sorted(zip(parts, others, strict=True), key=lambda pair: (-pair[0], pair[1]))[:_NAMED]
    return tuple(other for part, other in largest if part >= _SHARE * largest[0][0])
