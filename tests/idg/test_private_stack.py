"""What a warp's access of private memory asks for."""

from dataclasses import replace

import pytest

from loopyperf.counts.memory import Reference
from loopyperf.errors import UncountableError
from loopyperf.idg.access import private_access

DOUBLES = Reference("load", "private", "a", (0,), 64, is_linear=True)


def test_a_warp_moves_256_bytes_for_an_element_of_doubles() -> None:
    access = private_access(DOUBLES)
    assert (access.sectors * 32, access.lines, access.coalescing) == (256, 2, "coalesced")


def test_floats_fill_one_line() -> None:
    assert private_access(replace(DOUBLES, bits=32)).lines == 1


def test_idle_lanes_ask_for_nothing() -> None:
    # 16 lanes of 8 bytes: 128 bytes.
    assert private_access(DOUBLES, lanes=16).sectors == 4


def test_other_memories_have_patterns_of_their_own() -> None:
    with pytest.raises(UncountableError, match="lives in global memory"):
        private_access(replace(DOUBLES, space="global"))
