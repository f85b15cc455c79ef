"""Shortlists and ties against closed forms and simulated errors."""

from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.errors import ParameterError
from loopyperf.search.cascade import DEVIATIONS, ShortlistCandidate, errors_of, shortlisted, tied
from tests.kernels import summed

NORMAL: tuple[float, ...] = ()
"""for a fit without errors: they are assumed to be normal"""


def candidates(*seconds: float, spread: float | None = 0.2) -> list[ShortlistCandidate]:
    return [ShortlistCandidate(f"v{place}", each, spread) for place, each in enumerate(seconds)]


def test_probability_of_two_candidates_follows_the_normal_distribution():
    # ln t₁ − ln t₀ is normal around ln(T₁/T₀), with √2 times the deviation 0.2/1.28 of each.
    pair = candidates(1.0, 1.2)
    probability = NormalDist(log(1.2), sqrt(2) * 0.2 / DEVIATIONS).cdf(0)
    assert len(shortlisted(pair, NORMAL, 0.0, 1 - probability - 0.03)) == 1
    assert len(shortlisted(pair, NORMAL, 0.0, 1 - probability + 0.03)) == 2


def test_regret_makes_the_shortlist_shorter():
    several = candidates(1.0, 1.02, 1.04, 1.06, 1.08, 1.1)
    lengths = [len(shortlisted(several, NORMAL, regret, 0.9)) for regret in (0.0, 0.1, 0.3, 1.0)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1] == 1


def test_shortlist_without_errors_has_one_variant():
    found = shortlisted(candidates(1.0, 1.01, spread=0.0), NORMAL, 0.0, 0.99)
    assert (found.names, found.probability) == (("v0",), 1.0)


def test_reported_probability_matches_simulated_frequency():
    rng = np.random.default_rng(1)
    errors = tuple(rng.laplace(0, 0.5, 20_000).tolist())
    predicted = np.sort(rng.uniform(1, 2, 40))
    found = shortlisted(candidates(*predicted.tolist(), spread=0.3), errors, 0.05, 0.8)
    assert 1 < len(found) < 40
    held = 0
    for _ in range(2000):
        true = predicted * np.exp(0.3 * rng.laplace(0, 0.5, 40))
        held += true[: len(found)].min() <= 1.05 * true.min()
    assert held / 2000 == pytest.approx(found.probability, abs=0.04)
    assert found.probability >= 0.8


def test_variants_tie_if_the_interval_of_their_ratio_contains_one():
    # Normal errors of both: the 80 % interval of ln t₁ − ln t₀ is √2 times as wide as that of one.
    apart = exp(0.2 * sqrt(2))
    assert tied(candidates(1.0, 0.99 * apart, 1.01 * apart), NORMAL) == (("v0", "v1"), ("v2",))


def test_errors_shared_by_similar_kernels_cause_no_ties():
    assert tied(candidates(1.0, 1.1, 1.2), (0.0, 0.0, 0.0)) == (("v0",), ("v1",), ("v2",))


def test_without_intervals_only_equal_times_tie():
    assert tied(candidates(1.0, 1.0, 1.001, spread=None), NORMAL) == (("v0", "v1"), ("v2",))


def test_shortlist_requires_prediction_intervals():
    with pytest.raises(ParameterError, match="needs prediction intervals"):
        shortlisted(candidates(1.0, 2.0, spread=None), NORMAL, 0.05, 0.9)


def test_shortlist_with_unranked_variants_is_refused():
    beaten = [ShortlistCandidate(f"b{place}", 1.05, 0.2, is_ranked=False) for place in range(20)]
    with pytest.raises(ParameterError, match="larger top"):
        shortlisted([*candidates(1.0), *beaten], NORMAL, 0.0, 0.9)
    far = [ShortlistCandidate("b", 100.0, 0.2, is_ranked=False)]
    assert shortlisted([*candidates(1.0), *far], NORMAL, 0.0, 0.9).names == ("v0",)


def test_shortlist_of_no_variants_is_refused():
    with pytest.raises(ParameterError, match="no variant could be predicted"):
        shortlisted([], NORMAL, 0.05, 0.9)


def test_errors_are_deviations_divided_by_half_an_interval():
    # The 80 % quantile of four scores is the fourth, 0.4.
    known = Uncertainty((0.1, 0.2, 0.3, 0.4), (), ((0.0,),), deviations=(-0.2, 0.0, 0.2))
    assert errors_of(known) == pytest.approx((-0.5, 0.0, 0.5))
    assert errors_of(None) == ()
    assert errors_of(Uncertainty((0.1,), (), ((0.0,),))) == ()


def test_fit_has_the_deviations_within_kernel_classes():
    # The predictions of whole classes are wrong, so that the kernels of a class do not deviate from each other.
    rows = [
        lpp.Measured(summed(terms), {"n": n}, (1 + 3 * (terms % 2)) * terms * 1e-9 * n, str(terms))
        for terms in (1, 2, 3, 4)
        for n in (10**6, 2 * 10**6, 4 * 10**6)
    ]
    fit = lpp.fit(rows, device="made-up", model="linear")
    assert fit.uncertainty is not None
    assert len(fit.uncertainty.deviations) == len(rows)
    assert max(map(abs, fit.uncertainty.deviations)) < 0.1 * max(fit.uncertainty.scores)
