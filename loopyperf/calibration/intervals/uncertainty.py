"""Intervals that hold what they state, by split conformal prediction on kernel classes that were left out of the fit.

An observation j that was predicted by weights fitted to other classes has the score::

    sⱼ = |ln(Tⱼ/tⱼ)| / √(1 + hⱼ)

with h its leverage, the variance of ln T from the weights alone, for measurements of variance 1: kernels unlike the
measured ones are predicted worse, and h says how unlike one is. Of n scores the ⌈(n + 1)·level⌉-th is q, and the
interval of a kernel is T·exp(±q·√(1 + h)). As long as a new kernel differs from the fitted ones as a class does from
the others, the interval holds its time with the stated probability, whatever the distribution of errors (V. Vovk,
A. Gammerman, G. Shafer, Algorithmic Learning in a Random World, 2005, section 2.2; normalized scores, section 2.3).
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from loopyperf.calibration.documents import Amount, Number
from loopyperf.calibration.problem import Vector
from loopyperf.calibration.solution import leverages
from loopyperf.models.interface import Fitted
from loopyperf.models.result import LEVEL
from loopyperf.models.sensitivity import Sensitivity


class Uncertainty(msgspec.Struct, frozen=True):
    """What the intervals of a fit are made from."""

    scores: tuple[Amount, ...]
    """of all observations that other classes can predict, ascending"""
    columns: tuple[str, ...]
    """names of the weights, in the order of the covariance"""
    covariance: tuple[tuple[Number, ...], ...]
    """of the weights, then of the sharpness, for measurements whose relative errors have variance 1"""
    deviations: tuple[Number, ...] = ()
    """(ln(Tⱼ/tⱼ) − its mean over the class)/√(1 + hⱼ) of the same observations, ascending, so scaled that they vary as
    if the mean were known: what a class has in common is no error of the order of its kernels"""

    def __post_init__(self) -> None:
        """Refuse scores that do not ascend, and what is no covariance of the columns and the sharpness."""
        for name, values in (("scores", self.scores), ("deviations", self.deviations)):
            if list(values) != sorted(values):
                raise ValueError(f"{name} must ascend")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("a column stands twice")
        size = len(self.columns) + 1
        if len(self.covariance) != size or any(len(row) != size for row in self.covariance):
            raise ValueError(f"the covariance of {size - 1} columns and the sharpness must have {size} rows of {size}")
        if any(row[place] < 0 for place, row in enumerate(self.covariance)):
            raise ValueError("a variance is below 0")

    def half_width(self, leverage: Vector, level: float = LEVEL) -> Vector:
        """Return by how much ln T may be off, up or down; infinity where there are too few scores for *level*."""
        return quantile(self.scores, level) * np.sqrt(1 + leverage)

    def of_weights(self, level: float = LEVEL) -> dict[str, float]:
        """Return by how much each weight may be off, up or down, in its unit, where all else of the model is right.

        It is q·√v with v its variance for relative errors of variance 1; infinity where there are too few scores for
        *level*.
        """
        deviations = np.sqrt(np.diagonal(self.covariance))
        factor = quantile(self.scores, level)
        return {name: factor * float(each) for name, each in zip(self.columns, deviations, strict=False)}

    def leverage(self, fit: Fitted, times: Sensitivity) -> Vector:
        """Return h of kernels whose *times* are those of *fit*."""
        order = tuple(fit.weights)
        places = [*map(order.index, self.columns), len(order)]
        return leverages(times.gradient[:, places], np.array(self.covariance))


def quantile(scores: Sequence[float], level: float = LEVEL) -> float:
    """Return the ⌈(n + 1)·level⌉-th of n *scores*, which ascend; infinity where there are too few of them."""
    place = math.ceil((len(scores) + 1) * level) - 1
    return scores[place] if place < len(scores) else math.inf
