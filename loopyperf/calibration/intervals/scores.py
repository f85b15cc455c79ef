"""The scores that intervals are made from, of kernel classes left out.

What is made of them is in :mod:`loopyperf.calibration.intervals.uncertainty`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.intervals.uncertainty import Uncertainty
from loopyperf.calibration.problem import Observation, Vector
from loopyperf.calibration.solution import Solution
from loopyperf.calibration.validation import OutOfFold

DIGITS = 6
"""significant ones that are kept of a score and of the covariance"""


def uncertainty(solution: Solution, observations: Sequence[Observation], left_out: OutOfFold) -> Uncertainty:
    """Return what the intervals of *solution* are made from, given what it says of classes that were left out."""
    ratios = left_out.seconds / np.array([row.seconds for row in observations])
    known = np.array([not missing for missing in left_out.unknown])
    chosen = known if known.any() else np.ones_like(known)
    errors = np.log(np.maximum(ratios, np.finfo(float).tiny))[chosen]
    unlike = np.sqrt(1 + left_out.leverages[chosen])
    classes = np.array([row.kernel_class for row in observations])[chosen]
    scores = np.sort(np.abs(errors) / unlike)
    return Uncertainty(
        scores=tuple(map(rounded, scores.tolist())),
        columns=tuple(solution.weights),
        covariance=tuple(tuple(map(rounded, row)) for row in solution.covariance.tolist()),
        deviations=tuple(sorted(map(rounded, _deviations(errors, unlike, classes).tolist()))),
    )


def _deviations(errors: Vector, unlike: Vector, classes: NDArray[np.str_]) -> Vector:
    """Return how far each of *errors* is from the mean of its class, of classes that have several."""
    found: list[Vector] = []
    for each in np.unique(classes):
        own = classes == each
        number = int(own.sum())
        if number > 1:
            found.append((errors[own] - errors[own].mean()) / unlike[own] * np.sqrt(number / (number - 1)))
    return np.concatenate(found) if found else np.zeros(0)


def rounded(number: float) -> float:
    """Return *number* with as many digits as files keep."""
    return float(f"{number:.{DIGITS}g}")
