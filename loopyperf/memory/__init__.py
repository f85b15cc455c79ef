"""What the accesses of a warp ask of memory: addresses of its lanes, sectors, lines, banks."""

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
