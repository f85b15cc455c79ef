"""What a work-group of a kernel takes of a core, as far as the kernel itself says: at least that."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import islpy as isl
from loopy.kernel import LoopKernel
from loopy.kernel.data import AddressSpace, LocalInameTag
from loopy.types import LoopyType

from loopyperf.polyhedral.sets import between_ends

from .kernel import Kernel
from .launches import local_memory


@dataclass(frozen=True, slots=True)
class Group:
    """What the largest group of a kernel takes, at least."""

    work_items: int
    """in it"""
    local_memory: int
    """bytes"""


def group_of(kernel: Kernel) -> Group:
    """Return what a group of *kernel* takes: what the lengths of its hardware loops and its local arrays tell.

    What depends on a size is not told.
    """
    return Group(_work_items(kernel.loopy_kernel), max((each.local_memory or 0 for each in kernel.launches), default=0))


def declared_group(kernel: LoopKernel) -> Group:
    """Return what a group takes of a *kernel* that Loopy has not prepared yet, when it may add local arrays."""
    return Group(_work_items(kernel), max(_declared(kernel), default=0))


def _work_items(kernel: LoopKernel) -> int:
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
