"""What a fit found: weights, the sharpness where the model has one, and how well the measurements determine them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loopyperf.calibration.indistinguishable import Indistinguishable, broken
from loopyperf.calibration.problem import Matrix, Vector
from loopyperf.models.interface import Basis
from loopyperf.models.sensitivity import Amounts, sensitivity


@dataclass(frozen=True, slots=True)
class Solution:
    """Fitted weights and how well the measurements determine them."""

    model: str
    """``"linear"`` or ``"overlap"``"""
    weights: Mapping[str, float]
    """seconds per unit of each column that could be fitted, in the problem's order"""
    covariance: Matrix
    """of the weights, then of the sharpness, for measurements whose relative errors have the variance 1"""
    undetermined: tuple[Indistinguishable, ...]
    """properties that got no weight because the kernels cannot tell them apart, in groups"""
    absent: tuple[str, ...]
    """properties that got no weight because no kernel has a single unit of them"""
    rank: int
    """how many weights were fitted: the numerical rank of the matrix, by the tolerance"""
    condition: float
    """largest over smallest singular value of the fitted columns, each of unit length"""
    residuals: tuple[float, ...]
    """1 − predicted/measured of each observation; negative where the model is too slow"""
    at_bound: tuple[str, ...]
    """properties whose weight the non-negative fit holds at 0"""
    non_negative: bool
    ridge: float
    tolerance: float
    sharpness: float = 1.0
    basis: Basis = "counts"

    def predict(self, properties: Amounts) -> float:
        """Return the predicted run time, in seconds, of a kernel of such columns; what has no weight adds nothing."""
        return float(self.seconds([properties])[0])

    def seconds(self, kernels: Sequence[Amounts]) -> Vector:
        """Return the predicted run times, in seconds."""
        return sensitivity(self, kernels).seconds

    def leverages(self, kernels: Sequence[Amounts]) -> Vector:
        """Return h of each kernel: the variance of ln T over that of a measurement, from what was fitted alone."""
        return leverages(sensitivity(self, kernels).gradient, self.covariance)

    def unknown(self, properties: Amounts) -> tuple[str, ...]:
        """Return the properties that a kernel with these counts needs a weight for, but which have none.

        Of pipelines none: one without a weight takes what it is described to take.
        """
        if self.basis == "pipelines":
            return ()
        tied = {name for group in self.undetermined for name in group.left_out}
        missing = (
            name for name, count in properties.items() if count and name not in self.weights and name not in tied
        )
        return (*missing, *broken(self.undetermined, properties))


def leverages(gradient: Matrix, covariance: Matrix) -> Vector:
    """Return the variance of each kernel's ln T from the *covariance* of what was fitted alone."""
    return np.maximum(np.einsum("ki,ij,kj->k", gradient, covariance, gradient), 0.0)
