"""What one access of a warp asks of private memory.

The stacks of the lanes are interleaved by words of 32 bits, so that lanes which access the same element access
consecutive words (CUDA C++ Programming Guide, "Device Memory Accesses", local memory). Each word of an element has room
of its own for all lanes of the warp: a line, of warps of 32.
"""

from dataclasses import replace

import numpy as np

from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory import Reference
from loopyperf.errors import UncountableError
from loopyperf.memory.sectors import SectorAccess, sector_access

WORD = 4
"""bytes"""


def private_access(ref: Reference, lanes: int) -> SectorAccess:
    """Return what *ref*, one of private memory, asks for where all *lanes* of a warp access the same element.

    Raises :class:`UncountableError` for a reference of another memory.
    """
    if ref.space != MemorySpace.PRIVATE:
        raise UncountableError(f"{ref.array!r} lives in {ref.space} memory: take access_pattern(...)")
    words = max(1, ref.bits // 32)
    starts = np.arange(lanes) * WORD + lanes * WORD * np.arange(words)[:, np.newaxis]
    return replace(sector_access(starts.ravel(), min(WORD, ref.bits // 8)), lanes=lanes)
