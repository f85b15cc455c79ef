"""Tests that loopyperf counts every measured kernel of ``../shared/data/titan-v.pkl.xz``."""

import pytest

from . import titan_v
from .census import census

pytestmark = titan_v.needs_archive


def not_counted(every: int) -> dict[str, str]:
    """Return name -> reason for the kernels that are not counted, of one in *every*."""
    outcomes = census(titan_v.specimens(every))
    return {specimen.name: str(outcome) for specimen, outcome in outcomes if outcome.kind != "counted"}


def test_a_sample_of_the_measured_kernels_is_counted() -> None:
    assert not_counted(every=120) == {}


@pytest.mark.slow
def test_every_measured_kernel_is_counted() -> None:
    assert not_counted(every=1) == {}
