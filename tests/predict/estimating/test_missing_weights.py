"""Test estimates of kernels with properties that the fit has no weight for, and with negative times."""

from math import inf

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.errors import MissingNumberError
from loopyperf.predict.fitted import BELOW_ZERO
from loopyperf.search.space import Adviser
from tests.kernels import doubled, outer_product

KERNEL = doubled()
FREE = "global store 32-bit stride 1"
"""a property with a tenth of the work of `KERNEL`"""
KNOWN = Uncertainty(tuple(np.arange(1, 100) / 100), (), ((0.0,),))
"""errors of 1 % to 99 % for every kernel"""


def test_estimate_without_some_weights_is_shown_as_a_lower_bound(make_fit):
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    whole = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=names))
    assert (whole.left_out, whole.time_in_words, whole.without) == ((), f"{1e9 * whole.seconds:.3g} ns", "")
    del names[FREE]
    fit = make_fit(weights=names)
    part = lpp.estimate(KERNEL, n=16, fit=fit)
    assert (part.left_out, part.interval, part.to_dict()["left_out"]) == ((FREE,), None, [FREE])
    headline = f"at least {1e9 * part.seconds:.3g} ns (without {FREE})"
    for shown in (repr(part), " ".join(str(part).split()), part._repr_html_()):
        assert headline in shown
    batch = lpp.estimate(KERNEL, n=np.array([16, 32]), fit=fit)
    assert "2 run times from at least " in str(batch)
    assert f"(without {FREE[:20]}" in repr(batch)


@pytest.mark.parametrize("options", [{}, {"models": ["linear", "roofline"]}])
def test_explanation_shows_incomplete_times_as_lower_bounds(options):
    # Table 2 has no weight for loads with stride 0.
    answer = lpp.explain(outer_product(), n=1024, m=1024, device="amd-r9-fury", **options)
    assert "at least" in repr(answer)
    assert "model linear: at least 384 µs (without global load 32-bit stride 0)" in " ".join(str(answer).split())


def test_comparison_shows_incomplete_times_as_lower_bounds():
    answer = lpp.compare(outer_product(), n=1024, m=1024, device="amd-r9-fury")
    (row,) = (line for line in str(answer).splitlines() if line.startswith("  linear "))
    assert "at least" in row


def test_ranking_and_search_show_incomplete_times_as_lower_bounds(make_fit):
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    del names[FREE]
    fit = make_fit(weights=names)
    ranking = lpp.rank({"one": KERNEL}, n=16, fit=fit)
    found = lpp.search(lambda group: doubled(group=group), {"group": [16, 32]}, n=64, fit=fit)
    for answer, rows in ((ranking, 1), (found, 2)):
        assert "takes at least" in repr(answer)
        assert sum("at least" in line for line in str(answer).splitlines()[1:]) >= rows


@pytest.fixture
def negative_fit(make_fit):
    """A fit that predicts a negative time for 64 elements of `KERNEL` and 12 ns for 8 elements."""
    small_weights = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-12)
    return make_fit(weights={**small_weights, "f32 mul": -1e-9, "launches": 2e-8}, uncertainty=KNOWN)


LONG_AND_SHORT = {"long": doubled("m"), "short": doubled("n")}
SIZES = {"n": 8, "m": 64}
NO_TIME = "ranked last, since their times are negative and the fit does not apply: "


def test_negative_times_are_ranked_last_with_a_remark(make_fit, negative_fit):
    assert not any("below 0" in each for each in lpp.rank(LONG_AND_SHORT, fit=make_fit(), **SIZES).remarks())
    ranking = lpp.rank(LONG_AND_SHORT, fit=negative_fit, **SIZES)
    assert ranking.order == ("short", "long")
    assert [name for name, seconds in ranking.seconds.items() if seconds < 0] == ["long"]
    assert list(ranking.remarks()) == [f"{NO_TIME}long"]


def test_negative_time_outside_the_fastest_is_not_a_lower_bound(negative_fit):
    variants = {**LONG_AND_SHORT, "alike": doubled("n", group=32)}
    ranking = lpp.rank(variants, fit=negative_fit, top=1, **SIZES)
    assert [each.name for each in ranking.beaten] == ["alike", "long"]
    assert ranking.ties == (("short", "alike"), ("long",))
    assert list(ranking.remarks()) == [f"{NO_TIME}long", "not ranked: 1 variant of 12 ns or more"]


@pytest.mark.parametrize("optimizer", ["exhaustive", "random"])
def test_search_never_selects_a_negative_time(optimizer: str, negative_fit, monkeypatch: pytest.MonkeyPatch):
    reported_times: list[float | None] = []
    monkeypatch.setattr(Adviser, "tell", lambda _, trial, seconds: reported_times.append(seconds))
    found = lpp.search(doubled, {"size": ["m", "n"]}, fit=negative_fit, optimizer=optimizer, **SIZES)
    (fast,) = (seconds for seconds in found.ranking.seconds.values() if seconds > 0)
    number = [trial.choice["size"] for trial in found.trials].index("n") + 1
    assert f"size=n, trial {number}, takes 12 ns" in " ".join(str(found).split())
    assert (found.best_so_far[-1], found.trials_until(fast)) == (fast, number)
    assert found.best_so_far[0] == (fast if number == 1 else inf)
    assert sorted(map(str, reported_times)) == ([] if optimizer == "exhaustive" else sorted([str(fast), "None"]))


