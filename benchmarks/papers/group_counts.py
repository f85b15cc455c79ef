"""Group sizes and numbers of concurrent groups, varied as by Cornelis and Lemeire (Cornelis, section IV.A).

"Group sizes were limited to powers of two greater than or equal to 32": "For the Fermi GPU we explored 34 combinations
for 18 different warp counts. For the Pascal GPU we explored 78 combinations for 43 warp counts." Lemeire, section
6.3, describes how to limit the number of concurrent groups: each group allocates more local memory than it needs. The
possible numbers follow from the device's limits: local memory per core and per group, and the allocation unit.
"""

from collections.abc import Mapping

from loopyperf.device.description import Device
from loopyperf.device.occupancy import Occupancy, occupancy

SMALLEST, LARGEST = 32, 1024
"""range of work-items of a group"""


def concurrent_groups(device: Device, work_items: int, local_memory: int = 0) -> Mapping[int, Occupancy]:
    """Return a mapping from each possible number of concurrent groups of *work_items* to the occupancy.

    Each group needs *local_memory* bytes, and allocates more in steps of the hardware's allocation unit.
    """
    limits = device.limits
    found: dict[int, Occupancy] = {}
    for allocated in range(local_memory, int(limits.local_memory_per_group) + 1, int(limits.local_memory_unit)):
        resident = occupancy(device, work_items, local_memory=allocated)
        found.setdefault(resident.groups, resident)
    return dict(sorted(found.items()))


def combinations(device: Device) -> list[Occupancy]:
    """Return the occupancy for each group size and each possible number of concurrent groups."""
    sizes = [SMALLEST << step for step in range((LARGEST // SMALLEST).bit_length())]
    found = [resident for size in sizes for resident in concurrent_groups(device, size).values()]
    return sorted(found, key=lambda resident: (resident.warps, resident.warps_per_group))
