"""What a fit has no weight for is not in a time, and the headline says so."""

from functools import partial

import numpy as np
import pytest
from kernels import doubled, outer_product

import loopyperf as lpp
from loopyperf.calibration.intervals.uncertainty import Uncertainty
from loopyperf.oracle.estimating.by_counts import BELOW_ZERO

KERNEL = doubled()
KNOWN = Uncertainty(tuple(np.arange(1, 100) / 100), (), ((0.0,),))
"""errors of 1 % to 99 %, whatever a kernel does"""


def test_a_time_without_something_that_costs_is_said_to_be_at_least_that(make_fit):
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    whole = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=names))
    assert (whole.left_out, whole.time_in_words, whole.without) == ((), f"{1e9 * whole.seconds:.3g} ns", "")
    del names["f32 mul"]
    fit = make_fit(weights=names)
    part = lpp.estimate(KERNEL, n=16, fit=fit)
    assert (part.left_out, part.interval, part.to_dict()["left_out"]) == (("f32 mul",), None, ["f32 mul"])
    headline = f"at least {1e9 * part.seconds:.3g} ns (without f32 mul)"
    for shown in (repr(part), str(part).partition("\n")[0], part._repr_html_()):
        assert headline in shown
    batch = lpp.estimate(KERNEL, n=np.array([16, 32]), fit=fit)
    assert "2 run times from at least " in str(batch)
    assert "(without f32 mul)" in repr(batch)


@pytest.mark.parametrize("ask", [lpp.explain, partial(lpp.explain, models=["linear", "roofline"]), lpp.compare])
def test_whoever_answers_by_such_a_fit_says_at_least(ask):
    # Table 2 has no weight for loads that are the same for all lanes.
    answer = ask(outer_product(), n=1024, m=1024, device="amd-r9-fury")
    assert "at least" in repr(answer) or ask is lpp.compare
    table = next(line for line in str(answer).splitlines() if " linear " in line)
    assert "at least" in table


def test_a_ranking_and_a_search_by_such_a_fit_say_at_least(make_fit):
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    del names["f32 mul"]
    fit = make_fit(weights=names)
    ranking = lpp.rank({"one": KERNEL}, n=16, fit=fit)
    found = lpp.search(lambda group: doubled(group=group), {"group": [16, 32]}, n=64, fit=fit)
    for answer, rows in ((ranking, 1), (found, 2)):
        assert "takes at least" in repr(answer)
        assert sum("at least" in line for line in str(answer).splitlines()[1:]) >= rows


def test_a_ranking_has_times_below_zero_behind_all_others_and_says_so(make_fit):
    nothing = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-12)
    fit = make_fit(weights={**nothing, "f32 mul": -1e-9, "launches": 2e-8})
    variants, sizes = {"long": doubled("m"), "short": doubled("n")}, {"n": 8, "m": 64}
    assert not any("below 0" in each for each in lpp.rank(variants, fit=make_fit(), **sizes).remarks())
    ranking = lpp.rank(variants, fit=fit, **sizes)
    assert ranking.order == ("short", "long")
    assert [name for name, seconds in ranking.seconds.items() if seconds < 0] == ["long"]
    assert "behind all others, since the fit does not apply where a run time is below 0: long" in list(
        ranking.remarks()
    )


def test_a_split_by_such_a_fit_says_at_least():
    found = lpp.split(doubled(), devices=["nvidia-v100", "amd-r9-fury"], n=2**20)
    assert (found.left_out, "at least" in str(found)) == ({}, False)
    lacking = lpp.split(outer_product(), devices=["nvidia-v100", "amd-r9-fury"], n=1024, m=1024)
    assert lacking.left_out == {"amd-r9-fury": ("global load 32-bit stride 0",)}
    row = next(line for line in str(lacking).splitlines() if line.startswith("  amd-r9-fury"))
    assert " at least " in row


def test_a_time_below_zero_is_said_to_be_none(make_fit):
    weights = dict.fromkeys(lpp.count(KERNEL).properties(), -1e-9)
    estimate = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=weights))
    assert (estimate.seconds < 0, BELOW_ZERO in estimate.notes) == (True, True)
    judged = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=weights, uncertainty=KNOWN))
    assert (judged.interval, judged.why_no_interval) == (None, "the fit does not apply to such a kernel")
    several = lpp.estimate(KERNEL, n=np.array([16, 32]), fit=make_fit(weights=weights, uncertainty=KNOWN))
    assert several.interval is None
    assert BELOW_ZERO not in lpp.estimate(KERNEL, n=16, fit=make_fit()).notes


def test_why_a_time_that_lacks_something_has_no_interval_is_a_note(make_fit):
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    estimate = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=names, uncertainty=KNOWN))
    assert (estimate.interval is not None, estimate.why_no_interval) == (True, "")
    del names["f32 mul"]
    lacking = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=names, uncertainty=KNOWN))
    assert lacking.left_out
    assert lacking.why_no_interval
    assert f"no interval: {lacking.why_no_interval}" in lacking.to_dict()["notes"]


def test_a_time_without_next_to_nothing_is_whole(make_fit):
    # One launch among a million operations.
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    del names["launches"]
    estimate = lpp.estimate(KERNEL, n=2**20, fit=make_fit(weights=names))
    assert (estimate.left_out, len(estimate.notes)) == ((), 2)
