"""The arithmetic of the residual model, and its features of samples."""

from math import exp, log, log1p

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.errors import ModelInputError
from loopyperf.models.residual_regression import CORRECTION, corrected, sampled_features
from loopyperf.models.result import Breakdown, BreakdownRow, ModelTime
from loopyperf.models.sampling import SampledProgram, Samples, extrapolated

SAMPLES = Samples((64, 96), (2e-4, 2.9e-4), 32, 1000)
LINEAR = extrapolated(SampledProgram("f", SAMPLES)).seconds
"""time of all its groups by linear extrapolation"""


def base(*seconds: float) -> ModelTime:
    rows = tuple(BreakdownRow(f"part {place}", "insn", 1, each, each) for place, each in enumerate(seconds))
    return ModelTime(sum(seconds), Breakdown(rows), notes=("assumed",))


@given(
    seconds=st.lists(st.floats(min_value=1e-9, max_value=1e3), min_size=1, max_size=5),
    logarithm=st.floats(min_value=-5, max_value=5),
)
def test_corrected_time_is_the_base_times_the_exponential(seconds: list[float], logarithm: float):
    corrected_time = corrected(base(*seconds), logarithm)
    assert float(corrected_time.seconds) == pytest.approx(sum(seconds) * exp(logarithm), rel=1e-9)
    assert corrected_time.breakdown.seconds == corrected_time.seconds
    assert corrected_time.breakdown.rows[-1].property == CORRECTION
    assert corrected_time.notes == ("assumed",)


def test_zero_correction_keeps_the_base():
    corrected_time = corrected(base(1e-3, 2e-3), 0.0)
    assert (corrected_time.seconds, corrected_time.breakdown.by_property()[CORRECTION]) == (
        base(1e-3, 2e-3).seconds,
        0.0,
    )


@given(logarithm=st.floats(min_value=-2, max_value=2), instructions=st.floats(min_value=1e3, max_value=1e12))
def test_correction_matches_the_papers_equation_for_throughput(logarithm: float, instructions: float):
    # IPS₀ = I N/(P₂ t_linear), IPS = IPS₀ exp(-f): the instructions cancel.
    throughput = instructions * 1000 / (96 * LINEAR) * exp(-logarithm)
    seconds = instructions * 1000 / (96 * throughput)  # t_ML = I N/(P₂ IPS)
    assert seconds == pytest.approx(float(corrected(base(LINEAR), logarithm).seconds), rel=1e-9)


def test_features_of_the_samples_of_one_program():
    found = sampled_features([SampledProgram("f", SAMPLES)], 1e6).told
    # 0.9e-4 s for 32 more groups, 2.9e-4 s for 96.
    assert found["growth"] == pytest.approx(0.9e-4 / 32 * 96 / 2.9e-4)
    assert (found["runs sampled"], found["share sampled"]) == pytest.approx((3, 0.096))
    assert found["throughput of the linear model"] == pytest.approx(log1p(1e6 / LINEAR))


def test_programs_are_weighted_by_their_time():
    long = Samples((64, 96), (2e-2, 2.9e-2), 32, 1000)
    found = sampled_features([SampledProgram("f", SAMPLES), SampledProgram("g", long)], 1e6).told
    alone = sampled_features([SampledProgram("g", long)], 1e6).told
    share = 1 / 101
    expected = alone["seconds of a run"] + share * (log(2.9e-4 / 3e-9 + 1) - alone["seconds of a run"])
    assert found["seconds of a run"] == pytest.approx(expected)


def test_missing_samples_raise():
    with pytest.raises(ModelInputError, match="pass samples of each launch"):
        sampled_features([], 1e6)
