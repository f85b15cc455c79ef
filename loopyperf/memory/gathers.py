"""What of an index is data: values that the kernel loads or computes, and along which inames they may differ."""

from collections.abc import Iterable, Mapping
from typing import Any

import pymbolic.primitives as prim
from loopy.kernel.data import AddressSpace, GroupInameTag, LocalInameTag
from loopy.symbolic import DependencyMapper, get_dependencies

from loopyperf.counts.memory import scaled_by_data
from loopyperf.kernel import Kernel


def data_of(kernel: Kernel, expression: Any, starts: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the names of variables and inames that what is data in *expression* depends on; empty where nothing is.

    *starts* are loops that start from data, each with that data: what is looked up in such a loop depends on it.
    """
    names: set[str] = set()
    for part in DependencyMapper(include_subscripts=True, include_calls=True)(expression):
        if not isinstance(part, prim.Variable):
            looked_up = get_dependencies(part)
            names |= looked_up.union(*(starts[loop] for loop in looked_up & starts.keys()))
        elif part.name in starts:
            names |= starts[part.name]
        elif part.name in kernel.loopy_kernel.temporary_variables:
            names.add(part.name)
    return frozenset(names)


def axes_of_data(kernel: Kernel, names: Iterable[str]) -> frozenset[int]:
    """Return the local axes along which values that depend on *names* may differ between work-items."""
    tags = map(kernel.hardware_axes.get, inames_of_data(kernel, names))
    return frozenset(tag.axis for tag in tags if isinstance(tag, LocalInameTag))


def lane_axes_of_data(kernel: Kernel, index: tuple[Any, ...], starts: Mapping[str, frozenset[str]]) -> frozenset[int]:
    """Return the local axes along which data tells work-items apart that access an array at *index*.

    Along them data may differ, or it multiplies the number of the work-item. *starts* is as in :func:`data_of`.
    """
    data = frozenset[str]().union(*(data_of(kernel, each, starts) for each in index))
    scaled = map(kernel.hardware_axes.get, scaled_by_data(kernel, index))
    return axes_of_data(kernel, data) | {tag.axis for tag in scaled if isinstance(tag, LocalInameTag)}


def inames_of_data(kernel: Kernel, names: Iterable[str]) -> frozenset[str]:
    """Return the inames along which values that depend on *names* may differ.

    What a work-item computes for itself may differ along the inames that decide what it computes, and along those along
    which what that reads may; if it has several values, along all loops that it is computed in. What a group keeps in
    local memory may differ from group to group.
    """
    variables, inames = kernel.loopy_kernel.temporary_variables, kernel.loopy_kernel.all_inames()
    pending, seen = set(names), set[str]()
    while pending:
        name = pending.pop()
        seen.add(name)
        if name not in variables:
            continue
        is_private = variables[name].address_space == AddressSpace.PRIVATE
        for instruction in kernel.loopy_kernel.writer_map().get(name, ()):
            writer = kernel.loopy_kernel.id_to_insn[instruction]
            around = frozenset[str](writer.within_inames)
            if is_private:
                pending |= kernel.deciding(writer) - seen
            if name not in kernel.integer_temporaries:
                tags = {iname: kernel.hardware_axes.get(iname) for iname in around}
                seen.update(iname for iname, tag in tags.items() if tag is None or isinstance(tag, GroupInameTag))
    return frozenset(seen & inames)
