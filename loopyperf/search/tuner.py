"""The order in which the points of a space are measured, and when to stop: predictions corrected by measurements.

ln of a time is ln of its prediction plus an error. The errors of all points are a Student-t process: a Gaussian process
whose variance is learned with them, so that a space that is predicted well needs few measurements, and one that is
predicted badly many (Shah, Wilson and Ghahramani, AISTATS 2014). The covariance of two points' errors is the variance
times the sum of four parts:

- one error that all points share, since a model may be wrong for the device or the kernel as a whole;
- an error that is alike where the choices are alike: a squared exponential of their distance;
- an error that is alike where the predicted shares of the time are alike: if a variant limited by one resource is
  predicted too fast, so are others limited by it;
- an error of each point alone.

The next point is the one with the largest expected improvement of ln of the least time (Jones, Schonlau and Welch,
Journal of Global Optimization 13, 1998). It is enough when another point is faster by more than the accepted regret
only with a small probability, according to draws from the joint distribution of all points.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import erf, expm1, inf, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.models.result import Estimate
from loopyperf.search.space import Space

Floats = NDArray[np.floating[Any]]
Points = NDArray[np.int64]
"""indices of points, shape (n,)"""

DRAWS = 1000
"""draws from the joint distribution of all points"""
MAX_JOINT = 256
"""points in these draws: those that are most probably the fastest"""
SUCCESS_PRIOR = 0.9
"""probability that a point can be measured; it weighs as much as one measurement of the same point"""
SEED = 0


@dataclass(frozen=True, slots=True)
class Prior:
    """The distribution of the errors of ln of times before any measurement.

    The shares are smaller than those of largest likelihood, because the order of prediction is good at first. With the
    deviation and its freedom, the stated regret holds about as often as stated on six spaces and 53 groups of kernels
    on a TITAN V (``docs/accuracy/tuning.md``).
    """

    common: float = 100.0
    """variance of the error that all points share, relative to that of a point's error about it; so large that a model
    may be wrong by any factor as long as it is the same for all points"""
    choices: float = 0.2
    """share of a point's error that follows the choices"""
    parts: float = 0.2
    """share that follows the predicted parts; the rest is of each point alone"""
    choices_reach: float = 0.25
    """distance of choices at which errors are still alike, as a fraction of the space's diagonal"""
    parts_reach: float = 0.15
    """distance of predicted shares at which errors are still alike"""
    deviation: float = 0.25
    """standard deviation of a point's error about the common one"""
    freedom: float = 2.0
    """degrees of freedom of the variance: how many measurements weigh as much as :attr:`deviation`"""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The predicted points of a space, in an order of their own."""

    predicted: Floats
    """ln of the predicted seconds, shape (points,)"""
    choices: Floats
    """coordinates, shape (points, dimensions), of a space with the diagonal 1"""
    parts: Floats
    """predicted shares of the time, shape (points, parts)"""
    doubt: Floats
    """additional variance of a point's own error, relative to the prior's, shape (points,)"""

    @classmethod
    def of(
        cls,
        seconds: Sequence[float],
        choices: Iterable[Sequence[float]],
        parts: Sequence[Mapping[str, float]],
        doubt: Sequence[float] = (),
    ) -> "Candidates":
        """Return points with these predicted *seconds*, coordinates, and predicted seconds of *parts* by name."""
        names = sorted(frozenset[str]().union(*parts))
        shares = np.array([[part.get(name, 0.0) for name in names] for part in parts]).reshape(len(parts), len(names))
        return cls(
            np.log(np.array(seconds)),
            np.array(list(choices), dtype=np.float64).reshape(len(seconds), -1),
            shares / np.maximum(np.abs(shares).sum(axis=1, keepdims=True), 1e-30),
            np.array(doubt or np.zeros(len(seconds)), dtype=np.float64),
        )


@dataclass
class Tuner:
    """Selects the points to measure: :meth:`ask` for the next one, then :meth:`tell` its time."""

    candidates: Candidates
    regret: float = 0.02
    """accepted distance of the fastest measured time from the least time of all points, relative"""
    probability: float = 0.9
    """required probability that the fastest measured point is within :attr:`regret`"""
    prior: Prior = field(default_factory=Prior)
    seconds: dict[int, float] = field(default_factory=dict[int, float])
    """measured points -> seconds, in order of measurement"""
    failed: set[int] = field(default_factory=set[int])
    """points that cannot be measured"""

    @property
    def best(self) -> int | None:
        """Return the fastest measured point; None before the first."""
        return min(self.seconds, key=self.seconds.__getitem__, default=None)

    @property
    def open(self) -> Points:
        """Return the points that are neither measured nor failed."""
        every = np.arange(len(self.candidates.predicted))
        return every[~np.isin(every, [*self.seconds, *self.failed])]

    def ask(self) -> int | None:
        """Return the point to measure next, whether or not one is needed; None if all are known."""
        rows = self.open
        if not len(rows):
            return None
        mean, scale, *_ = self._marginals(rows)
        if not self.seconds:
            return int(rows[np.argmin(mean - np.log(self._success(rows)))])
        gain = _expected_improvement(log(min(self.seconds.values())), mean, scale)
        return int(rows[np.argmax(gain * self._success(rows))])

    def tell(self, point: int, seconds: float | None) -> None:
        """Record the measured *seconds* of *point*; None if it cannot be measured."""
        if seconds is None:
            self.failed.add(point)
        else:
            self.seconds[point] = seconds

    def remaining_regret(self) -> float:
        """Return the relative distance from the least time that holds with :attr:`probability`; infinite at first."""
        rows = self.open
        if not self.seconds:
            return inf
        if not len(rows):
            return 0.0
        best = log(min(self.seconds.values()))
        mean, scale, explained, variance = self._marginals(rows)
        likely = np.argsort((mean - best) / scale)[:MAX_JOINT]
        rows, mean, explained = rows[likely], mean[likely], explained[:, likely]
        covariance = self._covariance(rows, rows) + np.diag(self._own(rows))
        factor = np.linalg.cholesky(variance * (covariance - explained.T @ explained + 1e-9 * np.eye(len(mean))))
        rng = np.random.default_rng(SEED)
        draws = rng.standard_normal((DRAWS, len(mean))) @ factor.T
        freedom = self.prior.freedom + len(self.seconds)
        draws = mean + draws / np.sqrt(rng.chisquare(freedom, (DRAWS, 1)) / freedom)
        return expm1(max(0.0, best - float(np.quantile(draws.min(axis=1), 1 - self.probability))))

    def _success(self, rows: Points) -> Floats:
        """Return the probability that each of *rows* can be measured, from those with similar choices."""
        tried = np.array([*self.seconds, *self.failed], dtype=np.int64)
        apart = _squared_distances(self.candidates.choices[rows], self.candidates.choices[tried])
        weights = np.exp(-apart / (2 * self.prior.choices_reach**2))
        succeeded = weights[:, : len(self.seconds)].sum(axis=1)
        return (SUCCESS_PRIOR + succeeded) / (1 + weights.sum(axis=1))

    def _marginals(self, rows: Points) -> tuple[Floats, Floats, Floats, float]:
        """Return mean and scale of ln of the time of each of *rows*, given the measured times.

        The third value is the factor of the covariance that the measured times explain, the fourth the variance.
        """
        prior, measured = self.prior, np.array(list(self.seconds), dtype=np.int64)
        mean, explained, variance = self.candidates.predicted[rows], np.zeros((0, len(rows))), prior.deviation**2
        if len(measured):
            errors = np.log(np.array(list(self.seconds.values()))) - self.candidates.predicted[measured]
            factor = np.linalg.cholesky(self._covariance(measured, measured) + np.diag(self._own(measured)))
            whitened = np.linalg.solve(factor, errors)
            explained = np.linalg.solve(factor, self._covariance(measured, rows))
            mean = mean + explained.T @ whitened
            variance = prior.freedom * variance + float(whitened @ whitened)
            variance /= prior.freedom + len(measured)
        left = prior.common + prior.choices + prior.parts + self._own(rows) - (explained**2).sum(axis=0)
        return mean, np.sqrt(variance * np.maximum(left, 1e-9)), explained, variance

    def _own(self, rows: Points) -> Floats:
        return 1 - self.prior.choices - self.prior.parts + self.candidates.doubt[rows]

    def _covariance(self, rows: Points, others: Points) -> Floats:
        """Return the covariance of the errors of *rows* and *others*, without the points' own errors."""
        prior = self.prior
        choices = _squared_distances(self.candidates.choices[rows], self.candidates.choices[others])
        parts = _squared_distances(self.candidates.parts[rows], self.candidates.parts[others])
        return (
            prior.common
            + prior.choices * np.exp(-choices / (2 * prior.choices_reach**2))
            + prior.parts * np.exp(-parts / (2 * prior.parts_reach**2))
        )


