"""What one access of a warp asks of private memory.

The stacks of the lanes are interleaved by words of 32 bits, so that lanes which access the same element access
consecutive words (CUDA C++ Programming Guide, "Device Memory Accesses", local memory). Each word of an element has a
line of its own, whether all lanes are there or not.
"""

from dataclasses import replace

import numpy as np

from loopyperf.counts.memory import Reference
from loopyperf.errors import UncountableError
from loopyperf.idg.access.sectors import LINE, SectorAccess, sector_access

WORD = 4
"""bytes"""


def private_access(ref: Reference, lanes: int = 32) -> SectorAccess:
    """Return what *ref*, one of private memory, asks for where all *lanes* access the same element of their arrays.

    Raises :class:`UncountableError` for a reference of another memory.
    """
    if ref.space != "private":
        raise UncountableError(f"{ref.array!r} lives in {ref.space} memory: take access_pattern(...)")
    words = max(1, ref.bits // 32)
    starts = np.arange(lanes) * WORD + LINE * np.arange(words)[:, np.newaxis]
    return replace(sector_access(starts.ravel(), min(WORD, ref.bits // 8)), lanes=lanes)
