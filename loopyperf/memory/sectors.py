"""Memory accesses of a warp: sectors and lines of global memory, wavefronts of local memory.

Global memory is moved in sectors of 32 bytes, four of which make a cache line of 128 (NVIDIA, CUDA C++ Best Practices
Guide, "Coalesced Access to Global Memory"; Nsight Compute, Kernel Profiling Guide, "Memory Tables"). Elements of 8 and
16 bytes are requested by half and quarter warps. If two of these share a sector, the second one finds it in the cache,
so sectors are counted on the union of all lanes.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Literal

import numpy as np

from loopyperf.idg.warp_classes import Integers

SECTOR = 32
"""bytes"""
LINE = 128
"""bytes; moving the base address by whole lines changes nothing here"""
CACHED_ACCESSES = 1 << 9
"""cached accesses; most accesses of a kernel are equal up to their start"""

Coalescing = Literal["idle", "broadcast", "coalesced", "misaligned", "strided", "scattered"]
"""
idle
    no lane is active;
broadcast
    several lanes, one address;
coalesced
    no more sectors than the distinct bytes fill;
misaligned
    would be coalesced if all addresses were moved by the same number of bytes;
strided
    the distinct addresses are equally spaced;
scattered
    anything else.

The first matching one applies.
"""


@dataclass(frozen=True, slots=True)
class SectorAccess:
    """One access of a warp to global memory."""

    lanes: int
    """active lanes"""
    sectors: int
    """touched sectors of 32 bytes"""
    lines: int
    """touched lines of 128 bytes"""
    requested: int
    """requested bytes, summed over lanes"""
    distinct: int
    """distinct requested bytes"""
    alignment: int
    """bytes: largest power of two, up to a line, that divides the lowest address"""
    coalescing: Coalescing
    """pattern of the lanes' addresses"""
    partial: int = 0
    """touched sectors of which at least one byte is not accessed"""
    wavefronts: int = 0
    """wavefronts through the banks of the combined cache and local memory, or of the constant cache, on a hit"""
    updates: int = 0
    """atomic updates that follow one another: for each sector, the most lanes at one address; 0 for other accesses"""


def sector_access(addresses: Integers, element_bytes: int) -> SectorAccess:
    """Return the access of active lanes to *element_bytes* of global memory each, at byte *addresses*."""
    return _sector_access(from_first(addresses, LINE), element_bytes)


