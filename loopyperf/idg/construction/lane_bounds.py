"""Bounds that the compiler writes tests for, because they are not the same for all work-items.

All questions are about what a kernel says for all sizes that its assumptions allow, not about one warp at one size: so
the compiler asks them.
"""

from collections.abc import Collection, Sequence

import islpy as isl
from loopy.kernel.data import LocalInameTag

from loopyperf.idg.warps.nest import Nest, Statement
from loopyperf.kernel import Kernel
from loopyperf.launches import Barrier, Launch

PARAM = isl.dim_type.param
ONE = isl.Val(1)


class Bounds:
    """What the bounds of a loop depend on, beside the loops around it."""

    def __init__(self, kernel: Kernel, nest: Nest) -> None:
        """Look at the loop *nest* of *kernel*."""
        self.loop = nest.iname
        statements = list(nest.statements())
        self.meets = any(isinstance(each.what, Barrier) for each in statements)
        """the lanes: then their bounds are common"""
        self.domains: list[tuple[isl.Set, list[str]]] = []
        """of what is done in the loop: its points, inner loops left open, and the local inames"""
        for inames, inside in dict.fromkeys(_inside(nest, each) for each in statements if nest.iname in each.inames):
            lanes = [name for name in inames if isinstance(kernel.hardware_axis(name), LocalInameTag)]
            points = _with_any(_points(kernel, inames), [*inside, *(lanes if self.meets else [])])
            self.domains.append((points, [name for name in inames if kernel.hardware_axis(name) is not None]))
        self.kernel = kernel

    @property
    def lanes_part(self) -> bool:
        """Return whether work-items of a group make different numbers of passes."""
        return not self.meets and all(self._vary(points, self._lanes(axes)) for points, axes in self.domains)

    @property
    def are_known(self) -> bool:
        """Return whether they depend neither on sizes nor on the work-item.

        What is done in fewer passes is under a condition in the loop.
        """
        return any(not self._vary(points, axes) and not self._vary_with_sizes(points) for points, axes in self.domains)

    def _lanes(self, axes: Sequence[str]) -> list[str]:
        return [name for name in axes if isinstance(self.kernel.hardware_axis(name), LocalInameTag)]

    def _vary(self, points: isl.Set, names: Sequence[str]) -> bool:
        return not (_with_any(points, [self.loop]) & _with_any(points, names)).is_subset(points)

    def _vary_with_sizes(self, points: isl.Set) -> bool:
        anywhere = points.project_out(PARAM, 0, points.dim(PARAM)).align_params(points.get_space())
        return not (_with_any(points, [self.loop]) & anywhere).is_subset(points)


def _inside(nest: Nest, statement: Statement) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the inames of *statement*, and those of loops inside *nest*."""
    place = next(place for place, each in enumerate(statement.loops) if each is nest)
    return statement.inames, tuple(each.iname for each in statement.loops[place + 1 :])


def tests_of_work_items(kernel: Kernel, launch: Launch, inames: Collection[str]) -> frozenset[str]:
    """Return the conditions that decide which work-items of *launch* execute what uses *inames*, loops aside.

    They are in words of isl, with hardware inames called by their axes: those of two statements are the same or not.
    """
    points = _with_any(_points(kernel, inames), [name for name in inames if kernel.hardware_axis(name) is None])
    axes = {name: tag.axis for name in inames if isinstance(tag := kernel.hardware_axis(name), LocalInameTag)}
    grid = _with_any(points, axes)
    for name, axis in axes.items():
        kind, place = points.get_var_dict()[name]
        first, extent = points.dim_min_val(place), launch.local_axes[axis].max_val()
        if first.is_int() and extent.is_int():
            grid = grid.lower_bound_val(kind, place, first).upper_bound_val(kind, place, first.add(extent).sub(ONE))
    tested = points.coalesce().gist(grid)
    for name in inames:
        if (axis := kernel.hardware_axis(name)) is not None:
            tested = tested.set_dim_name(*tested.get_var_dict()[name], str(axis).replace(".", ""))
    constraints = (str(each) for part in tested.get_basic_sets() for each in part.get_constraints())
    return frozenset(each.partition(" : ")[2] for each in constraints)


def _points(kernel: Kernel, inames: Collection[str]) -> isl.Set:
    points = kernel.domain(inames)
    return points.intersect_params(isl.Set.from_basic_set(kernel.assumptions))


def _with_any(points: isl.Set, names: Collection[str]) -> isl.Set:
    """Return *points* and all that differ from them in the values of *names* alone."""
    for name in names:
        kind, place = points.get_var_dict()[name]
        points = points.project_out(kind, place, 1).insert_dims(kind, place, 1).set_dim_name(kind, place, name)
    return points
