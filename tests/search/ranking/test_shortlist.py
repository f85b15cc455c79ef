"""How sure a ranking is, against closed forms, and against what really happens."""

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
"""errors of a fit that does not tell them"""
KERNELS = [(f"{terms}", summed(terms), (1 + 3 * (terms % 2)) * terms * 1e-9) for terms in (1, 2, 3, 4)]
"""class, kernel, and seconds for each of its elements"""


def candidates(*seconds: float, spread: float | None = 0.2) -> list[ShortlistCandidate]:
    return [ShortlistCandidate(f"v{place}", each, spread) for place, each in enumerate(seconds)]


def test_of_two_the_first_is_the_faster_with_the_probability_of_the_normal_distribution():
    # ln t₁ − ln t₀ is normal about ln(T₁/T₀), with √2 times the deviation 0.2/1.28 of each.
    pair = candidates(1.0, 1.2)
    probability = NormalDist(log(1.2), sqrt(2) * 0.2 / DEVIATIONS).cdf(0)
    assert len(shortlisted(pair, NORMAL, 0.0, 1 - probability - 0.03)) == 1
    assert len(shortlisted(pair, NORMAL, 0.0, 1 - probability + 0.03)) == 2


def test_regret_makes_it_shorter():
    several = candidates(1.0, 1.02, 1.04, 1.06, 1.08, 1.1)
    lengths = [len(shortlisted(several, NORMAL, regret, 0.9)) for regret in (0.0, 0.1, 0.3, 1.0)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1] == 1


def test_without_errors_the_first_is_enough():
    found = shortlisted(candidates(1.0, 1.01, spread=0.0), NORMAL, 0.0, 0.99)
    assert (found.names, found.probability) == (("v0",), 1.0)


def test_the_stated_probability_is_the_one_that_comes_true():
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


def test_ties_are_those_whose_ratio_has_one_in_its_interval():
    # Normal errors of both: at 80 %, |ln t₁ − ln t₀| is up to √2 times half the width of one's interval.
    apart = exp(0.2 * sqrt(2))
    assert tied(candidates(1.0, 0.99 * apart, 1.01 * apart), NORMAL) == (("v0", "v1"), ("v2",))


def test_errors_that_kernels_alike_share_do_not_tie_them():
    assert tied(candidates(1.0, 1.1, 1.2), (0.0, 0.0, 0.0)) == (("v0",), ("v1",), ("v2",))


def test_without_intervals_only_equal_times_tie():
    assert tied(candidates(1.0, 1.0, 1.001, spread=None), NORMAL) == (("v0", "v1"), ("v2",))


def test_without_intervals_there_is_no_shortlist():
    with pytest.raises(ParameterError, match="needs prediction intervals"):
        shortlisted(candidates(1.0, 2.0, spread=None), NORMAL, 0.05, 0.9)


def test_a_shortlist_has_none_that_was_not_ranked():
    beaten = [ShortlistCandidate(f"b{place}", 1.05, 0.2, is_ranked=False) for place in range(20)]
    with pytest.raises(ParameterError, match="larger top"):
        shortlisted([*candidates(1.0), *beaten], NORMAL, 0.0, 0.9)
    far = [ShortlistCandidate("b", 100.0, 0.2, is_ranked=False)]
    assert shortlisted([*candidates(1.0), *far], NORMAL, 0.0, 0.9).names == ("v0",)


@pytest.mark.parametrize(("regret", "probability"), [(-0.1, 0.9), (0.1, 0.0), (0.1, 1.0), (float("nan"), 0.5)])
def test_what_is_no_probability_is_refused(regret, probability):
    with pytest.raises(ParameterError, match="between 0 and 1"):
        shortlisted(candidates(1.0), NORMAL, regret, probability)


def test_nothing_to_choose_from_is_refused():
    with pytest.raises(ParameterError, match="no variant could be predicted"):
        shortlisted([], NORMAL, 0.05, 0.9)


def test_errors_are_deviations_over_half_an_interval():
    # Of four scores the 80 % quantile is the fourth, 0.4.
    known = Uncertainty((0.1, 0.2, 0.3, 0.4), (), ((0.0,),), deviations=(-0.2, 0.0, 0.2))
    assert errors_of(known) == pytest.approx((-0.5, 0.0, 0.5))
    assert errors_of(None) == ()
    assert errors_of(Uncertainty((0.1,), (), ((0.0,),))) == ()


def test_a_fit_knows_how_kernels_of_a_class_differ():
    # Two classes, of which one is predicted wrong as a whole: its kernels do not deviate from each other.
    rows = [
        lpp.Measured(kernel, {"n": n}, seconds * n, name)
        for name, kernel, seconds in KERNELS
        for n in (10**6, 2 * 10**6, 4 * 10**6)
    ]
    fit = lpp.fit(rows, device="made-up", model="linear")
    assert fit.uncertainty is not None
    assert len(fit.uncertainty.deviations) == len(rows)
    assert max(map(abs, fit.uncertainty.deviations)) < 0.1 * max(fit.uncertainty.scores)
