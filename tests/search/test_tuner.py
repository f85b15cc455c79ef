"""The order of measurements, against brute force and on spaces that are drawn from the assumed distribution."""

from itertools import product
from math import inf, log

import numpy as np
import pytest
from scipy.stats import norm

from loopyperf.search.space import spaced
from loopyperf.search.tuner import Candidates, Prior, Tuner, coordinates

SPACE = spaced({"tile": (2, 4, 8, 16), "order": ("C", "F"), "unroll": (1, 2, 4)})
POINTS = range(SPACE.points)
PRIOR = Prior()


def candidates(seed: int = 0, doubt: float = 0.0) -> Candidates:
    rng = np.random.default_rng(seed)
    seconds = rng.lognormal(-7, 0.5, SPACE.points)
    parts = [{"memory": each, "arithmetic": 1 - each} for each in rng.uniform(0, 1, SPACE.points)]
    return Candidates.of(list(seconds), coordinates(SPACE, POINTS), parts, [doubt] * SPACE.points)


def covariance(points: Candidates, prior: Prior) -> np.ndarray:
    """Return the covariance of all errors, element by element."""
    number = len(points.predicted)
    found = np.empty((number, number))
    for one, other in product(range(number), repeat=2):
        choices = sum((points.choices[one] - points.choices[other]) ** 2)
        parts = sum((points.parts[one] - points.parts[other]) ** 2)
        found[one, other] = (
            prior.common
            + prior.choices * np.exp(-choices / 2 / prior.choices_reach**2)
            + prior.parts * np.exp(-parts / 2 / prior.parts_reach**2)
            + (one == other) * (1 - prior.choices - prior.parts + points.doubt[one])
        )
    return found


def drawn(points: Candidates, prior: Prior, rng: np.random.Generator) -> np.ndarray:
    """Return times of all points, drawn from the prior."""
    scale = prior.deviation / np.sqrt(rng.chisquare(prior.freedom) / prior.freedom)
    errors = np.linalg.cholesky(covariance(points, prior)) @ rng.standard_normal(len(points.predicted))
    return np.exp(points.predicted + scale * errors)


def test_coordinates_have_a_diagonal_of_one():
    every = np.array(coordinates(SPACE, POINTS))
    apart = [np.linalg.norm(one - other) for one, other in product(every, repeat=2)]
    assert max(apart) == pytest.approx(1)
    assert len({tuple(row) for row in every.round(9)}) == SPACE.points


def test_distribution_is_the_conditional_one_of_the_whole_covariance():
    points = candidates(doubt=0.5)
    measured = {3: 2e-3, 10: 1e-3, 20: 4e-3}
    tuner = Tuner(points, prior=PRIOR, seconds=dict(measured))
    rest = [point for point in POINTS if point not in measured]
    known = list(measured)
    whole = covariance(points, PRIOR)
    precision = np.linalg.inv(whole)  # the conditional distribution from blocks of the precision, not of the covariance
    errors = np.log(list(measured.values())) - points.predicted[known]
    left = np.linalg.inv(precision[np.ix_(rest, rest)])
    mean = points.predicted[rest] - left @ precision[np.ix_(rest, known)] @ errors
    squares = errors @ np.linalg.inv(whole[np.ix_(known, known)]) @ errors
    variance = (PRIOR.freedom * PRIOR.deviation**2 + squares) / (PRIOR.freedom + 3)
    found, scale, *_ = tuner._marginals(np.array(rest))
    assert found == pytest.approx(mean, rel=1e-6)
    assert scale == pytest.approx(np.sqrt(variance * np.diag(left)), rel=1e-6)


def test_next_point_has_the_largest_expected_improvement():
    tuner = Tuner(candidates(), seconds={3: 2e-3, 10: 1e-3})
    rows = tuner.open
    mean, scale, *_ = tuner._marginals(rows)
    quantiles = norm.ppf((np.arange(4000) + 0.5) / 4000)
    times = mean[:, None] + scale[:, None] * quantiles
    gain = np.maximum(log(1e-3) - times, 0).mean(axis=1) * tuner._success(rows)
    assert tuner.ask() == rows[np.argmax(gain)]


def test_exact_predictions_need_few_measurements():
    points = candidates()
    tuner = Tuner(points)
    while (point := tuner.ask()) is not None and tuner.remaining_regret() > tuner.regret:
        tuner.tell(point, float(3 * np.exp(points.predicted[point])))  # wrong by the same factor everywhere
    assert next(iter(tuner.seconds)) == tuner.best == np.argmin(points.predicted)
    assert len(tuner.seconds) < SPACE.points / 2


def test_everything_is_measured_once_if_no_regret_is_accepted():
    tuner = Tuner(candidates(), regret=0.0)
    assert tuner.remaining_regret() == inf
    asked = [point for point in iter(tuner.ask, None) if tuner.tell(point, 1.0 + point % 7) is None]
    assert sorted(asked) == list(POINTS)
    assert tuner.remaining_regret() == 0


def test_points_like_those_that_failed_come_later():
    tuner = Tuner(candidates())
    first = SPACE.choice(int(np.argmin(tuner.candidates.predicted)))["tile"]
    failing = {point for point in POINTS if SPACE.choice(point)["tile"] == first}
    asked = []
    while (point := tuner.ask()) is not None:
        asked.append(point)
        tuner.tell(point, None if point in failing else float(np.exp(tuner.candidates.predicted[point])))
    assert tuner.failed == failing
    plain = [*np.argsort(tuner.candidates.predicted)]
    assert sum(map(asked.index, failing)) > sum(map(plain.index, failing))


def test_stated_regret_holds_as_often_as_stated():
    """On spaces drawn from the prior, the fastest measured point is within the stated regret in 90 % of the runs."""
    rng = np.random.default_rng(5)
    runs, held = 120, 0
    for _ in range(runs):
        points = candidates(seed=int(rng.integers(2**31)))
        times = drawn(points, PRIOR, rng)
        tuner = Tuner(points, regret=0.05)
        while (point := tuner.ask()) is not None and tuner.remaining_regret() > tuner.regret:
            tuner.tell(point, float(times[point]))
        held += min(tuner.seconds.values()) <= 1.05 * times.min()
    # three standard deviations of a binomial distribution below 0.9
    assert held / runs >= 0.9 - 3 * np.sqrt(0.09 / runs)
