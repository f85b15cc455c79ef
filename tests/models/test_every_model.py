"""Laws that hold for every model in the MODELS table."""

import math
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loopyperf as lpp
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.residual_model import Record, Score, TrainingRecord
from loopyperf.errors import ParameterError, UnknownModelError
from loopyperf.models.catalog import MODELS, find_model
from loopyperf.models.model_interface import FittedModel, RegressionModel, Shares, Weights
from loopyperf.models.result import ModelTime
from loopyperf.testing import predictor_checks
from loopyperf.units import duration
from tests import sample_and_all
from tests.kernels import doubled, outer_product
from tests.minimal_fit import Weighted
from tests.parts_backend import PartsBackend

PROPERTIES = ("f32 add", "f32 mul", "global load 32-bit stride 1", "local load 32-bit", "barriers", "launches")
SOURCES = ("insn", "a_fetch", "barrier before insn", "launch of kernel")

OF_EACH_KIND = ("linear", "overlap", "roofline", "pipeline", "gpuperf", "sampled", "learned")
"""models whose texts and options are tested"""
DEVICE = "nvidia-v100"
"""for the models that need one"""

positive = st.floats(min_value=1e-15, max_value=1e-3)
signed = positive | positive.map(lambda weight: -weight) | st.just(0.0)
counts = st.integers(min_value=0, max_value=10**15)
work = st.dictionaries(
    st.sampled_from(PROPERTIES), st.dictionaries(st.sampled_from(SOURCES), counts, min_size=1), min_size=1
)


def all_weights(weight: st.SearchStrategy[float]) -> st.SearchStrategy[Weights]:
    return st.fixed_dictionaries(dict.fromkeys(PROPERTIES, weight))


FITTED = {name: model for name, model in MODELS.items() if isinstance(model, FittedModel)}
every_fitted_model = pytest.mark.parametrize("model", FITTED.values(), ids=FITTED)


def time_of(model: FittedModel, weights: Weights, shares: Shares) -> ModelTime:
    """Return the time by *model*; for the overlap model, weights are made nonnegative."""
    if model.name == "overlap":
        return model.time(Weighted({name: abs(weight) for name, weight in weights.items()}, "overlap", 2.5), shares)
    return model.time(Weighted(weights), shares)


def more(shares: Shares, name: str, source: str, extra: int) -> Shares:
    """Return *shares* with *extra* more units of one property in one source."""
    return {**shares, name: {**shares[name], source: shares[name][source] + extra}}


# {{{ the table

NEEDS = {"linear": "fit", "overlap": "fit", "learned": "fit", "sampled": "samples"}
"""besides the kernel; all others need a device"""


def test_models_are_found_by_name_and_declare_their_needs(subtests: pytest.Subtests):
    for name in MODELS:
        with subtests.test(name=name):
            model = find_model(name)
            assert model.name == name
            assert model.summary
            assert model.needs == {NEEDS.get(name, "device")}


def test_unknown_model_error_lists_the_known_models():
    with pytest.raises(UnknownModelError, match=r"unknown model 'linera'; choose one of: linear"):
        find_model("linera")


# }}}


# {{{ the time


@every_fitted_model
@given(weights=all_weights(positive), shares=work, extra=counts, data=st.data())
def test_no_cost_is_negative_and_more_work_never_takes_less_time(
    model: FittedModel, weights: Weights, shares: Shares, extra: int, data: st.DataObject
):
    assert all(row.seconds >= 0 for row in time_of(model, weights, shares).breakdown.rows)
    name = data.draw(st.sampled_from(sorted(shares)))
    source = data.draw(st.sampled_from(sorted(shares[name])))
    less, longer = (time_of(model, weights, each).seconds for each in (shares, more(shares, name, source, extra)))
    assert less <= longer * (1 + 1e-14)  # for rounding of roots and powers, where the extra work is negligible


