"""Ties against closed forms."""

from math import exp, sqrt

import pytest

import loopyperf as lpp
from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.search.rank import TimedVariant, errors_of, tied
from tests.kernels import summed

NORMAL: tuple[float, ...] = ()
"""for a fit without errors: they are assumed to be normal"""


def variants(*seconds: float, spread: float | None = 0.2) -> list[TimedVariant]:
    return [TimedVariant(f"v{place}", each, spread) for place, each in enumerate(seconds)]


def test_variants_tie_if_the_interval_of_their_ratio_contains_one():
    # Normal errors of both: the 80 % interval of ln t₁ − ln t₀ is √2 times as wide as that of one.
    apart = exp(0.2 * sqrt(2))
    assert tied(variants(1.0, 0.99 * apart, 1.01 * apart), NORMAL) == (("v0", "v1"), ("v2",))


def test_errors_shared_by_similar_kernels_cause_no_ties():
    assert tied(variants(1.0, 1.1, 1.2), (0.0, 0.0, 0.0)) == (("v0",), ("v1",), ("v2",))


def test_without_intervals_only_equal_times_tie():
    assert tied(variants(1.0, 1.0, 1.001, spread=None), NORMAL) == (("v0", "v1"), ("v2",))


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