def _squared_distances(one: Floats, other: Floats) -> Floats:
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2 * one @ other.T
    return np.maximum(squares, 0)


def _expected_improvement(best: float, mean: Floats, scale: Floats) -> Floats:
    """Return by how much each point is expected to be below *best*, all as ln of seconds, if errors are normal."""
    z = (best - mean) / scale
    below = np.array([(1 + erf(each / sqrt(2))) / 2 for each in z])
    return scale * (z * below + np.exp(-(z**2) / 2) / sqrt(2 * pi))


def parts_of(estimate: object) -> dict[str, float]:
    """Return the predicted seconds of the parts of an *estimate* by name; nothing for other objects, e.g. None."""
    if not isinstance(estimate, Estimate):
        return {}
    return {name: float(seconds) for name, seconds in estimate.breakdown.by_property().items()}


def coordinates(space: Space, points: Iterable[int]) -> list[list[float]]:
    """Return the coordinates of *points*, in a space with the diagonal 1.

    A scale has the index of the choice, from 0 to 1; other choices have one axis each.
    """
    rows: list[list[float]] = []
    unit = 1 / sqrt(len(space.choices))
    for point in points:
        row: list[float] = []
        for name, place in space.places(point).items():
            number = len(space.choices[name])
            if space.is_scale(name):
                row.append(unit * place / max(1, number - 1))
            else:
                row += [unit / sqrt(2) if place == axis else 0.0 for axis in range(number)]
        rows.append(row)
    return rows
