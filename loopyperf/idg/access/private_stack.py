"""What one access of a warp asks of private memory.

The stacks of the lanes are interleaved by words of 32 bits, so that lanes which access the same element access
consecutive words (CUDA C++ Programming Guide, "Device Memory Accesses", local memory). In sectors that is what
consecutive elements would ask of global memory.
"""

import numpy as np

from loopyperf.counts.memory import Reference
from loopyperf.errors import UncountableError
from loopyperf.idg.access.sectors import SectorAccess, sector_access


def private_access(ref: Reference, lanes: int = 32) -> SectorAccess:
    """Return what *ref*, one of private memory, asks for where all *lanes* access the same element of their arrays.

    Raises :class:`UncountableError` for a reference of another memory.
    """
    if ref.space != "private":
        raise UncountableError(f"{ref.array!r} lives in {ref.space} memory: take access_pattern(...)")
    element_bytes = ref.bits // 8
    return sector_access(np.arange(lanes) * element_bytes, element_bytes)
