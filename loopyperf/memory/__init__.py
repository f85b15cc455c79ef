"""What the accesses of a warp ask of memory: addresses of its lanes, sectors, lines, banks."""

from loopyperf.memory.banks import BankAccess, bank_access
from loopyperf.memory.private_stack import private_access
from loopyperf.memory.profile import AccessPattern, AccessProfile, access_pattern, pattern_of_copy
from loopyperf.memory.sectors import SectorAccess, sector_access

__all__ = [
    "AccessPattern",
    "AccessProfile",
    "BankAccess",
    "SectorAccess",
    "access_pattern",
    "bank_access",
    "pattern_of_copy",
    "private_access",
    "sector_access",
]
