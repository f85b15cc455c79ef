"""Times that grow by the same with each warp, conflict or step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import stats

from loopyperf.errors import MeasurementError
from loopyperf.measurement.microbenchmarks.estimated import Estimated
from loopyperf.measurement.microbenchmarks.robust_fit import Values, robust_fit

ONE_SIGMA = 0.8413
"""probability that a normal number is less than one standard deviation above its mean"""


@dataclass(frozen=True, slots=True)
class Line:
    """y = intercept + slope·x."""

    intercept: Estimated
    slope: Estimated
    residual: float
    """largest relative deviation of a value from the line"""


def straight_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Return the line that fits the *y*, all above 0, best in relative terms.

    Raises :class:`MeasurementError` for fewer than three values of *x*, or a *y* that is not above 0.
    """
    places, values = np.array(x, float), np.array(y, float)
    if len(set(places.tolist())) < 3 or places.shape != values.shape or not (values > 0).all():
        raise MeasurementError(f"a line needs values above 0 at three places or more; received {list(y)} at {list(x)}")
    weighted = np.stack([1 / values, places / values], axis=1)
    start = np.linalg.lstsq(weighted, np.ones(len(values)), rcond=None)[0].astype(np.float64)

    def deviations(line: Values) -> Values:
        return weighted @ line - 1

    line = robust_fit(deviations, [start])
    left = deviations(line)
    freedom = len(values) - 2
    variance = float(left @ left) / freedom
    # Of few values the scatter is hardly known: two thirds of all lines are then within Student's factor, not within 1.
    factor = float(cast("Any", stats.t).ppf(ONE_SIGMA, freedom))
    errors = factor * np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted)) * variance)
    intercept, slope = (Estimated(float(value), float(error)) for value, error in zip(line, errors, strict=True))
    return Line(intercept, slope, float(np.abs(left).max()))
