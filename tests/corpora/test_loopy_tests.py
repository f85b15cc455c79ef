"""loopyperf counts the kernels of loopy's own tests; what it cannot count it refuses, by name and at once."""

import subprocess

import pytest

from . import loopy_tests
from .census import census
from .outcome import Outcome
from .specimen import Specimen

COUNTED_AT_LEAST = 492
"""of 645 to 649 (it varies) that Loopy can schedule; ``make corpora`` says why others are not"""
ENUMERATED_AT_LEAST = 440
"""of these; others are too large, or beyond what enumeration knows"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes() -> list[tuple[Specimen, Outcome]]:
    """Return the kernels of loopy's tests with what becomes of them."""
    pytest.importorskip("pyopencl", reason="loopy's tests need pyopencl and PoCL")
    try:
        harvest = loopy_tests.harvest()
    except subprocess.CalledProcessError:
        pytest.skip("loopy's source distribution cannot be downloaded here")
    return list(census(harvest.specimens))


@pytest.mark.xfail(strict=True, reason="9 kernels: arrays of unknown shape, storage that is not allocated")
def test_no_kernel_of_loopys_tests_crashes_hangs_or_is_miscounted(outcomes: list[tuple[Specimen, Outcome]]) -> None:
    proper = {"counted", "refused"}
    assert {specimen.name: outcome for specimen, outcome in outcomes if outcome.kind not in proper} == {}


def test_kernels_of_loopys_tests_are_counted(outcomes: list[tuple[Specimen, Outcome]]) -> None:
    counted = [outcome for _, outcome in outcomes if outcome.kind == "counted"]
    assert len(counted) >= COUNTED_AT_LEAST
    assert counted.count(Outcome("counted", "enumeration agrees")) >= ENUMERATED_AT_LEAST
