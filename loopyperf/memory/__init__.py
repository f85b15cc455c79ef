"""Addresses of lanes: sectors, bank conflicts, footprints, reuse and the traffic of each memory level.

In: the accesses of a launch at given sizes. Out: the :class:`KernelProfile` of a program.
Start with ``kernel_profile.py``, then ``addresses.py``.
"""

from loopyperf.memory.kernel_profile import AccessPattern, AccessProfile, access_pattern
from loopyperf.memory.private_reuse import private_access
from loopyperf.memory.sectors import BankAccess, SectorAccess, bank_access, sector_access

__all__ = [
    "AccessPattern",
    "AccessProfile",
    "BankAccess",
    "SectorAccess",
    "access_pattern",
    "bank_access",
    "private_access",
    "sector_access",
]
