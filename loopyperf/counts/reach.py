"""How much of each array the first groups of a launch touch: as much as has to be on the device to run them."""

from collections.abc import Iterator

import islpy as isl
from loopy.kernel.array import FixedStrideArrayDimTag
from loopy.kernel.data import AddressSpace

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.first_groups import FirstGroups, Grid
from loopyperf.counts.footprint import Footprint
from loopyperf.counts.item import MemorySpace
from loopyperf.counts.kernel_counts import memory_references
from loopyperf.counts.memory import Reference, element_strides
from loopyperf.counts.typical import Typical
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel

NOTHING_STATED = Typical({})
"""what is typical says how often something happens, and not where"""


def reach(first: FirstGroups, groups: Grid) -> dict[str, int]:
    """Return array -> how many of its first bytes hold all that so many groups along each axis touch of it.

    Of arrays in global memory: 0 for those that the launch does not touch, and none whose addresses are data, or that
    is no plain array.
    """
    sizes = {**first.sizes, **dict(zip(first.names, groups, strict=True))}
    counter = ExecutionCounter(first.kernel, NOTHING_STATED)
    try:
        references = list(_to_global_memory(first))
    except UncountableError:
        return {}
    reached = dict.fromkeys(_in_global_memory(first.kernel), 0)
    unknown: set[str] = set()
    for site, ref in references:
        end = _end(counter, site, ref, sizes)
        if end is None:
            unknown.add(ref.array)
        else:
            reached[ref.array] = max(end, reached[ref.array])
    return {array: nbytes for array, nbytes in reached.items() if array not in unknown}


def _in_global_memory(kernel: Kernel) -> Iterator[str]:
    for name in (*kernel.loopy_kernel.arg_dict, *kernel.loopy_kernel.temporary_variables):
        array = kernel.array(name)
        if array is not None and array.address_space != AddressSpace.LOCAL:
            yield name


def _to_global_memory(first: FirstGroups) -> Iterator[tuple[Site, Reference]]:
    for site, ref in memory_references(first.kernel, NOTHING_STATED):
        if site.launch.name == first.launch.name and ref.space == MemorySpace.GLOBAL:
            yield site, ref


def _end(counter: ExecutionCounter, site: Site, ref: Reference, sizes: dict[str, int]) -> int | None:
    """Return at which byte of its array lies the end of what *ref* touches; None where that is not known."""
    if not _is_plain(counter.kernel, ref):
        return None
    cells = Footprint(counter, [(site, ref)], sizes).touched(site, ref)
    if cells is None:
        return None
    if cells.is_empty():
        return 0
    place = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(cells.get_space()))
    for axis, stride in enumerate(element_strides(counter.kernel, ref, sizes)):
        place = place.set_coefficient_val(isl.dim_type.in_, axis, isl.Val(stride))
    last = cells.max_val(place)
    return (last.to_python() + 1) * ref.bits // 8 if last.is_int() else None


def _is_plain(kernel: Kernel, ref: Reference) -> bool:
    """Return whether elements of the array lie at fixed distances."""
    array = kernel.array(ref.array)
    tags = None if array is None else array.dim_tags
    return tags is not None and all(isinstance(tag, FixedStrideArrayDimTag) for tag in tags)
