"""Group sizes and numbers of concurrent groups, as Cornelis and Lemeire vary them (Cornelis, section IV.A).

"Group sizes were limited to powers of two greater than or equal to 32": "For the Fermi GPU we explored 34 combinations
for 18 different warp counts. For the Pascal GPU we explored 78 combinations for 43 warp counts." How groups are kept
from residing together is said in Lemeire, section 6.3: each is given more local memory than it needs. Which numbers
that leaves follows from the limits of the devices: what a core has, what a group may have, in which units.
"""

from collections.abc import Mapping

from loopyperf.device.description import Device
from loopyperf.device.occupancy import Occupancy, occupancy

SMALLEST, LARGEST = 32, 1024
"""work-items of a group"""


def concurrent_groups(device: Device, work_items: int, local_memory: int = 0) -> Mapping[int, Occupancy]:
    """Return each number of groups of *work_items* that can be made to reside on a core, with what resides then.

    Each group has *local_memory* bytes, and is given more of it in steps of what the hardware allocates.
    """
    limits = device.limits
    found: dict[int, Occupancy] = {}
    for taken in range(local_memory, int(limits.local_memory_per_group) + 1, int(limits.local_memory_unit)):
        resident = occupancy(device, work_items, local_memory=taken)
        found.setdefault(resident.groups, resident)
    return dict(sorted(found.items()))


def combinations(device: Device) -> list[Occupancy]:
    """Return what resides on a core for each group size and each number of concurrent groups that there can be."""
    sizes = [SMALLEST << step for step in range((LARGEST // SMALLEST).bit_length())]
    found = [resident for size in sizes for resident in concurrent_groups(device, size).values()]
    return sorted(found, key=lambda resident: (resident.warps, resident.warps_per_group))
