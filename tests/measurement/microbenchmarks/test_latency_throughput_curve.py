"""Tests that a latency-throughput curve recovers the latencies of chains, within their standard errors."""

import numpy as np
import pytest

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import MeasurementError
from loopyperf.idg import Idg
from loopyperf.measurement.microbenchmarks.memory_benchmarks import boat_hull
from loopyperf.pipeline import Execution, simulate

WARPS = (1, 2, 4, 8, 16, 24, 32)
LENGTH = 100
"""instructions of a chain"""
TABLE_2 = [(1, 18), (0.25, 6), (1, 14), (4, 58), (1.75, 29), (23, 521)]
"""Cornelis and Lemeire, table II: λ and Λ on Fermi and on Pascal, where 32 warps determine both"""


def simulated(issue: float, completion: float, warps=WARPS, length: int = LENGTH) -> np.ndarray:
    """Return the simulated cycles of a chain for each number of warps on a core."""
    graph = Idg.from_edges(["x"], [(0, 0, 1)], trips=length)
    timing = {"x": Lambdas(issue, completion)}
    return np.array([simulate(graph, timing, Execution(1, number, number)).cycles for number in warps])


@pytest.mark.parametrize(("issue", "completion"), TABLE_2)
def test_simulated_latencies_are_recovered(issue: float, completion: float) -> None:
    warps = (*WARPS, 48)
    hull = boat_hull(warps, simulated(issue, completion, warps), LENGTH)
    # The solver's remaining deviation is below 10⁻⁶.
    assert hull.issue.value == pytest.approx(issue, rel=1e-5)
    assert hull.completion.value == pytest.approx(completion, rel=1e-5)
    assert hull.residual < 1e-5


def test_chains_of_different_lengths_are_fitted_together() -> None:
    lengths = [LENGTH, 50, 200, LENGTH, 75, 300, 20]
    cycles = [simulated(2, 30, [number], length)[0] for number, length in zip(WARPS, lengths, strict=True)]
    hull = boat_hull(WARPS, cycles, lengths)
    assert (hull.issue.value, hull.completion.value) == pytest.approx((2, 30), rel=1e-5)


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.05])
def test_errors_of_latencies_match_the_standard_errors(noise: float) -> None:
    exact, random, trials = simulated(2, 24), np.random.default_rng(1), 200
    hulls = [
        boat_hull(WARPS, exact * np.exp(noise * random.standard_normal(len(WARPS))), LENGTH) for _ in range(trials)
    ]
    estimates = [(hull.issue, 2) for hull in hulls if hull.issue] + [(h.completion, 24) for h in hulls if h.completion]
    assert len(estimates) > 1.9 * trials
    # Three or four points per latency: Student's t with about 2 degrees of freedom is within 4 standard errors in 94 %.
    within = sum(abs(found.value - true) <= 4 * found.error for found, true in estimates) / len(estimates)
    assert within > 0.88
    # Standard errors that are always large would pass the check above.
    assert np.median([found.relative_error for found, _ in estimates]) < noise


def test_issue_latency_is_absent_if_the_pipeline_never_saturates() -> None:
    # Saturation takes Λ/λ = 40 warps.
    hull = boat_hull(WARPS, simulated(1, 40), LENGTH)
    assert hull.issue is None
    assert hull.completion.value == pytest.approx(40, rel=1e-5)


def test_one_rising_point_gives_no_issue_latency() -> None:
    # Λ/λ = 28: only 32 warps saturate the pipeline, and that point may be an outlier.
    assert boat_hull(WARPS, simulated(1, 28), LENGTH).issue is None


def test_completion_latency_is_bounded_if_the_pipeline_is_saturated() -> None:
    hull = boat_hull(WARPS, simulated(8, 5), LENGTH)
    assert hull.completion is None
    assert hull.issue.value == pytest.approx(8, rel=2e-3)
    # One warp: 5 + 99·8 cycles for 100 instructions
    assert hull.at_most.value == pytest.approx(7.97)


def test_one_flat_point_gives_no_completion_latency() -> None:
    # Λ/λ = 1.5: only a single warp does not saturate the pipeline, and that point may be an outlier.
    hull = boat_hull(WARPS, simulated(8, 12), LENGTH)
    assert hull.completion is None
    assert hull.at_most.value == pytest.approx(12)


def test_one_outlier_changes_little() -> None:
    cycles = simulated(2, 24)
    cycles[5] *= 2
    hull = boat_hull(WARPS, cycles, LENGTH)
    # Its effect on the three rising points equals that of an error of 2 %.
    assert (hull.issue.value, hull.completion.value) == pytest.approx((2, 24), rel=0.02)
    assert hull.residual == pytest.approx(0.5, rel=0.02)


def test_times_of_another_shape_are_refused() -> None:
    with pytest.raises(MeasurementError, match=r"do not follow a latency-throughput curve.*at 32"):
        boat_hull(WARPS, simulated(2, 24)[::-1], LENGTH)


@pytest.mark.parametrize(
    ("warps", "cycles", "message"),
    [
        ((1, 2), (10, 10), "three or more numbers of warps"),
        ((1, 2, 2), (10, 10, 10), "three or more numbers of warps"),
        ((1, 2, 4), (10, 0, 10), "cycles > 0"),
        ((0, 2, 4), (10, 10, 10), "must be >= 1"),
        ((1, 2, 4), (10, float("nan"), 10), "cycles > 0"),
    ],
)
def test_invalid_measurements_are_rejected(warps, cycles, message: str) -> None:
    with pytest.raises(MeasurementError, match=message):
        boat_hull(warps, cycles, LENGTH)
