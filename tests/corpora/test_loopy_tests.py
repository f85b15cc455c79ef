"""loopyperf counts the kernels of loopy's own tests; what it cannot count it refuses, by name and at once."""

import subprocess

import pytest

from . import loopy_tests
from .census import census
from .outcome import Outcome
from .specimen import Specimen

COUNTED_AT_LEAST = 0.98
"""of what Loopy can schedule, once what refusals ask for is stated; ``make corpora`` says why others are not"""
ENUMERATED_AT_LEAST = 545
"""of 645 to 649 (it varies); others need data, are too large, or are beyond what enumeration knows"""

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


def test_no_kernel_of_loopys_tests_crashes_hangs_or_is_miscounted(outcomes: list[tuple[Specimen, Outcome]]) -> None:
    proper = {"counted", "settled", "refused"}
    assert {specimen.name: outcome for specimen, outcome in outcomes if outcome.kind not in proper} == {}


def test_kernels_of_loopys_tests_are_counted(outcomes: list[tuple[Specimen, Outcome]]) -> None:
    counted = [outcome for _, outcome in outcomes if outcome.kind in ("counted", "settled")]
    assert len(counted) >= COUNTED_AT_LEAST * len(outcomes)
    assert counted.count(Outcome("counted", "enumeration agrees")) >= ENUMERATED_AT_LEAST
