"""What the accesses of a warp ask of memory: addresses of its lanes, sectors, lines, banks."""

from loopyperf.idg.access.banks import BankAccess, bank_access
from loopyperf.idg.access.private_stack import private_access
from loopyperf.idg.access.profile import AccessPattern, AccessProfile, access_pattern, pattern_of_copy
from loopyperf.idg.access.sectors import SectorAccess, sector_access

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
