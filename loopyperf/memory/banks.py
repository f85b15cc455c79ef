"""What one access of a warp asks of local (shared) memory: wavefronts over its 32 banks.

Consecutive words of four bytes lie in consecutive banks, and a bank serves one word at a time to all lanes that want
it (NVIDIA, CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later). A wavefront carries at
most 128 bytes: elements of 8 bytes go by half warps, elements of 16 bytes by quarter warps, each with its own
conflicts.

Loads return faster where lanes share addresses: if in all pairs of active lanes (t, t^1), or in all pairs (t, t^2),
both lanes have the same address, parts of the warp go together two by two. Source: an NVIDIA engineer on
forums.developer.nvidia.com, topic 77228, of compute capability 7.0 to 7.5; taken for later ones too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np

from loopyperf.idg.warps.warp import Integers

BANKS = 32
WORD = 4
"""bytes"""
WIDEST = 16
"""bytes that one instruction moves for a lane; wider elements are moved in pieces"""


@dataclass(frozen=True, slots=True)
class BankAccess:
    """One execution of an access of local memory by a warp."""

    lanes: int
    """that are active"""
    requested: int
    """bytes, each lane's own"""
    wavefronts: int
    """passes through the banks"""
    ideal_wavefronts: int
    """passes if no two words were in one bank"""

    @property
    def conflicts(self) -> int:
        """Return the wavefronts beyond the ideal: the conflict degree D of Lemeire 6.3."""
        return self.wavefronts - self.ideal_wavefronts


def bank_access(lanes: Integers, addresses: Integers, element_bytes: int, is_load: bool = True) -> BankAccess:
    """Return what the active *lanes*, by number, that access *element_bytes* each ask of local memory.

    *addresses* are theirs, in bytes. Elements that are no power of two, or wider than 16 bytes, go in pieces.
    """
    piece = gcd(element_bytes, WIDEST)
    together = BANKS * WORD // max(piece, WORD)
    if is_load and piece > WORD and _share_addresses(lanes, addresses):
        together *= 2
    wavefronts = [
        _wavefronts(addresses[lanes // together == part] + offset, piece)
        for offset in range(0, element_bytes, piece)
        for part in np.unique(lanes // together)
    ]
    return BankAccess(
        lanes=len(lanes),
        requested=len(lanes) * element_bytes,
        wavefronts=sum(wavefronts),
        ideal_wavefronts=len(wavefronts),
    )


def _wavefronts(addresses: Integers, piece: int) -> int:
    """Return the most words of one bank that pieces at *addresses* lie in."""
    inside = [*range(0, piece, WORD), piece - 1]
    words = np.unique(np.concatenate([(addresses + offset) // WORD for offset in inside]))
    return int(np.bincount(words % BANKS).max())


def _share_addresses(lanes: Integers, addresses: Integers) -> bool:
    """Return whether all neighbours, or all lanes and the next but one, have the same address in pairs."""
    by_lane = dict(zip(lanes.tolist(), addresses.tolist(), strict=True))
    return any(all(_agree(by_lane, distance)) for distance in (1, 2))


def _agree(by_lane: dict[int, int], distance: int) -> Iterator[bool]:
    return (by_lane.get(lane ^ distance, address) == address for lane, address in by_lane.items())
