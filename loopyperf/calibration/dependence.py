"""Properties that the measured kernels cannot distinguish.

Let a₁…aₙ be the columns of the problem, scaled to unit length. Column j's own part is its distance from the span of the
others::

    εⱼ = min over c of ‖aⱼ − Σ_{i≠j} cᵢ aᵢ‖        (1/εⱼ² is its variance inflation factor)

Measurement noise s changes a scaled weight by s/εⱼ. If εⱼ is 0, the weight is arbitrary; if it is below s, it is
arbitrary in practice. Such columns are excluded one by one, the rest is fitted, and the relation that made them
redundant is kept (:class:`loopyperf.calibration.problem.Indistinguishable`).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from scipy import linalg, optimize

from loopyperf.calibration.problem import Indistinguishable, Matrix, Problem, Vector

# {{{ linear least squares, plain and non-negative, as typed functions


def least_squares(columns: Matrix, target: Vector) -> Vector:
    """Return the coefficients of *columns* whose combination is closest to *target*."""
    return cast("tuple[Vector, ...]", linalg.lstsq(columns, target))[0]


def non_negative_least_squares(columns: Matrix, target: Vector) -> Vector:
    """Return the non-negative coefficients of *columns* whose combination is closest to *target*."""
    return cast("Vector", optimize.nnls(columns, target)[0])


# }}}


# {{{ dependence


_SINGULAR = 1e-12
"""Singular values of unit columns below this are rounding errors of 0."""
_ROUNDING = 1e-9
"""Coefficients of unit columns below this are rounding errors of an exact dependency."""


@lru_cache(maxsize=32)
def separated(problem: Problem, tolerance: float) -> tuple[list[int], tuple[Indistinguishable, ...]]:
    """Return the columns of *problem* to fit and the indistinguishable ones; cached for all candidates."""
    return separate(problem.matrix, problem.properties, tolerance)


def separate(matrix: Matrix, names: Sequence[str], tolerance: float) -> tuple[list[int], tuple[Indistinguishable, ...]]:
    """Return the indices of the columns to fit, ascending, and the groups of indistinguishable columns.

    *matrix* is (rows × names), without zero columns. A column that is a non-negative combination of others is excluded
    first (of a total and its parts, the total; then non-negative fits lose nothing), and of equal candidates the later
    one, so that the choice is deterministic.
    """
    scale = np.linalg.norm(matrix, axis=0)
    columns = _unit_columns(matrix)
    kept = _kept(columns, tolerance)
    left_out = [column for column in range(len(names)) if column not in kept]
    relations: dict[str, dict[str, float]] = {}
    mismatches: dict[str, float] = {}
    for column in left_out:
        factors, mismatches[names[column]] = _relation(columns, kept, column)
        # Rounded, so that a factor of 1 is written as 1.0 and files are easy to compare.
        relations[names[column]] = {
            names[other]: float(f"{factor * scale[column] / scale[other]:.12g}") for other, factor in factors.items()
        }
    return kept, _groups(relations, mismatches)


def own_parts(columns: Matrix) -> Vector:
    """Return the own parts ε (0 to 1) of unit columns: with A = U·S·Vᵀ, 1/εⱼ² = (AᵀA)⁻¹ⱼⱼ = Σₖ (Vⱼₖ/sₖ)²."""
    singular, turned = cast("tuple[Matrix, Vector, Matrix]", linalg.svd(columns))[1:]
    # With more columns than rows, some singular values are missing.
    lengths = np.full(columns.shape[1], _SINGULAR)
    lengths[: len(singular)] = np.maximum(singular, _SINGULAR)
    return 1 / np.linalg.norm(turned.T / lengths, axis=1)


def _unit_columns(matrix: Matrix) -> Matrix:
    """Return the triangular factor of the unit columns, which has the same geometry in a minimal number of rows."""
    scale = np.linalg.norm(matrix, axis=0)
    return cast("Matrix", linalg.qr(matrix / scale, mode="r")[0])[: matrix.shape[1]]


def _kept(columns: Matrix, tolerance: float) -> list[int]:
    kept = list(range(columns.shape[1]))
    for combine in (non_negative_least_squares, least_squares):
        suspects = _suspects(columns, kept, tolerance)
        for column in reversed(tuple(kept)):
            others = [other for other in kept if other != column]
            if others and column in suspects:
                target = columns[:, column]
                distance = np.linalg.norm(target - columns[:, others] @ combine(columns[:, others], target))
                kept = others if distance <= tolerance else kept
    return kept


def _suspects(columns: Matrix, kept: list[int], tolerance: float) -> set[int]:
    """Return those of the *kept* columns that may be within *tolerance* of a combination of the others.

    Excluding some of them brings no other column closer to the rest. A non-negative combination, which is slow to
    compute, is no closer than an unrestricted one.
    """
    return {column for column, own in zip(kept, own_parts(columns[:, kept]), strict=True) if own <= 2 * tolerance}


def _relation(columns: Matrix, kept: list[int], column: int) -> tuple[dict[int, float], float]:
    """Return the coefficients of the kept columns that approximate the excluded one, and the remaining distance."""
    factors = least_squares(columns[:, kept], columns[:, column])
    mismatch = float(np.linalg.norm(columns[:, column] - columns[:, kept] @ factors))
    noise = max(mismatch, _ROUNDING)
    return {other: float(factor) for other, factor in zip(kept, factors, strict=True) if abs(factor) > noise}, mismatch


def _groups(
    relations: Mapping[str, Mapping[str, float]], mismatches: Mapping[str, float]
) -> tuple[Indistinguishable, ...]:
    """Return the relations in groups without common properties."""
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


# }}}
