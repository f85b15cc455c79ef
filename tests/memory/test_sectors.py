"""Sectors, lines and coalescing of given addresses, derived by hand and compared with a byte-by-byte count."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.memory import SectorAccess, sector_access
from tests.idg.brute_force_warp import blocks, bytes_of

ELEMENTS = st.sampled_from([1, 2, 4, 8, 12, 16, 32])


def strided_access(stride: int, element: int = 4, first: int = 0, lanes: int = 32) -> SectorAccess:
    """Return the access of lanes that are *stride* elements apart, starting at byte *first*."""
    return sector_access(first + element * stride * np.arange(lanes), element)


@given(element=ELEMENTS, places=st.lists(st.integers(-200, 400), max_size=64), shift=st.integers(0, 40))
def test_sectors_and_lines_equal_byte_by_byte_count(element: int, places: list[int], shift: int) -> None:
    addresses = [element * place + shift for place in places]
    access = sector_access(np.array(addresses, dtype=np.int64), element)
    lanes = dict(enumerate(addresses))
    assert (access.lanes, access.requested) == (len(places), element * len(places))
    assert (access.sectors, access.lines) == (blocks(lanes, element, 32), blocks(lanes, element, 128))
    assert access.distinct == len(bytes_of(lanes, element))
    written = Counter(byte // 32 for byte in bytes_of(lanes, element))
    assert access.partial == sum(number < 32 for number in written.values())


@given(element=ELEMENTS, places=st.lists(st.integers(0, 400), min_size=1, max_size=32), lines=st.integers(-3, 3))
def test_shift_by_whole_lines_changes_nothing(element: int, places: list[int], lines: int) -> None:
    addresses = element * np.array(places)
    assert sector_access(addresses + 128 * lines, element) == sector_access(addresses, element)


@given(element=ELEMENTS, places=st.lists(st.integers(0, 64), min_size=1, max_size=32))
def test_coalesced_access_has_as_few_sectors_as_its_bytes_fill(element: int, places: list[int]) -> None:
    addresses = element * np.array(places)
    access = sector_access(addresses, element)
    at_each_shift = (blocks(dict(enumerate((addresses + shift).tolist())), element, 32) for shift in range(32))
    if access.coalescing != "broadcast":
        fills = min(at_each_shift) == -(-access.distinct // 32)
        assert fills == (access.coalescing in ("coalesced", "misaligned"))


def test_sectors_derived_by_hand(subtests: pytest.Subtests) -> None:
    for access, sectors, lines, coalescing in [
        (strided_access(1), 4, 1, "coalesced"),  # 32*4 bytes = 4*32
        (strided_access(-1, first=31 * 4), 4, 1, "coalesced"),  # the same bytes in reverse order
        (strided_access(1, first=4), 5, 2, "misaligned"),  # from 4 to 132
        (strided_access(1, first=32), 4, 2, "coalesced"),  # from 32 to 160: whole sectors, two lines
        (strided_access(0), 1, 1, "broadcast"),
        (strided_access(0, lanes=1), 1, 1, "coalesced"),  # a single lane is not a broadcast
        (strided_access(2), 8, 2, "strided"),  # spans 256 bytes
        (strided_access(32), 32, 32, "strided"),  # a line each
        (strided_access(1, lanes=8), 1, 1, "coalesced"),  # 8*4 bytes
        (strided_access(1, element=8), 8, 2, "coalesced"),  # 32*8 bytes
        (strided_access(1, element=16), 16, 4, "coalesced"),  # 32*16 bytes, in quarter warps of 4 sectors
        (strided_access(2, element=16), 32, 8, "strided"),  # half of each sector
        (strided_access(1, element=1), 1, 1, "coalesced"),  # 32 bytes
        (strided_access(1, lanes=64), 8, 2, "coalesced"),  # a wavefront of AMD
        (sector_access(np.array([], dtype=int), 4), 0, 0, "idle"),
        (sector_access(4 * np.array([0, 1, 16, 100]), 4), 3, 2, "scattered"),  # sectors 0, 2 and 12
        # Two rows of 17 elements, of which 16 are used: bytes 0 to 63 and 68 to 131
        (sector_access(4 * np.array([*range(16), *range(17, 33)]), 4), 5, 2, "scattered"),
    ]:
        with subtests.test(access=access, sectors=sectors, lines=lines, coalescing=coalescing):
            assert (access.sectors, access.lines, access.coalescing) == (sectors, lines, coalescing)


@pytest.mark.parametrize(("first", "alignment"), [(0, 128), (256, 128), (64, 64), (96, 32), (4, 4), (132, 4)])
def test_alignment_is_that_of_the_lowest_address(first: int, alignment: int) -> None:
    assert strided_access(1, first=first).alignment == alignment
    assert strided_access(-1, first=first + 31 * 4).alignment == alignment
