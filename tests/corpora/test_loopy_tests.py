"""Tests that loopyperf counts all kernels of loopy's own tests for which Loopy generates code."""

import subprocess

import pytest

from . import loopy_tests
from .census import census
from .outcome import Outcome
from .specimen import Specimen

COUNTED_AT_LEAST = 620
"""of about 650, given the typical values that error messages request. For 24, Loopy generates no code: its tests pass
these programs to ``save_and_reload_temporaries`` or ``allocate_temporaries_for_base_storage``, or expect an error"""
ENUMERATED_AT_LEAST = 530
"""of those counted; others need data, are too large, or have features that enumeration does not support"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes() -> list[tuple[Specimen, Outcome]]:
    """Return the kernels of loopy's tests with their outcomes."""
    pytest.importorskip("pyopencl", reason="loopy's tests need pyopencl and PoCL")
    try:
        harvest = loopy_tests.harvest()
    except subprocess.CalledProcessError:
        pytest.skip("loopy's source distribution cannot be downloaded here")
    return list(census(harvest.specimens))


def test_no_kernel_is_refused_crashes_hangs_or_is_miscounted(
    outcomes: list[tuple[Specimen, Outcome]],
) -> None:
    proper = {"counted", "settled", "no code"}
    assert {specimen.name: outcome for specimen, outcome in outcomes if outcome.kind not in proper} == {}


def test_kernels_of_loopys_tests_are_counted(outcomes: list[tuple[Specimen, Outcome]]) -> None:
    counted = [outcome for _, outcome in outcomes if outcome.kind in ("counted", "settled")]
    assert len(counted) >= COUNTED_AT_LEAST
    assert counted.count(Outcome("counted", "enumeration agrees")) >= ENUMERATED_AT_LEAST
