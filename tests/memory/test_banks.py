"""Wavefronts of local memory accesses, derived by hand and compared with a bank-by-bank count."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.memory import BankAccess, bank_access
from loopyperf.memory.sectors import updates_in_sequence
from tests.idg.brute_force_warp import wavefronts

ELEMENTS = st.sampled_from([1, 2, 4, 8, 16])


def strided_access(stride: int, element: int = 4, lanes: int = 32, is_load: bool = True) -> BankAccess:
    """Return the access of lanes that are *stride* elements apart."""
    numbers = np.arange(lanes)
    return bank_access(numbers, element * stride * numbers, element, is_load)


@given(
    element=ELEMENTS,
    places=st.dictionaries(st.integers(0, 63), st.integers(0, 300), max_size=64),
    is_load=st.booleans(),
)
def test_wavefronts_equal_bank_by_bank_count(element: int, places: dict[int, int], is_load: bool) -> None:
    lanes = {lane: element * place for lane, place in sorted(places.items())}
    numbers, addresses = np.array(list(lanes), dtype=int), np.array(list(lanes.values()), dtype=int)
    access = bank_access(numbers, addresses, element, is_load)
    expected = wavefronts(lanes, element, is_load)
    assert (access.wavefronts, access.ideal_wavefronts) == (sum(expected), len(expected))
    assert access.conflicts == sum(expected) - len(expected)


@given(
    element=st.sampled_from([8, 16]), places=st.lists(st.integers(0, 40), min_size=16, max_size=16), far=st.booleans()
)
def test_wavefronts_equal_bank_by_bank_count_for_shared_words(element: int, places: list[int], far: bool) -> None:
    # Lanes 0, 1, 2, 3, 4 access places 0, 0, 1, 1, 2, or with far 0, 1, 0, 1, 2.
    lanes = {lane: element * places[lane // 4 * 2 + lane % 2 if far else lane // 2] for lane in range(32)}
    access = bank_access(np.arange(32), np.array(list(lanes.values())), element)
    assert access.ideal_wavefronts == element // 8
    assert access.wavefronts == sum(wavefronts(lanes, element, is_load=True))


@given(places=st.dictionaries(st.integers(0, 31), st.integers(0, 300), min_size=1))
def test_updates_of_one_address_or_bank_follow_one_another(places: dict[int, int]) -> None:
    numbers, addresses = np.array(list(places)), 4 * np.array(list(places.values()))
    by_bank = Counter(address // 4 % 32 for address in addresses.tolist())
    assert bank_access(numbers, addresses, 4, is_load=False, is_update=True).wavefronts == max(by_bank.values())
    by_address = Counter(addresses.tolist())
    by_sector: dict[int, int] = {}
    for address, lanes in by_address.items():
        by_sector[address // 32] = max(lanes, by_sector.get(address // 32, 0))
    assert updates_in_sequence(addresses) == sum(by_sector.values())


def test_wavefronts_derived_by_hand(subtests: pytest.Subtests) -> None:
    for access, number, ideal in [
        (strided_access(1), 1, 1),  # bank l
        (strided_access(0), 1, 1),  # one word for all
        (strided_access(2), 2, 1),  # bank 2l: 16 banks with two words each
        (strided_access(3), 1, 1),  # 3 and 32 share no factor
        (strided_access(32), 32, 1),  # bank 0: a column of a tile of 32
        (strided_access(33), 1, 1),  # padded by one: bank l
        (strided_access(1, lanes=64), 2, 2),  # a wavefront of AMD: two times 128 bytes
        (strided_access(1, element=1), 1, 1),  # four lanes to a word
        (strided_access(64, element=1), 16, 1),  # 64 bytes apart: banks 0 and 16, 16 words each
        (strided_access(1, element=8), 2, 2),  # 16 lanes fill the 32 banks
        (strided_access(2, element=8), 4, 2),  # banks 4l and 4l+1 of 16 lanes: two words each
        (strided_access(32, element=8), 32, 2),  # 256 bytes apart: all lanes of a half in one bank
        (strided_access(33, element=8), 2, 2),  # 264 bytes apart: banks 2l and 2l+1
        (strided_access(0, element=8), 1, 1),  # all lanes share a word, so both halves are served at once
        (strided_access(0, element=8, is_load=False), 2, 2),  # stores are not combined
        (strided_access(1, element=16), 4, 4),  # 8 lanes fill the 32 banks
        (strided_access(2, element=16), 8, 4),
        (strided_access(0, element=16), 2, 2),  # quarters are served in pairs
        (strided_access(1, element=32), 16, 8),  # two parts of 16 bytes, 32 bytes apart: each like stride 2
        (strided_access(1, lanes=16, element=8), 1, 1),  # half a warp
        (strided_access(1, lanes=0), 0, 0),
    ]:
        with subtests.test(access=access, number=number, ideal=ideal):
            assert (access.wavefronts, access.ideal_wavefronts, access.conflicts) == (number, ideal, number - ideal)