def test_negative_time_is_not_compared_with_the_roofline(negative_fit):
    (on,) = lpp.explain(KERNEL, n=64, device="made-up-1", fit=negative_fit, models=["linear"]).devices
    assert on.estimate.seconds < 0
    assert (on.roofline, on.under_the_roof) == (None, "")


def test_split_shows_incomplete_times_as_lower_bounds():
    found = lpp.split(doubled(), devices=["nvidia-v100", "amd-r9-fury"], n=2**20)
    assert (found.left_out, "at least" in str(found)) == ({}, False)
    lacking = lpp.split(outer_product(), devices=["nvidia-v100", "amd-r9-fury"], n=1024, m=1024)
    assert lacking.left_out == {"amd-r9-fury": ("global load 32-bit stride 0",)}
    row = next(line for line in str(lacking).splitlines() if line.startswith("  amd-r9-fury"))
    assert " at least " in row


def test_negative_time_has_a_note_and_no_interval(make_fit):
    weights = dict.fromkeys(lpp.count(KERNEL).properties(), -1e-9)
    estimate = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=weights))
    assert (estimate.seconds < 0, BELOW_ZERO in estimate.notes) == (True, True)
    with_uncertainty = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=weights, uncertainty=KNOWN))
    assert with_uncertainty.interval is None
    assert "no prediction interval: the fit does not apply to this kernel" in with_uncertainty.notes
    several = lpp.estimate(KERNEL, n=np.array([16, 32]), fit=make_fit(weights=weights, uncertainty=KNOWN))
    assert several.interval is None
    assert BELOW_ZERO not in lpp.estimate(KERNEL, n=16, fit=make_fit()).notes


def test_note_explains_why_an_incomplete_time_has_no_interval(make_fit):
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    estimate = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=names, uncertainty=KNOWN))
    assert estimate.interval is not None
    assert not estimate.why_no_interval
    del names[FREE]
    lacking = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=names, uncertainty=KNOWN))
    assert lacking.left_out
    assert lacking.why_no_interval


def test_negligible_work_without_a_weight_is_ignored(make_fit):
    # The launch is one of a million operations.
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    del names["launches"]
    estimate = lpp.estimate(KERNEL, n=2**20, fit=make_fit(weights=names))
    assert (estimate.left_out, len(estimate.notes)) == ((), 2)


# {{{ no weights for more than half of the work


def contraction() -> lp.TranslationUnit:
    """Return an einsum in float64 without tagged inames; Table 2 has no weights for any of its properties."""
    unit = lp.make_kernel(
        "{[e, i, j]: 0 <= e < n and 0 <= i, j < 35}", "out[e, i] = sum(j, A[i, j]*u[e, j])", lang_version=(2018, 2)
    )
    return lp.add_dtypes(unit, {"A": np.float64, "u": np.float64})


@pytest.mark.parametrize("n", [1000, np.array([1000, 10_000_000])])
def test_kernel_without_any_weights_is_refused(n):
    with pytest.raises(MissingNumberError, match=r"no weights for 100 % of the work.*model='roofline'"):
        lpp.estimate(contraction(), n=n, device="amd-r9-fury", model="linear")
    assert lpp.estimate(contraction(), n=1000, device="amd-r9-fury").model == "pipeline"
    ranking = lpp.rank({"double": doubled(), "einsum": contraction()}, n=1024, device="amd-r9-fury", model="linear")
    assert (ranking.order, set(ranking.failures)) == (("double",), {"einsum"})


@pytest.mark.parametrize("adds", [1, 3])
def test_half_of_the_work_is_counted_as_operations_plus_bytes_over_32(adds, make_fit):
    # out[i] = x[i]*x[i]*(x[i] + 0.5 + ...) has two products, `adds` sums, and 2 · 4 bytes of memory traffic, which
    # count as a quarter of an operation.
    sums = " + ".join(["x[i]", *(f"{number}.5f" for number in range(adds))])
    unit = lp.make_kernel("{[i]: 0 <= i < n}", f"out[i] = x[i]*x[i]*({sums})", lang_version=(2018, 2))
    unit = lp.split_iname(lp.add_dtypes(unit, {"x": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0")
    counts = lpp.count(unit).properties().evaluate(n=2**20)
    loads, stores = (counts[f"global {way} 32-bit stride 1"] for way in ("load", "store"))
    without = make_fit(weights={name: 1e-12 for name in counts if name != "f32 add"})
    share = counts["f32 add"] / (counts["f32 add"] + counts["f32 mul"] + (loads + stores) * 4 / 32)
    if share > 0.5:
        with pytest.raises(MissingNumberError, match="f32 add"):
            lpp.estimate(unit, n=2**20, fit=without)
    else:
        assert "at least" in repr(lpp.estimate(unit, n=2**20, fit=without))
    assert (share > 0.5) == (adds == 3)


# }}}