@every_fitted_model
@given(weights=all_weights(signed), shares=work, octaves=st.integers(min_value=-10, max_value=10))
def test_weights_times_a_power_of_two_scale_every_time_exactly(
    model: FittedModel, weights: Weights, shares: Shares, octaves: int
):
    factor = 2.0**octaves
    slow = time_of(model, weights, shares)
    fast = time_of(model, {name: weight * factor for name, weight in weights.items()}, shares)
    assert fast.seconds == slow.seconds * factor
    assert [row.seconds for row in fast.breakdown.rows] == [row.seconds * factor for row in slow.breakdown.rows]


@every_fitted_model
@given(weights=all_weights(signed), shares=work)
def test_batch_has_the_times_of_its_sizes(model: FittedModel, weights: Weights, shares: Shares):
    sizes = [1, 2, 3]
    totals = {name: sum(parts.values()) for name, parts in shares.items()}
    batch = {name: {"": np.array(sizes) * total} for name, total in totals.items()}
    alone = [time_of(model, weights, {name: {"": size * n} for name, n in totals.items()}).seconds for size in sizes]
    magnitude = sum(abs(weights[name]) * 3 * total for name, total in totals.items())
    # A batch is added in order and not rounded to a quantum: at most one rounding, 2⁻⁵² of the magnitude, per property.
    assert time_of(model, weights, batch).seconds == pytest.approx(
        alone, rel=0, abs=len(PROPERTIES) * 2**-51 * magnitude
    )


# }}}


# {{{ the explanation is the estimate


@every_fitted_model
@given(weights=all_weights(signed), shares=work)
def test_rows_have_every_count_once_and_add_up_to_the_time(model: FittedModel, weights: Weights, shares: Shares):
    predicted = time_of(model, weights, shares)
    parts = predicted.breakdown
    costs = [row.seconds for row in parts.rows]
    assert math.fsum(costs) == predicted.seconds
    rounding = pytest.approx(predicted.seconds, rel=0, abs=1e-14 * sum(map(abs, costs)))
    assert math.fsum(parts.by_property().values()) == rounding
    assert math.fsum(parts.by_source().values()) == rounding
    expected = {(name, source): count for name, parts in shares.items() for source, count in parts.items()}
    assert expected == {(row.property, row.source): row.count for row in predicted.breakdown.rows}
    assert len(expected) == len(costs)


@every_fitted_model
@given(weights=all_weights(signed), shares=work)
def test_parts_of_a_batch_add_up_in_order(model: FittedModel, weights: Weights, shares: Shares):
    batch = {name: {"": np.array([sum(parts.values()), 7])} for name, parts in shares.items()}
    predicted = time_of(model, weights, batch)
    assert in_order(predicted.breakdown.by_property().values()) == list(predicted.seconds)
    assert in_order(predicted.breakdown.by_source().values()) == list(predicted.seconds)


def in_order(parts: Iterable[Any]) -> list[float]:
    first, *rest = parts
    return list(sum(rest, start=first))


@every_fitted_model
def test_property_without_a_weight_is_free_and_listed(model: FittedModel):
    weights = {"f32 add": 1e-9}
    with_it = {"f32 add": {"insn": 10}, "f32 mul": {"insn": 5}, "barriers": {"insn": 0}}
    predicted = time_of(model, weights, with_it)
    assert predicted.unfitted == ("f32 mul",)
    assert predicted.seconds == time_of(model, weights, {"f32 add": {"insn": 10}}).seconds


# }}}


# {{{ device models


def test_device_models_reject_fit_and_counting(subtests: pytest.Subtests):
    for name in OF_EACH_KIND[2:4]:
        with subtests.test(name=name):
            with pytest.raises(ParameterError, match="is not fitted; drop fit="):
                lpp.estimate(kernel(batch=False), n=1000, model=name, device=DEVICE, fit=made_up_fit(name))
            with pytest.raises(ParameterError, match="drop counting="):
                lpp.estimate(kernel(batch=False), n=1000, model=name, device=DEVICE, counting="paper")


# }}}


# {{{ the estimate

EXCEPTIONS = {("gpuperf", "more work takes no less time")}
"""with one group of two warps, MWP_cp = max(1, CWP - 1) makes one warp wait for the other (Sim, equation 18)"""


