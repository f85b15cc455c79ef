"""Which kernels a device cannot run, found from what they say themselves, before any model looks at them."""

from collections.abc import Iterator
from math import prod

import islpy as isl
from loopy.kernel import LoopKernel
from loopy.kernel.data import AddressSpace, LocalInameTag
from loopy.types import LoopyType

from loopyperf.device.description import Device
from loopyperf.device.occupancy import occupancy
from loopyperf.errors import MissingNumberError
from loopyperf.factors import between_ends
from loopyperf.launches import local_memory


def check_fits(kernel: LoopKernel, device: Device) -> None:
    """Raise :class:`OccupancyError` for groups of *kernel* that fit on no core of *device*.

    That is told from the lengths of its hardware loops, and from the local arrays that it declares, which may be more
    once Loopy has prepared it. What depends on a size is left to the models.
    """
    try:
        occupancy(device, _work_items(kernel), local_memory=max(_declared(kernel), default=0))
    except MissingNumberError:  # what is not described limits nobody
        return


def _work_items(kernel: LoopKernel) -> int:
    """Return how many work-items a group has at least."""
    extents: dict[int, int] = {}
    for name, iname in kernel.inames.items():
        for tag in iname.tags_of_type(LocalInameTag):
            values = between_ends(isl.Set.from_basic_set(kernel.get_inames_domain(frozenset((name,)))), name)
            extents[tag.axis] = max(extents.get(tag.axis, 1), 1 if values is None else len(values))
    return prod(extents.values())


def _declared(kernel: LoopKernel) -> Iterator[int]:
    """Yield the bytes of local memory that each instruction needs, which its launch needs at least."""
    variables = kernel.temporary_variables.values()
    local = [each for each in variables if each.address_space == AddressSpace.LOCAL]
    if local and all(isinstance(each.dtype, LoopyType) for each in local):
        for instruction in kernel.instructions:
            yield local_memory(kernel, [instruction]) or 0
