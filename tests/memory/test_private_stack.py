"""What a warp's access of private memory asks for."""

from dataclasses import replace

import pytest

from loopyperf.counts.memory_accesses import Reference
from loopyperf.errors import UncountableError
from loopyperf.memory import private_access

DOUBLES = Reference("load", "private", "a", (0,), 64, is_linear=True)


def test_a_warp_moves_256_bytes_for_an_element_of_doubles() -> None:
    access = private_access(DOUBLES, 32)
    assert (access.sectors * 32, access.lines, access.coalescing) == (256, 2, "coalesced")


def test_floats_fill_one_line() -> None:
    assert private_access(replace(DOUBLES, bits=32), 32).lines == 1


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_warps_of_other_sizes_move_what_their_lanes_hold(lanes: int) -> None:
    access = private_access(DOUBLES, lanes)
    assert (access.sectors * 32, access.lines * 128) == (8 * lanes, 8 * lanes)


def test_other_memories_have_patterns_of_their_own() -> None:
    with pytest.raises(UncountableError, match="is in global memory"):
        private_access(replace(DOUBLES, space="global"), 32)
