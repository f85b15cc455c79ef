"""Memory traffic of a warp's accesses to private memory."""

from dataclasses import replace

import pytest

from loopyperf.counts.memory_accesses import Reference
from loopyperf.errors import UncountableError
from loopyperf.memory import private_access

DOUBLES = Reference("load", "private", "a", (0,), 64, is_linear=True)


def test_warp_moves_256_bytes_for_one_double_per_lane() -> None:
    access = private_access(DOUBLES, 32)
    assert (access.sectors * 32, access.lines, access.coalescing) == (256, 2, "coalesced")


def test_one_float_per_lane_fills_one_line() -> None:
    assert private_access(replace(DOUBLES, bits=32), 32).lines == 1


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_traffic_is_proportional_to_warp_size(lanes: int) -> None:
    access = private_access(DOUBLES, lanes)
    assert (access.sectors * 32, access.lines * 128) == (8 * lanes, 8 * lanes)


def test_access_to_global_memory_is_rejected() -> None:
    with pytest.raises(UncountableError, match="is in global memory"):
        private_access(replace(DOUBLES, space="global"), 32)
