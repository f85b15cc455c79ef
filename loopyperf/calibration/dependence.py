"""Properties that the measured kernels cannot tell apart.

Let a₁…aₙ be the columns of the problem, scaled to unit length. Column j's own part is its distance from the others::

    εⱼ = min over c of ‖aⱼ − Σ_{i≠j} cᵢ aᵢ‖        (1/εⱼ² is its variance inflation factor)

Noise s in the measurements moves a scaled weight by s/εⱼ. Where εⱼ is 0 the weight is arbitrary; where it is below s,
it is arbitrary in practice. Such columns are left out one by one, the rest is fitted, and the relation that made them
superfluous is kept (:class:`loopyperf.calibration.problem.Indistinguishable`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import cast

import msgspec
import numpy as np
from scipy import linalg, optimize

from loopyperf.calibration.problem import Coverage, Indistinguishable, Matrix, Problem, Vector, tabulate

# {{{ linear least squares, plain and non-negative: SciPy's, which states no types


def least_squares(columns: Matrix, target: Vector) -> Vector:
    """Return the factors of *columns*, of which the sum is nearest to *target*."""
    return cast("tuple[Vector, ...]", linalg.lstsq(columns, target))[0]


def non_negative_least_squares(columns: Matrix, target: Vector) -> Vector:
    """Return the factors of *columns*, none of them negative, of which the sum is nearest to *target*."""
    return cast("Vector", optimize.nnls(columns, target)[0])


# }}}


# {{{ dependence


_SINGULAR = 1e-12
"""Singular values of unit columns below this are 0 but for rounding."""
_ROUNDING = 1e-9
"""Coefficients of unit columns below this are rounding errors of an exact dependency."""

Combination = Callable[[Matrix, Vector], Vector]
"""coefficients that bring a combination of the matrix's columns closest to the vector"""


@lru_cache(maxsize=32)
def separated(problem: Problem, tolerance: float) -> tuple[list[int], tuple[Indistinguishable, ...]]:
    """Return the columns of *problem* to fit and those that cannot be told apart, found once for all ways to fit it."""
    return separate(problem.matrix, problem.properties, tolerance)


def separate(matrix: Matrix, names: Sequence[str], tolerance: float) -> tuple[list[int], tuple[Indistinguishable, ...]]:
    """Return the indices of the columns to fit, ascending, and the groups of those that cannot be told apart.

    *matrix* is (rows × names), no column of zeros. A column that others make up with coefficients that are not negative
    goes first (of a total and its parts: the total; then no non-negative fit loses anything), and among equal
    candidates the later one, so the choice never depends on chance.
    """
    scale = np.linalg.norm(matrix, axis=0)
    columns = _unit_columns(matrix)
    kept = _kept(columns, tolerance)
    left_out = [column for column in range(len(names)) if column not in kept]
    relations: dict[str, dict[str, float]] = {}
    mismatches: dict[str, float] = {}
    for column in left_out:
        factors, mismatches[names[column]] = _relation(columns, kept, column)
        # Rounded, so that a factor of 1 is written 1.0 and files compare well.
        relations[names[column]] = {
            names[other]: float(f"{factor * scale[column] / scale[other]:.12g}") for other, factor in factors.items()
        }
    return kept, _groups(relations, mismatches)


def own_parts(matrix: Matrix) -> Vector:
    """Return each column's own part ε (dimensionless, 0 to 1), whatever the lengths of the columns.

    *matrix* is (rows × columns), no column of zeros.
    """
    return _own_parts_of_units(_unit_columns(matrix))


def _own_parts_of_units(columns: Matrix) -> Vector:
    """Return the own parts of columns of unit length; for these, A = U·S·Vᵀ, 1/εⱼ² = (AᵀA)⁻¹ⱼⱼ = Σₖ (Vⱼₖ/sₖ)²."""
    singular, turned = cast("tuple[Matrix, Vector, Matrix]", linalg.svd(columns))[1:]
    # Of more columns than rows, some singular values are not even there.
    lengths = np.full(columns.shape[1], _SINGULAR)
    lengths[: len(singular)] = np.maximum(singular, _SINGULAR)
    return 1 / np.linalg.norm(turned.T / lengths, axis=1)


