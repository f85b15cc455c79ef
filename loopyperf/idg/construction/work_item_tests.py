"""Conditions that the compiler writes tests for: which work-items a statement is for.

The question is what a kernel says for all sizes that its assumptions allow, not for one warp at one size: so the
compiler asks it.
"""

from collections.abc import Collection
from functools import reduce

import islpy as isl
from loopy.kernel.data import LocalInameTag

from loopyperf.factors import projected
from loopyperf.kernel import Kernel
from loopyperf.launches import Launch

ONE = isl.Val(1)


def tests_of_work_items(kernel: Kernel, launch: Launch, inames: Collection[str]) -> frozenset[str]:
    """Return the conditions that decide which work-items of *launch* execute what uses *inames*, loops aside.

    They are in words of isl, with hardware inames called by their axes: those of two statements are the same or not.
    """
    tags = {name: tag for name in inames if (tag := kernel.hardware_axis(name)) is not None}
    if not tags:
        return frozenset()
    points = _points(kernel, inames, tags)
    axes = {name: tag.axis for name, tag in tags.items() if isinstance(tag, LocalInameTag)}
    grid = _with_any(points, axes)
    for name, axis in axes.items():
        kind, place = points.get_var_dict()[name]
        first, extent = points.dim_min_val(place), launch.local_axes[axis].max_val()
        if first.is_int() and extent.is_int():
            grid = grid.lower_bound_val(kind, place, first).upper_bound_val(kind, place, first.add(extent).sub(ONE))
    tested = points.coalesce().gist(grid)
    for name, tag in tags.items():
        tested = tested.set_dim_name(*tested.get_var_dict()[name], str(tag).replace(".", ""))
    constraints = (str(each) for part in tested.get_basic_sets() for each in part.get_constraints())
    return frozenset(each.partition(" : ")[2] for each in constraints)


def _points(kernel: Kernel, inames: Collection[str], kept: Collection[str]) -> isl.Set:
    """Return the values that those of *inames* to be *kept* have in any pass of the others."""
    domain = kernel.domain(inames)
    nowhere = isl.Set.empty(domain.get_space()).project_out_except(sorted(kept), [isl.dim_type.set])
    parts = (isl.Set.from_basic_set(projected(basic, kept)) for basic in domain.get_basic_sets())
    return reduce(isl.Set.union, parts, nowhere).intersect_params(isl.Set.from_basic_set(kernel.assumptions))


def _with_any(points: isl.Set, names: Collection[str]) -> isl.Set:
    """Return *points* and all that differ from them in the values of *names* alone."""
    for name in names:
        kind, place = points.get_var_dict()[name]
        points = points.project_out(kind, place, 1).insert_dims(kind, place, 1).set_dim_name(kind, place, name)
    return points
