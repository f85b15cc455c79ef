"""The linear model, compared with sums computed by hand."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.calibration.fits import load_fit
from loopyperf.device.device_library import bundled_fits
from loopyperf.models.linear import linear_time
from tests.minimal_fit import Weighted

PAPER = load_fit(bundled_fits() / "amd-r9-fury" / "linear.json")


def test_published_weights_match_the_papers_table_by_hand():
    # Table 2, with a million of each but the launch and 4000 work-groups. 1e-12 s: additions 0.681, multiplications
    # 0.568, stride-1 loads 8.27, stores 6.52, their minimum −6.63, local loads −1.76 and barriers 42.6 are 50.249,
    # times a million 50.249 µs; 4000 groups · 3.75 ns = 15 µs; launch 129 µs: 194.249 µs together.
    million = [
        "f32 add",
        "f32 mul",
        "global load 32-bit stride 1",
        "global store 32-bit stride 1",
        "global min(load, store) 32-bit stride 1",
        "local load 32-bit",
        "barriers",
    ]
    shares = {**{name: {"": 10**6} for name in million}, "work-groups": {"": 4000}, "launches": {"": 1}}
    assert linear_time(PAPER, shares).seconds == pytest.approx(194.249e-6, rel=1e-12)  # rounding of nine products


def test_breakdown_row_is_count_times_weight():
    result = linear_time(PAPER, {"f32 add": {"update": 10**9, "fetch": 1}, "launches": {"launch of k": 1}})
    rows = [(row.property, row.source, row.count, row.weight) for row in result.breakdown.rows]
    assert rows == [
        ("f32 add", "update", 10**9, 6.81e-13),
        ("f32 add", "fetch", 1, 6.81e-13),
        ("launches", "launch of k", 1, 1.29e-4),
    ]
    # A row is a multiple of the spacing of float64 at 0.8 ms, 1.1e-19: rounding moves it by at most half of it, twice.
    expected = [6.81e-4, 6.81e-13, 1.29e-4]
    assert [row.seconds for row in result.breakdown.rows] == pytest.approx(expected, rel=0, abs=1e-18)


def test_costs_are_grouped_by_property_and_by_source():
    weights = {"f32 add": 1.0, "f32 mul": 10.0}
    shares = {"f32 add": {"update": 1, "fetch": 2}, "f32 mul": {"update": 3}}
    breakdown = linear_time(Weighted(weights), shares).breakdown
    assert breakdown.by_property() == {"f32 add": 3.0, "f32 mul": 30.0}
    assert breakdown.by_source() == {"update": 31.0, "fetch": 2.0}


weights = st.floats(min_value=-1e-3, max_value=1e-3, allow_nan=False)
terms = st.lists(st.tuples(weights, st.integers(min_value=0, max_value=10**15)), max_size=12)


@given(terms)
def test_time_is_the_exact_sum_of_products_up_to_rounding(terms: list[tuple[float, int]]):
    named = {f"p{index}": term for index, term in enumerate(terms)}
    seconds = linear_time(
        Weighted({name: weight for name, (weight, _) in named.items()}),
        {name: {"": count} for name, (_, count) in named.items()},
    ).seconds
    exact = [Fraction(weight) * count for weight, count in terms]
    # Each product rounds by 2⁻⁵³ of itself, the sum by half a quantum: 2⁻⁵² of the magnitude, or 5e-324.
    bound = sum(map(abs, exact)) * Fraction(1, 2**50) + len(terms) * Fraction(5e-324)
    assert abs(Fraction(seconds) - sum(exact)) <= bound


def test_counts_beyond_64_bits_are_supported():
    assert linear_time(Weighted({"f32 add": 1e-30}), {"f32 add": {"": 10**30}}).seconds == pytest.approx(1.0, rel=1e-15)
