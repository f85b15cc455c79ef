"""The overlap model: its two limits, breakdown rows and derivatives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.models.linear import curvatures, linear_time, overlap_time, overlapped, sensitivity, side
from tests.minimal_fit import Weighted

SIDES = ("memory", "on chip", None)
costs = st.lists(st.floats(1e-9, 1.0) | st.just(0.0), min_size=6, max_size=6)
placed = st.lists(st.sampled_from(SIDES), min_size=6, max_size=6)
sharpness = st.floats(1.0, 20.0)
ROUNDING = 1e-12


def parts(row: list[float], sides: list[str | None]) -> tuple[float, list[float]]:
    """Return the sum of costs without a side, and the sum of each side."""
    sums = {each: sum(cost for cost, place in zip(row, sides, strict=True) if place == each) for each in SIDES}
    return sums.pop(None), list(sums.values())


@given(costs, placed)
def test_time_with_sharpness_1_is_the_sum(row: list[float], sides: list[str | None]):
    assert overlapped(np.array([row]), sides, 1.0).seconds[0] == pytest.approx(sum(row), rel=ROUNDING)


@given(costs, placed, sharpness)
def test_time_is_between_the_largest_side_and_the_sum(row: list[float], sides: list[str | None], p: float):
    alone, sums = parts(row, sides)
    found = overlapped(np.array([row]), sides, p).seconds[0]
    assert (alone + max(sums)) * (1 - ROUNDING) <= found <= (alone + sum(sums)) * (1 + ROUNDING)
    assert found <= alone + max(sums) * 2 ** (1 / p) * (1 + ROUNDING)


def test_two_sides_by_hand():
    # (3² + 4²)^(1/2) = 5, plus 2 without overlap; the 4 of memory are 1 + 3.
    found = overlapped(np.array([[1.0, 3.0, 3.0, 2.0]]), ["memory", "memory", "on chip", None], 2.0)
    assert found.seconds.tolist() == [7.0]
    assert (found.factors * [1, 3, 3, 2]).tolist() == [[0.8, pytest.approx(2.4), pytest.approx(1.8), 2.0]]


@given(costs, placed, sharpness)
def test_rows_add_up_to_the_time(row: list[float], sides: list[str | None], p: float):
    found = overlapped(np.array([row]), sides, p)
    assert (found.factors * row).sum() == pytest.approx(found.seconds[0], rel=1e-9)


def test_derivatives_match_finite_differences():
    rng = np.random.default_rng(1)
    rows, sides, p, step = rng.uniform(0.1, 1, (20, 4)), ["memory", "memory", "on chip", None], 2.3, 1e-6
    found = overlapped(rows, sides, p)
    for column in range(4):
        ahead, behind = rows.copy(), rows.copy()
        ahead[:, column] += step
        behind[:, column] -= step
        slope = (overlapped(ahead, sides, p).seconds - overlapped(behind, sides, p).seconds) / (2 * step)
        assert found.factors[:, column] == pytest.approx(slope, rel=1e-6)
        rise = (overlapped(ahead, sides, p).factors - overlapped(behind, sides, p).factors)[:, column] / (2 * step)
        assert curvatures(rows, sides, p, found)[:, column] == pytest.approx(rise, rel=1e-6, abs=1e-9)
    slope = (overlapped(rows, sides, p + step).seconds - overlapped(rows, sides, p - step).seconds) / (2 * step)
    assert found.by_sharpness == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("part", [1e-12, 1e-20, 1e-320])
def test_curvature_of_a_single_negligible_cost_is_zero(part: float, p: float):
    # Nothing else overlaps: T is the sum of both, whose second derivatives are 0.
    rows, sides = np.array([[1.0, part]]), [None, "memory"]
    assert curvatures(rows, sides, p, overlapped(rows, sides, p)).tolist() == [[0.0, 0.0]]


def test_zero_cost_has_no_curvature():
    rows = np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
    sides = ["memory", "on chip", None]
    found = curvatures(rows, sides, 1.5, overlapped(rows, sides, 1.5))
    assert found.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_sides_of_counts_and_of_pipelines():
    assert [side(name, "counts") for name in ("global load 32-bit stride 1", "local load 32-bit", "f32 add")] == [
        "memory",
        "on chip",
        "on chip",
    ]
    assert side("further launches", "pipelines") is None
    assert side("launches", "counts") is side("launches", "pipelines") is side("start", "pipelines") is None
    assert side("L1: private", "pipelines") == side("L1: global", "pipelines") == "L1"


SHARES = {"global load 32-bit stride 1": {"fetch": 100, "insn": 50}, "f32 add": {"insn": 70}, "launches": {"": 1}}
WEIGHTS = {"global load 32-bit stride 1": 2e-9, "f32 add": 3e-9, "launches": 1e-6}


def test_overlap_with_sharpness_1_is_the_linear_model():
    linear = linear_time(Weighted(WEIGHTS), SHARES)
    same = overlap_time(Weighted(WEIGHTS, "overlap", 1.0), SHARES)
    assert same.seconds == pytest.approx(linear.seconds, rel=ROUNDING)
    assert [row.seconds for row in same.breakdown.rows] == pytest.approx([row.seconds for row in linear.breakdown.rows])


def test_busier_side_takes_most_of_the_time():
    found = overlap_time(Weighted(WEIGHTS, "overlap", 8.0), SHARES).breakdown
    costs = found.by_property()
    assert costs["launches"] == 1e-6
    # 300 ns of memory and 210 ns of additions: (0.7^8 + 1)^(1/8) = 1.0071, divided in the ratio 1 to 0.7^8.
    assert costs["f32 add"] / costs["global load 32-bit stride 1"] == pytest.approx(0.7**8, rel=1e-9)
    assert found.by_source()["fetch"] == pytest.approx(2 / 3 * costs["global load 32-bit stride 1"], rel=1e-9)


def test_pipeline_without_weight_takes_its_modeled_time():
    fit = Weighted({"DRAM": 2.0}, "overlap", 1.0, "pipelines")
    found = overlap_time(fit, {"DRAM": {"": 1.0}, "sfu": {"": 0.5}})
    assert (found.seconds, found.unfitted) == (2.5, ("sfu",))


def test_sensitivity_matches_finite_differences():
    kernels = [{name: sum(each.values()) for name, each in SHARES.items()}, {"f32 add": 5.0, "launches": 2.0}]
    fit = Weighted(WEIGHTS, "overlap", 2.0)
    found = sensitivity(fit, kernels)
    assert found.seconds[0] == pytest.approx(overlap_time(fit, SHARES).seconds, rel=ROUNDING)
    for place, name in enumerate(WEIGHTS):
        step = 1e-6 * WEIGHTS[name]
        ahead = sensitivity(Weighted({**WEIGHTS, name: WEIGHTS[name] + step}, "overlap", 2.0), kernels).seconds
        assert found.gradient[:, place] == pytest.approx(np.log(ahead / found.seconds) / step, rel=1e-4, abs=1)
    ahead = sensitivity(Weighted(WEIGHTS, "overlap", 2.0 + 1e-6), kernels).seconds
    assert found.gradient[:, -1] == pytest.approx(np.log(ahead / found.seconds) / 1e-6, rel=1e-4, abs=1e-8)
