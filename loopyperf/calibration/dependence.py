"""Properties that the measured kernels cannot tell apart.

Let a₁…aₙ be the columns of the problem, scaled to unit length. Column j's own part is its distance from the others::

    εⱼ = min over c of ‖aⱼ − Σ_{i≠j} cᵢ aᵢ‖        (1/εⱼ² is its variance inflation factor)

Noise s in the measurements moves a scaled weight by s/εⱼ. Where εⱼ is 0 the weight is arbitrary; where it is below s,
it is arbitrary in practice. Such columns are left out one by one, the rest is fitted, and the relation that made them
superfluous is kept (:mod:`loopyperf.calibration.indistinguishable`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from scipy import linalg

from loopyperf.calibration.indistinguishable import Indistinguishable
from loopyperf.calibration.least_squares import least_squares, non_negative_least_squares
from loopyperf.calibration.problem import Matrix, Problem, Vector

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
