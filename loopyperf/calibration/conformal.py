"""The scores that intervals are made from (:mod:`loopyperf.calibration.uncertainty`), of kernel classes left out."""

from collections.abc import Sequence

import numpy as np

from loopyperf.calibration.problem import Observation
from loopyperf.calibration.solution import Solution
from loopyperf.calibration.uncertainty import Uncertainty
from loopyperf.calibration.validation import LeftOut

DIGITS = 6
"""significant ones that are kept of a score and of the covariance"""


def uncertainty(solution: Solution, observations: Sequence[Observation], left_out: LeftOut) -> Uncertainty:
    """Return what the intervals of *solution* are made from, given what it says of classes that were left out."""
    ratios = left_out.seconds / np.array([row.seconds for row in observations])
    known = np.array([not missing for missing in left_out.unknown])
    chosen = known if known.any() else np.ones_like(known)
    errors = np.abs(np.log(np.maximum(ratios, np.finfo(float).tiny)))[chosen]
    scores = np.sort(errors / np.sqrt(1 + left_out.leverages[chosen]))
    return Uncertainty(
        scores=tuple(map(rounded, scores.tolist())),
        columns=tuple(solution.weights),
        covariance=tuple(tuple(map(rounded, row)) for row in solution.covariance.tolist()),
    )


def rounded(number: float) -> float:
    """Return *number* with as many digits as files keep."""
    return float(f"{number:.{DIGITS}g}")