@sample_and_all(2)
def test_every_model_obeys_the_laws_of_predictors(subtests: pytest.Subtests, step: int):
    for name in list(MODELS)[::step]:
        with subtests.test(name=name):
            checks = predictor_checks(lpp.predictor(model=name, **needed(name)))
            assert len(checks) >= 9
            for check in checks:
                with pytest.raises(AssertionError) if (name, check.law) in EXCEPTIONS else nullcontext():
                    check()


@cache
def kernel(batch: bool) -> Any:
    return outer_product() if batch else doubled()


def made_up_fit(model: str) -> Fit:
    weights = {"f32 mul": 1e-9, "global load 32-bit stride 1": 3e-9, "global store 32-bit stride 1": 7e-9}
    return Fit(
        model=model,
        device="Made Up 1",
        slug="made-up-1",
        counting="executed",
        weights={**weights, "launches": 1e-6, "work-groups": -1e-10},
    )


def needed(model: str) -> dict[str, Any]:
    """Return the arguments that *model* needs besides the kernel."""
    if isinstance(MODELS[model], RegressionModel):
        pytest.importorskip("sklearn", reason="learned models are in the extra learn")
        return {"fit": made_up_learned()}
    if MODELS[model].needs == {"samples"}:
        return {"backend": PartsBackend()}
    return {"fit": made_up_fit(model)} if model in FITTED else {"device": DEVICE}


def made_up_learned() -> lpp.ResidualModel:
    """Return a residual model that corrects the roofline by a factor that grows with the number of groups."""
    rows = tuple(TrainingRecord(str(groups), "", 1e-3, 0.1 * groups, (float(groups),)) for groups in range(5))
    return lpp.ResidualModel(
        Record(
            model="learned",
            device=DEVICE,
            slug=DEVICE,
            counting="executed",
            base="roofline",
            recipe="svr",
            parameters={"C": 1.0, "gamma": 0.1, "epsilon": 0.02},
            told=("groups",),
            amounts=(),
            scores={"base": Score(0.3, 0.0), "svr": Score(0.1, 0.7)},
            errors=(0.1,),
            rows=rows,
        )
    )


def test_printed_estimate_has_kernel_device_model_time_and_bound(subtests: pytest.Subtests):
    for model in OF_EACH_KIND:
        with subtests.test(model=model):
            found = lpp.estimate(kernel(batch=False), n=1000, model=model, **needed(model))
            costs = found.breakdown.by_property()
            assert costs[found.bound] == max(costs.values())
            text = " ".join(str(replace(found, notes=("first", "second"), interval=None)).split())
            assert text.startswith(
                f"doubled(n=1000) on {found.device}, model {found.model}: {found.time_in_words}{found.without}, "
                f"bound by {found.bound} "
            )
            small = {name for name, seconds in costs.items() if seconds < 0.01 * float(found)}
            shown = {name for name in costs if f" {name} " in text}
            assert shown == set(costs) - (small if len(small) > 1 else set())
            assert " note: first note: second" in text


def test_printed_wide_interval_is_also_shown_as_a_factor():
    found = lpp.estimate(kernel(batch=False), n=1000, model="roofline", device=DEVICE)
    seconds = float(found)
    wide, narrow = (str(replace(found, interval=(seconds / by, seconds * by))) for by in (3, 1.5))
    assert "within a factor of 3" in " ".join(wide.split())
    assert "within a factor" not in narrow


def test_printed_batch_has_its_range_of_times(subtests: pytest.Subtests):
    sizes = {"n": np.array([[1], [2]]), "m": np.array([16, 32, 48])}
    for model in OF_EACH_KIND:
        with subtests.test(model=model):
            batch = lpp.estimate(kernel(batch=True), model=model, **needed(model), **sizes)
            least, most = duration(float(batch.seconds.min())), duration(float(batch.seconds.max()))
            expected = least if least == most else f"from {least} to {most}"
            assert batch.time_in_words.replace("at least ", "") == expected
            printed = " ".join(str(batch).split())
            assert f": 6 run times {batch.time_in_words}{batch.without}" in printed
            assert f", {batch.most_of_it}" in printed
            assert batch.most_of_it.startswith((f"bound by {batch.bound}", f"mostly {batch.bound} ("))
            assert ("(80 % intervals span " in printed) == (batch.interval is not None)


# }}}