def nearest_combination(matrix: Matrix, column: int) -> Vector:
    """Return the coefficients of the other columns, (columns − 1), that bring them closest to *column*.

    All columns of *matrix*, (rows × columns), are of unit length for this: a coefficient of 1 is a whole column.
    """
    columns = _unit_columns(matrix)
    return least_squares(np.delete(columns, column, axis=1), columns[:, column])


def _unit_columns(matrix: Matrix) -> Matrix:
    """Return the triangular factor of unit columns, which has their geometry in as few rows as possible."""
    scale = np.linalg.norm(matrix, axis=0)
    return cast("Matrix", linalg.qr(matrix / scale, mode="r")[0])[: matrix.shape[1]]


def _kept(columns: Matrix, tolerance: float) -> list[int]:
    kept = list(range(columns.shape[1]))
    for combine in (non_negative_least_squares, least_squares):
        suspects = _suspects(columns, kept, tolerance)
        for column in reversed(tuple(kept)):
            others = [other for other in kept if other != column]
            if others and column in suspects and _distance(columns, others, column, combine) <= tolerance:
                kept = others
    return kept


def _suspects(columns: Matrix, kept: list[int], tolerance: float) -> set[int]:
    """Return those of the *kept* columns that may be within *tolerance* of a combination of the others.

    Once some of them are left out, no other comes closer to what is left. A non-negative combination comes no closer
    than any other, and is what takes long to find.
    """
    return {
        column for column, own in zip(kept, _own_parts_of_units(columns[:, kept]), strict=True) if own <= 2 * tolerance
    }


def _relation(columns: Matrix, kept: list[int], column: int) -> tuple[dict[int, float], float]:
    """Return the factors of the kept columns that make up the left-out one, and how far it is from that combination."""
    factors = least_squares(columns[:, kept], columns[:, column])
    mismatch = float(np.linalg.norm(columns[:, column] - columns[:, kept] @ factors))
    noise = max(mismatch, _ROUNDING)
    return {other: float(factor) for other, factor in zip(kept, factors, strict=True) if abs(factor) > noise}, mismatch


def _groups(
    relations: Mapping[str, Mapping[str, float]], mismatches: Mapping[str, float]
) -> tuple[Indistinguishable, ...]:
    """Return the relations gathered into groups that share no property."""
    groups: list[tuple[set[str], list[str]]] = []
    for name, equal in relations.items():
        touching = [group for group in groups if group[0] & equal.keys()]
        groups = [group for group in groups if group not in touching]
        members = set(equal).union(*(group[0] for group in touching))
        groups.append((members, [left for group in touching for left in group[1]] + [name]))
    return tuple(
        Indistinguishable(
            left_out={name: relations[name] for name in sorted(left_out)},
            mismatch=max(mismatches[name] for name in left_out),
        )
        for _, left_out in groups
    )


def _distance(columns: Matrix, others: list[int], column: int, combine: Combination) -> float:
    factors = combine(columns[:, others], columns[:, column])
    return float(np.linalg.norm(columns[:, column] - columns[:, others] @ factors))


# }}}


# {{{ how well a fit can tell each property from the others
#
# Beside which kernels exercise it and in which numbers.
#
# Let εᵢ be the own part of property i's column: the distance of the unit column from all combinations of the others.
# Its variance inflation factor is 1/εᵢ²: 1 where no other property varies
# with it; f where noise in the run times moves its weight √f times as far as it would if the others' weights were
# known. No mean is subtracted first, as textbooks do, because the model has no constant: launches are a column like any
# other.


WEAK = 100.0
"""Variance inflation from which on a weight is weakly determined: noise of 1 % moves it by 10 % of the run time."""
_ROUNDING_OF_INVERSE = 1e-8
"""An own part below this is 0 but for rounding."""
_SHARE = 0.1
"""of the largest coefficient: smaller ones are not named"""
_NAMED = 3
"""properties that are named as resembling another, at most"""


def property_coverage(problem: Problem, expected: Iterable[str] = ()) -> tuple[Coverage, ...]:
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
        name: float(own**-2) if own > _ROUNDING_OF_INVERSE else np.inf
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


# }}}
