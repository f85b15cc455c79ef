"""A small calibration, shared by the tests of fits and their files."""

from datetime import UTC, datetime

import pytest

from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import CANDIDATES, cross_validate, make_fit
from loopyperf.calibration.overlap_fit import solve
from loopyperf.calibration.problem import Observation, pose_problem


@pytest.fixture
def provenance() -> Provenance:
    return Provenance(
        model="linear",
        device="NVIDIA TITAN V",
        slug="nvidia-titan-v",
        driver="NVIDIA CUDA 430.14",
        backend="opencl",
        versions={"loopyperf": "0.1.0", "loopy": "2025.2"},
        protocol={"runs": 30, "discarded": 4, "statistic": "minimum", "fraction": 0.5, "events": True},
        counting="executed",
        created=datetime(2026, 7, 14, 12, 30, tzinfo=UTC),
        source="a test",
        launch_overhead=4e-6,
    )


@pytest.fixture
def observations() -> tuple[Observation, ...]:
    """T = 5 µs·launches + 2 ps·adds + 3 ps·barriers, with as many local stores as barriers."""
    counts = [("empty", 4, 0, 0), ("add", 4, 10**6, 0), ("add", 8, 10**7, 0), ("tile", 4, 10**5, 10**6)]
    return tuple(
        Observation(
            kernel_class,
            "group 16x16",
            {"n": n},
            {"launches": 1, "f32 add": adds, "barriers": barriers, "local store 32-bit": barriers},
            5e-6 + 2e-12 * adds + 3e-12 * barriers,
        )
        for kernel_class, n, adds, barriers in counts
    )


@pytest.fixture
def fit(provenance: Provenance, observations: tuple[Observation, ...]) -> Fit:
    """A fit with every field filled."""
    linear = next(each for each in CANDIDATES if each.name == "linear, non-negative")
    problem = pose_problem(observations)
    return make_fit(provenance, problem, linear, solve(problem), cross_validate(observations))