def updates_in_sequence(addresses: Integers) -> int:
    """Return the atomic updates at byte *addresses* that follow one another; see :attr:`SectorAccess.updates`."""
    places, lanes = np.unique(addresses, return_counts=True)
    most: dict[int, int] = {}
    for sector, number in zip((places // SECTOR).tolist(), lanes.tolist(), strict=True):
        most[sector] = max(most.get(sector, 0), number)
    return sum(most.values())


def from_first(addresses: Integers, block: int) -> bytes:
    """Return *addresses* relative to the start of the block (of *block* bytes) that contains the lowest one."""
    first = addresses.min() // block * block if len(addresses) else 0
    return (addresses.astype(np.int64) - first).tobytes()


@lru_cache(maxsize=CACHED_ACCESSES)
def _sector_access(lanes: bytes, element_bytes: int) -> SectorAccess:
    addresses = np.frombuffer(lanes, dtype=np.int64)
    starts = np.unique(addresses)
    sectors = touched_blocks(starts, element_bytes, SECTOR)
    return SectorAccess(
        lanes=len(addresses),
        sectors=sectors,
        lines=touched_blocks(starts, element_bytes, LINE),
        requested=len(addresses) * element_bytes,
        distinct=_distinct_bytes(starts, element_bytes),
        alignment=gcd(int(starts[0]), LINE) if len(starts) else LINE,
        coalescing=_coalescing(starts, len(addresses), element_bytes, sectors),
        partial=sectors - _whole_sectors(starts, element_bytes),
    )


def touched_blocks(starts: Integers, element_bytes: int, block: int) -> int:
    """Return the number of aligned blocks of *block* bytes that elements at *starts* touch."""
    inside = [*range(0, element_bytes, block), element_bytes - 1]
    return len(np.unique(np.concatenate([(starts + offset) // block for offset in inside])))


def _whole_sectors(starts: Integers, element_bytes: int) -> int:
    """Return the number of sectors whose bytes are all in elements at *starts*."""
    grain = gcd(element_bytes, SECTOR, int(np.gcd.reduce(starts)))
    grains = np.unique((starts[:, np.newaxis] + np.arange(0, element_bytes, grain)) // grain)
    return int((np.unique(grains * grain // SECTOR, return_counts=True)[1] * grain == SECTOR).sum())


def _distinct_bytes(starts: Integers, element_bytes: int) -> int:
    """Return the size in bytes of the union of elements at the sorted *starts*."""
    if not len(starts):
        return 0
    return element_bytes + int(np.minimum(np.diff(starts), element_bytes).sum())


def _coalescing(starts: Integers, lanes: int, element_bytes: int, sectors: int) -> Coalescing:
    least = -(-_distinct_bytes(starts, element_bytes) // SECTOR)
    if not lanes:
        return "idle"
    grain = gcd(element_bytes, SECTOR, int(np.gcd.reduce(starts)))
    if lanes > 1 and len(starts) == 1:
        return "broadcast"
    if sectors == least:
        return "coalesced"
    if any(touched_blocks(starts + shift, element_bytes, SECTOR) == least for shift in range(0, SECTOR, grain)):
        return "misaligned"
    return "strided" if len(np.unique(np.diff(starts))) == 1 else "scattered"


# {{{ access of a warp to local (shared) memory: wavefronts over its 32 banks
#
# Consecutive words of four bytes are in consecutive banks, and a bank serves one word at a time to all lanes that need
# it (NVIDIA, CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later). A wavefront carries at
# most 128 bytes: elements of 8 bytes are accessed by half warps, elements of 16 bytes by quarter warps, each with its
# own conflicts.
#
# Loads need fewer wavefronts if lanes share addresses: if in all pairs of active lanes (t, t^1), or in all pairs
# (t, t^2), both lanes have the same address, parts of the warp are served together in twos. Source: an NVIDIA engineer
# on forums.developer.nvidia.com, topic 77228, for compute capability 7.0 to 7.5; assumed for later ones too.


BANKS = 32
WORD = 4
"""bytes"""
WIDEST = 16
"""bytes that one instruction moves for a lane; wider elements are split"""
MERGED = (8, WIDEST)
"""bytes per lane of merged loads of neighboring elements"""


@dataclass(frozen=True, slots=True)
class BankAccess:
    """One access of a warp to local memory."""

    lanes: int
    """active lanes"""
    requested: int
    """requested bytes, summed over lanes"""
    wavefronts: int
    """wavefronts through the banks"""
    ideal_wavefronts: int
    """wavefronts without bank conflicts"""

    @property
    def conflicts(self) -> int:
        """Return the wavefronts beyond the ideal: the conflict degree D of Lemeire 6.3."""
        return self.wavefronts - self.ideal_wavefronts


def bank_access(
    lanes: Integers, addresses: Integers, element_bytes: int, is_load: bool = True, is_update: bool = False
) -> BankAccess:
    """Return the access of active *lanes* (numbers) to *element_bytes* of local memory each, at byte *addresses*.

    Elements that are wider than 16 bytes, or whose size is not a power of two, are split. In an atomic update, a bank
    serves lanes of the same word one after the other.
    """
    places = from_first(addresses, WORD)
    return _bank_access(lanes.astype(np.int64).tobytes(), places, element_bytes, is_load, is_update)


@lru_cache(maxsize=CACHED_ACCESSES)
def _bank_access(numbers: bytes, places: bytes, element_bytes: int, is_load: bool, is_update: bool) -> BankAccess:
    lanes, addresses = np.frombuffer(numbers, dtype=np.int64), np.frombuffer(places, dtype=np.int64)
    piece = gcd(element_bytes, WIDEST)
    together = BANKS * WORD // max(piece, WORD)
    if is_load and piece > WORD and _share_addresses(lanes, addresses):
        together *= 2
    wavefronts = [
        _wavefronts(addresses[lanes // together == part] + offset, piece, is_update)
        for offset in range(0, element_bytes, piece)
        for part in np.unique(lanes // together)
    ]
    return BankAccess(
        lanes=len(lanes),
        requested=len(lanes) * element_bytes,
        wavefronts=sum(wavefronts),
        ideal_wavefronts=len(wavefronts),
    )


def _wavefronts(addresses: Integers, piece: int, is_update: bool) -> int:
    """Return the largest number of words in one bank that pieces at *addresses* touch; of updates, of any lane."""
    if is_update:
        return int(np.bincount(addresses // WORD % BANKS).max())
    inside = [*range(0, piece, WORD), piece - 1]
    words = np.unique(np.concatenate([(addresses + offset) // WORD for offset in inside]))
    return int(np.bincount(words % BANKS).max())


def _share_addresses(lanes: Integers, addresses: Integers) -> bool:
    """Return whether lanes have the same address in pairs: all pairs of neighbors, or of lanes at distance two."""
    by_lane = dict(zip(lanes.tolist(), addresses.tolist(), strict=True))
    return any(
        all(by_lane.get(lane ^ distance, address) == address for lane, address in by_lane.items())
        for distance in (1, 2)
    )


# }}}
