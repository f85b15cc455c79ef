"""Which kernels a device cannot run, found from what they say themselves, before any model looks at them."""

from loopyperf.device.description import Device
from loopyperf.device.occupancy import occupancy
from loopyperf.errors import MissingNumberError
from loopyperf.group import Group


def check_fits(group: Group, device: Device) -> None:
    """Raise :class:`OccupancyError` for a *group* that fits on no core of *device*."""
    try:
        occupancy(device, group.work_items, local_memory=group.local_memory)
    except MissingNumberError:  # what is not described limits nobody
        return
