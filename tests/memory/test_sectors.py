"""Sectors, lines and classes of plain addresses: by hand, and byte by byte."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.memory import SectorAccess, sector_access
from tests.idg.warp_by_hand import blocks, bytes_of

ELEMENTS = st.sampled_from([1, 2, 4, 8, 12, 16, 32])


def even(stride: int, element: int = 4, first: int = 0, lanes: int = 32) -> SectorAccess:
    """Return the access of lanes that are *stride* elements apart; *first* is in bytes."""
    return sector_access(first + element * stride * np.arange(lanes), element)


@given(element=ELEMENTS, places=st.lists(st.integers(-200, 400), max_size=64), shift=st.integers(0, 40))
def test_as_many_blocks_as_byte_by_byte(element: int, places: list[int], shift: int) -> None:
    addresses = [element * place + shift for place in places]
    access = sector_access(np.array(addresses, dtype=np.int64), element)
    lanes = dict(enumerate(addresses))
    assert (access.lanes, access.requested) == (len(places), element * len(places))
    assert (access.sectors, access.lines) == (blocks(lanes, element, 32), blocks(lanes, element, 128))
    assert access.distinct == len(bytes_of(lanes, element))


@given(element=ELEMENTS, places=st.lists(st.integers(0, 400), min_size=1, max_size=32), lines=st.integers(-3, 3))
def test_whole_lines_change_nothing(element: int, places: list[int], lines: int) -> None:
    addresses = element * np.array(places)
    assert sector_access(addresses + 128 * lines, element) == sector_access(addresses, element)


@given(element=ELEMENTS, places=st.lists(st.integers(0, 64), min_size=1, max_size=32))
def test_coalesced_up_to_a_shift_is_as_few_sectors_as_bytes_fill(element: int, places: list[int]) -> None:
    addresses = element * np.array(places)
    access = sector_access(addresses, element)
    at_each_shift = (blocks(dict(enumerate((addresses + shift).tolist())), element, 32) for shift in range(32))
    if access.coalescing != "broadcast":
        fills = min(at_each_shift) == -(-access.distinct // 32)
        assert fills == (access.coalescing in ("coalesced", "misaligned"))


def test_by_hand(subtests: pytest.Subtests) -> None:
    for access, sectors, lines, coalescing in [
        (even(1), 4, 1, "coalesced"),  # 32*4 bytes = 4*32
        (even(-1, first=31 * 4), 4, 1, "coalesced"),  # the same bytes the other way round
        (even(1, first=4), 5, 2, "misaligned"),  # from 4 to 132
        (even(1, first=32), 4, 2, "coalesced"),  # from 32 to 160: whole sectors, two lines
        (even(0), 1, 1, "broadcast"),
        (even(0, lanes=1), 1, 1, "coalesced"),  # one lane shares with nobody
        (even(2), 8, 2, "strided"),  # 256 bytes reached over
        (even(32), 32, 32, "strided"),  # a line each
        (even(1, lanes=8), 1, 1, "coalesced"),  # 8*4 bytes
        (even(1, element=8), 8, 2, "coalesced"),  # 32*8 bytes
        (even(1, element=16), 16, 4, "coalesced"),  # 32*16 bytes, in quarter warps of 4 sectors
        (even(2, element=16), 32, 8, "strided"),  # half of each sector
        (even(1, element=1), 1, 1, "coalesced"),  # 32 bytes
        (even(1, lanes=64), 8, 2, "coalesced"),  # a wavefront of AMD
        (sector_access(np.array([], dtype=int), 4), 0, 0, "idle"),
        (sector_access(4 * np.array([0, 1, 16, 100]), 4), 3, 2, "scattered"),  # sectors 0, 2 and 12
        # Rows of 17 elements, 16 used: bytes 0 to 63 and 68 to 131
        (sector_access(4 * np.array([*range(16), *range(17, 33)]), 4), 5, 2, "scattered"),
    ]:
        with subtests.test(access=access, sectors=sectors, lines=lines, coalescing=coalescing):
            assert (access.sectors, access.lines, access.coalescing) == (sectors, lines, coalescing)


@pytest.mark.parametrize(("first", "alignment"), [(0, 128), (256, 128), (64, 64), (96, 32), (4, 4), (132, 4)])
def test_alignment_is_that_of_the_lowest_address(first: int, alignment: int) -> None:
    assert even(1, first=first).alignment == alignment
    assert even(-1, first=first + 31 * 4).alignment == alignment
