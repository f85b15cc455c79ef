"""Kernels cut to the first groups of a launch, with the number of groups along each axis as a parameter.

The cut kernel is a Loopy kernel whose group inames end earlier. It serves only for counts: a launch runs the program of
the whole kernel on fewer groups, because the compiler would generate different code for the cut kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import islpy as isl
import numpy as np
from loopy.kernel.array import FixedStrideArrayDimTag
from loopy.kernel.data import AddressSpace, ValueArg

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.item import LAUNCHES, WORK_GROUPS, MemorySpace
from loopyperf.counts.kernel_counts import Tally, count_kernel, memory_references
from loopyperf.counts.memory_accesses import Reference, element_strides
from loopyperf.counts.sizes import Typical
from loopyperf.counts.stride_classes import Footprint
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch, launches_of
from loopyperf.polyhedral.sets import as_int

Grid = tuple[int, ...]
SET, PARAM = isl.dim_type.set, isl.dim_type.param


@dataclass(frozen=True)
class FirstGroups:
    """The first groups of a launch at one size of its kernel, any number of them along each axis."""

    kernel: Kernel
    """the cut kernel"""
    launch: Launch
    """the launch of the cut kernel"""
    sizes: Mapping[str, int]
    names: tuple[str, ...]
    """parameters that are the numbers of groups along the axes of the grid, first axis first"""
    grid: Grid
    """groups of the whole launch; for several launches in a host loop, the largest number along each axis"""
    typical: Typical

    def work(self, groups: Grid) -> float:
        """Return the number of instructions executed by *groups* along each axis: operations, accesses and barriers.

        It includes all work-items and all executions of the launch. Raises :class:`UncountableError`.
        """
        at = {**self.sizes, **dict(zip(self.names, groups, strict=True))}
        return float(sum(tally.number * tally.executions(**at) for tally in self._tallies))

    def work_of_first(self, number: int) -> float:
        """Return the number of instructions of the first *number* groups, numbered along the first axis first."""
        return float(sum(sign * self.work(box) for sign, box in _boxes(self.grid, number)))

    @property
    def total_groups(self) -> int:
        """Return the number of groups of the whole grid."""
        return prod(self.grid)

    @cached_property
    def _tallies(self) -> tuple[Tally, ...]:
        counted = count_kernel(self.kernel, typical=self.typical)
        of_launch = (tally for tally in counted.tallies if tally.launch == self.launch.name)
        return tuple(each for each in of_launch if each.item not in (WORK_GROUPS, LAUNCHES))


def first_groups(kernel: Kernel, launch: str, sizes: Mapping[str, int], grid: Grid, typical: Typical) -> FirstGroups:
    """Return the first groups of the launch named *launch* at *sizes*, where its whole grid is *grid*.

    Raises :class:`UncountableError` if the first group of the grid is unknown.
    """
    (original,) = (each for each in kernel.launches if each.name == launch)
    new_name = kernel.loopy_kernel.get_var_name_generator()
    names = tuple(new_name(f"groups_{axis}") for axis in range(len(grid)))
    inames = {name: names[axis] for name, (kind, axis) in original.numbering.items() if kind == "group"}
    fixed = kernel.loopy_kernel
    domains = [_cut(domain, inames, original.first_values) for domain in fixed.domains]
    cut = fixed.copy(
        domains=domains,
        args=[*fixed.args, *(ValueArg(name, np.dtype(np.int32)) for name in names)],
        assumptions=_assumed(kernel, sizes, names, grid),
    )
    replaced = replace(kernel, loopy_kernel=cut, launches=tuple(launches_of(cut)))
    (shortened,) = (each for each in replaced.launches if each.name == launch)
    return FirstGroups(replaced, shortened, dict(sizes), names, grid, typical)


def _cut(domain: isl.BasicSet, inames: Mapping[str, str], first_values: Mapping[str, int]) -> isl.BasicSet:
    """Return *domain* with each of its *inames* limited to its first value plus the value of its parameter."""
    for iname, name in inames.items():
        found = domain.get_var_dict(SET).get(iname)
        if found is None:
            continue
        _, place = found
        if iname not in first_values:
            raise UncountableError(
                f"group iname {iname!r} starts at a value that depends on sizes; its first groups cannot be counted"
            )
        if name not in domain.get_var_names(PARAM):  # several loops of a domain may use one axis
            domain = domain.add_dims(PARAM, 1).set_dim_name(PARAM, domain.dim(PARAM), name)
        _, beside = domain.get_var_dict(PARAM)[name]
        below = isl.Constraint.alloc_inequality(isl.LocalSpace.from_space(domain.get_space()))
        below = below.set_coefficient_val(PARAM, beside, isl.Val(1))
        below = below.set_coefficient_val(SET, place, isl.Val(-1))
        domain = domain.add_constraint(below.set_constant_val(isl.Val(first_values[iname] - 1)))
    return domain


def _assumed(kernel: Kernel, sizes: Mapping[str, int], names: tuple[str, ...], grid: Grid) -> isl.BasicSet:
    """Return the assumptions that sizes equal *sizes* and that the group parameters range from 0 to *grid*."""
    tests = [f"{name} = {size}" for name, size in sizes.items()]
    tests += [f"0 <= {name} <= {most}" for name, most in zip(names, grid, strict=True)]
    wanted = isl.BasicSet(f"[{', '.join([*sizes, *names])}] -> {{ : {' and '.join(tests)} }}")
    assumed = kernel.loopy_kernel.assumptions.align_params(wanted.get_space())
    return assumed & wanted.align_params(assumed.get_space())


def _boxes(grid: Grid, number: int) -> "list[tuple[int, Grid]]":
    """Return signed boxes that start at the first group; added with their signs, they are the first *number* groups."""
    if not grid:
        return [(1, ())] if number else []
    slab = prod(grid[:-1])
    full, rest = divmod(number, slab)
    boxes: list[tuple[int, Grid]] = [(1, (*grid[:-1], full))] if full else []
    for sign, box in _boxes(grid[:-1], rest):
        boxes.append((sign, (*box, full + 1)))
        if full:
            boxes.append((-sign, (*box, full)))
    return boxes


# {{{ how much of each array the first groups touch


NO_TYPICAL = Typical({})
"""typical values tell how often something executes, but not at which addresses"""


def halo(first: FirstGroups, groups: Grid) -> dict[str, int]:
    """Return array -> bytes of its shortest prefix that contains all cells touched by *groups* along each axis.

    The result has the arrays of global memory; the length is 0 if the launch does not touch the array. Arrays whose
    addresses depend on data, or whose elements are not at fixed distances, are omitted.
    """
    sizes = {**first.sizes, **dict(zip(first.names, groups, strict=True))}
    counter = ExecutionCounter(first.kernel, NO_TYPICAL)
    try:
        references = memory_references(first.kernel, NO_TYPICAL)
    except UncountableError:
        return {}
    arrays, memory = first.kernel.arrays, first.kernel.loopy_kernel
    names = (name for name in (*memory.arg_dict, *memory.temporary_variables) if name in arrays)
    reached = {name: 0 for name in names if arrays[name].address_space != AddressSpace.LOCAL}
    unknown: set[str] = set()
    for site, ref in references:
        if site.launch.name != first.launch.name or ref.space != MemorySpace.GLOBAL:
            continue
        end = _end(counter, site, ref, sizes)
        if end is None:
            unknown.add(ref.array)
        else:
            reached[ref.array] = max(end, reached[ref.array])
    return {array: nbytes for array, nbytes in reached.items() if array not in unknown}


def _end(counter: ExecutionCounter, site: Site, ref: Reference, sizes: dict[str, int]) -> int | None:
    """Return the offset in bytes at which the cells of *ref* end in their array; None if it is unknown."""
    array = counter.kernel.arrays.get(ref.array)
    tags = None if array is None else array.dim_tags
    if tags is None or not all(isinstance(tag, FixedStrideArrayDimTag) for tag in tags):
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
    return (as_int(last) + 1) * ref.bits // 8 if last.is_int() else None


# }}}
