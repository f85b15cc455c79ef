"""Scores of search strategies on recorded spaces, and the exact expectation of random order.

A run is the order in which a strategy measures the variants of a space. After k measurements its best time is the least
of the first k; a failed variant costs a measurement and has no time. With the times sorted, t₁ ≤ ... ≤ tₙ (failures
last), the best of k variants in random order, without replacement, is tᵢ with probability

    P(best = tᵢ) = C(n − i, k − 1) / C(n, k)

and m good variants are all missed with probability C(n − m, k) / C(n, k). The score of the autotuning community,

    Pₖ = (S_baseline(k) − F(k)) / (S_baseline(k) − S_optimum)

has F, the best time of a strategy, mean over runs, and S_baseline, its expectation in random order. Its mean is over
k = 1 to the k at which the baseline has covered 95 % of the way from the median time to the optimum: 1 is an oracle,
0 random order.

F.-J. Willemsen et al.: "A methodology for comparing optimization algorithms for auto-tuning", FGCS 159, 2024.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from tuning.spaces import RecordedSpace

Floats = NDArray[np.float64]
Strategy = Callable[[RecordedSpace, int], Sequence[int]]
"""the order in which a strategy measures the variants of a space, by a seed; it may stop before all are measured"""
Run = Sequence[tuple[int, int]]
"""improvements of a run: (number of measurements, index of the best variant)"""
MEASUREMENTS = (1, 3, 5, 10, 25, 50)
"""numbers of measurements at which fractions of the optimum are reported"""
TOLERANCES = (0.05, 0.02, 0.01)
"""relative distances from the optimum"""
ROUNDING = 1e-12
"""tolerance of sums of probabilities"""
CUTOFF = 0.95
"""share of the way from the median to the optimum at which the mean score ends"""


def sorted_times(space: RecordedSpace) -> Floats:
    """Return the measured seconds, least first; failures are infinite."""
    return np.sort(np.array([inf if each is None else each for each in space.times]))


def improvements(space: RecordedSpace, order: Sequence[int]) -> Run:
    """Return the improvements of a run that measures the variants in *order*; raises ValueError for repeated ones."""
    if len(set(order)) < len(order):
        raise ValueError(f"a run on {space.name!r} measures a variant twice")
    found: list[tuple[int, int]] = []
    best = inf
    for number, row in enumerate(order, 1):
        seconds = space.times[row]
        if seconds is not None and seconds < best:
            best = seconds
            found.append((number, row))
    return found


def best_times(space: RecordedSpace, run: Run, number: int) -> Floats:
    """Return the best seconds after 1 to *number* measurements; infinite before the first success."""
    found = np.full(number, inf)
    for measurements, row in run:
        seconds = space.times[row]
        assert seconds is not None, "an improvement has a time"
        found[measurements - 1 :] = seconds
    return found


def until(space: RecordedSpace, run: Run, tolerance: float) -> float:
    """Return the number of measurements until the best time is within *tolerance* of the optimum; infinite if never."""
    limit = (1 + tolerance) * space.best
    return next((number for number, row in run if (space.times[row] or inf) <= limit), inf)


# {{{ random order


def missed(total: int, good: int, number: int) -> Floats:
    """Return the probability that 0 to *number* measurements in random order miss all of *good* variants."""
    before = np.arange(number)
    return np.concatenate([[1.0], np.cumprod(np.maximum(total - good - before, 0) / (total - before))])


def random_probabilities(total: int, number: int) -> Floats:
    """Return the probability of each variant, fastest first, to be the best of *number* in random order."""
    slower = np.array([missed(total, rank, number)[number] for rank in range(total + 1)])
    return slower[:-1] - slower[1:]


def random_best(space: RecordedSpace, number: int) -> Floats:
    """Return the expected best seconds after 1 to *number* measurements in random order.

    A failure counts as the slowest measured time, so that expectations are finite.
    """
    times = sorted_times(space)
    times = np.where(np.isinf(times), times[np.isfinite(times)].max(), times)
    expected, at_least = np.zeros(number), np.ones(number)
    for rank, seconds in enumerate(times, 1):
        slower = missed(len(times), rank, number)[1:]
        expected += (at_least - slower) * seconds
        at_least = slower
    return expected


def random_until(total: int, good: int, quantile: float) -> float:
    """Return the number of measurements after which random order has found one of *good* variants in that share."""
    return float(np.argmax(missed(total, good, total) <= 1 - quantile + ROUNDING))


# }}}


# {{{ scores of a strategy


@dataclass(frozen=True)
class Score:
    """Scores of a strategy on one space: medians over runs, and the 90th percentile from best to worst."""

    fractions: Sequence[tuple[float, float]]
    """optimum / best time after each of :data:`MEASUREMENTS`"""
    until: Sequence[tuple[float, float]]
    """measurements until within each of :data:`TOLERANCES`"""
    mean: float
    """mean of the community's score"""


def score(space: RecordedSpace, runs: Sequence[Run]) -> Score:
    """Return the scores of *runs* of one strategy on *space*."""
    best = np.array([best_times(space, run, max(MEASUREMENTS)) for run in runs])
    fractions = [space.best / best[:, number - 1] for number in MEASUREMENTS]
    reached = [[until(space, run, tolerance) for run in runs] for tolerance in TOLERANCES]
    return Score(
        [(-_quantile(-each, 0.5), -_quantile(-each, 0.9)) for each in fractions],
        [(_quantile(each, 0.5), _quantile(each, 0.9)) for each in reached],
        community_score(space, runs),
    )


def random_score(space: RecordedSpace) -> Score:
    """Return the exact scores of random order on *space*."""
    times = sorted_times(space)
    fractions: list[tuple[float, float]] = []
    for number in MEASUREMENTS:
        cumulative = np.cumsum(random_probabilities(len(times), min(number, len(times))))
        ranks = [int(np.argmax(cumulative - share >= -ROUNDING)) for share in (0.5, 0.9)]
        median, worst = (float(space.best / times[rank]) for rank in ranks)
        fractions.append((median, worst))
    good = [int(np.sum(times <= (1 + tolerance) * space.best)) for tolerance in TOLERANCES]
    reached = [(random_until(len(times), each, 0.5), random_until(len(times), each, 0.9)) for each in good]
    return Score(fractions, reached, 0.0)


def community_score(space: RecordedSpace, runs: Sequence[Run]) -> float:
    """Return the mean of Pₖ over the measurements until the baseline reaches the cutoff."""
    times = sorted_times(space)
    median = float(np.median(times[np.isfinite(times)]))
    baseline = _baseline_until(space, space.best + (1 - CUTOFF) * (median - space.best))
    end = len(baseline)
    slowest = times[np.isfinite(times)].max()
    best = np.array([np.minimum(best_times(space, run, end), slowest) for run in runs]).mean(axis=0)
    return float(((baseline - best) / (baseline - space.best)).mean())


def _baseline_until(space: RecordedSpace, target: float) -> Floats:
    """Return the expected best seconds in random order, up to the first that is at most *target*."""
    number, total = 1, len(space.times)
    while (expected := random_best(space, number))[-1] > target and number < total:
        number = min(4 * number, total)
    return expected[: int(np.argmax(expected <= target)) + 1]


def _quantile(values: Sequence[float] | Floats, share: float) -> float:
    """Return the least value that at least *share* of *values* do not exceed."""
    return float(np.quantile(np.asarray(values, dtype=np.float64), share, method="inverted_cdf"))


# }}}
