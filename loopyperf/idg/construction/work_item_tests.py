"""Conditions that the compiler writes tests for: which work-items a statement is for.

The question is what a kernel says for all sizes that its assumptions allow, not for one warp at one size: so the
compiler asks it.
"""

from collections.abc import Collection
from functools import reduce

import islpy as isl
from loopy.kernel.data import GroupInameTag, LocalInameTag

from loopyperf.idg.construction.slabs import Slab, Slabs
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch
from loopyperf.polyhedral.sets import SetMemory, projected

ONE = isl.Val(1)
SET = isl.dim_type.set
Axes = tuple[GroupInameTag | LocalInameTag | None, ...]


class WorkItemTests:
    """The conditions of one launch; those of statements for the same work-items are found once."""

    def __init__(self, kernel: Kernel, launch: Launch, slabs: Slabs) -> None:
        """Look at *launch* of *kernel*, and at the *slabs* of its groups."""
        self._kernel, self._launch, self._slabs = kernel, launch, slabs
        self._found: dict[tuple[frozenset[str], frozenset[Slab]], frozenset[str]] = {}
        self._alike = SetMemory[dict[Axes, frozenset[str]]]()

    def of(self, inames: frozenset[str], slabs: frozenset[Slab]) -> frozenset[str]:
        """Return the conditions that decide which work-items of *slabs* execute what uses *inames*, loops aside.

        They are in words of isl, with hardware inames called by their axes: those of two statements are the same or
        not.
        """
        key = (inames, frozenset(slab for slab in slabs if slab[0] in inames))
        if key not in self._found:
            self._found[key] = self._tests(*key)
        return self._found[key]

    def _tests(self, inames: frozenset[str], slabs: frozenset[Slab]) -> frozenset[str]:
        tags = {name for name in inames if self._kernel.hardware_axes.get(name) is not None}
        if not tags:
            return frozenset()
        points = self._slabs.within(_points(self._kernel, inames, tags), slabs)
        axes = tuple(map(self._kernel.hardware_axes.get, points.get_var_names_not_none(SET)))
        alike = self._alike.setdefault(points, {})
        if axes not in alike:
            alike[axes] = self._constraints(points, axes)
        return alike[axes]

    def _constraints(self, points: isl.Set, axes: Axes) -> frozenset[str]:
        """Return what *points*, the dimensions of which number *axes*, says beside where each local axis ends."""
        local = {place: tag.axis for place, tag in enumerate(axes) if isinstance(tag, LocalInameTag)}
        grid = _with_any(points, local)
        for place, axis in local.items():
            first, extent = points.dim_min_val(place), self._launch.local_axes[axis].max_val()
            if first.is_int() and extent.is_int():
                last = first.add(extent).sub(ONE)
                grid = grid.lower_bound_val(SET, place, first).upper_bound_val(SET, place, last)
        tested = points.coalesce().gist(grid)
        for place, tag in enumerate(axes):
            tested = tested.set_dim_name(SET, place, str(tag).replace(".", ""))
        constraints = (str(each) for part in tested.get_basic_sets() for each in part.get_constraints())
        return frozenset(each.partition(" : ")[2] for each in constraints)


def _points(kernel: Kernel, inames: Collection[str], kept: Collection[str]) -> isl.Set:
    """Return the values that those of *inames* to be *kept* have in any pass of the others."""
    domain = kernel.domain(inames)
    nowhere = isl.Set.empty(domain.get_space()).project_out_except(sorted(kept), [SET])
    parts = (isl.Set.from_basic_set(projected(basic, kept)) for basic in domain.get_basic_sets())
    return reduce(isl.Set.union, parts, nowhere).intersect_params(isl.Set.from_basic_set(kernel.assumptions))


def _with_any(points: isl.Set, places: Collection[int]) -> isl.Set:
    """Return *points* and all that differ from them in the dimensions at *places* alone."""
    for place in places:
        points = points.project_out(SET, place, 1).insert_dims(SET, place, 1)
    return points
