"""What of an index is data: values that the kernel loads or computes, and along which local axes they may differ."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pymbolic.primitives as prim
from loopy.kernel.data import AddressSpace, LocalInameTag
from loopy.symbolic import DependencyMapper, get_dependencies

from loopyperf.kernel import Kernel


def data_of(kernel: Kernel, expression: Any, starts: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the names of variables and inames that what is data in *expression* depends on; empty where nothing is.

    *starts* are loops that start from data, each with that data.
    """
    names: set[str] = set()
    for part in DependencyMapper(include_subscripts=True, include_calls=True)(expression):
        if not isinstance(part, prim.Variable):
            names |= get_dependencies(part)
        elif part.name in starts:
            names |= starts[part.name]
        elif part.name in kernel.loopy_kernel.temporary_variables:
            names.add(part.name)
    return frozenset(names)


def axes_of_data(kernel: Kernel, names: Iterable[str]) -> frozenset[int]:
    """Return the local axes along which values that depend on *names* may differ between work-items.

    What a work-item computes for itself may differ along the axes whose inames its instructions use, and along those
    along which what they read may.
    """
    private = _private(kernel)
    pending, seen, axes = set(names), set[str](), set[int]()
    while pending:
        name = pending.pop()
        seen.add(name)
        axes |= _axes(kernel, (name,))
        if name in private:
            for instruction in kernel.loopy_kernel.writer_map().get(name, ()):
                writer = kernel.loopy_kernel.id_to_insn[instruction]
                read = cast("frozenset[str]", writer.read_dependency_names())
                axes |= _axes(kernel, writer.within_inames)
                pending |= (read & private) - seen
    return frozenset(axes)


def _private(kernel: Kernel) -> frozenset[str]:
    variables = kernel.loopy_kernel.temporary_variables
    return frozenset(name for name, each in variables.items() if each.address_space == AddressSpace.PRIVATE)


def _axes(kernel: Kernel, names: Iterable[str]) -> set[int]:
    tags = (kernel.hardware_axis(name) for name in names if name in kernel.loopy_kernel.inames)
    return {tag.axis for tag in tags if isinstance(tag, LocalInameTag)}
