"""Bounds that the compiler writes tests for, because they are not the same for all work-items.

Both questions are about what a kernel says for all sizes that its assumptions allow, not about one warp at one size: the
compiler answers them so.
"""

from collections.abc import Collection

import islpy as isl
from loopy.kernel.data import LocalInameTag

from loopyperf.kernel import Kernel

SET = isl.dim_type.set


def do_lanes_part(kernel: Kernel, inames: Collection[str], loop: str) -> bool:
    """Return whether work-items of a group make different numbers of passes through *loop* around what uses *inames*."""
    points = _points(kernel, inames)
    lanes = [name for name in inames if isinstance(kernel.hardware_axis(name), LocalInameTag)]
    return not (_with_any(points, [loop]) & _with_any(points, lanes)).is_subset(points)


def number_of_tests(kernel: Kernel, inames: Collection[str]) -> int:
    """Return how many conditions decide which work-items of the grid execute what uses *inames*, loops aside."""
    points = _with_any(_points(kernel, inames), [name for name in inames if kernel.hardware_axis(name) is None])
    lanes = [name for name in inames if isinstance(kernel.hardware_axis(name), LocalInameTag)]
    grid = _with_any(points, lanes)
    for name in lanes:
        kind, place = points.get_var_dict()[name]
        first, last = points.dim_min_val(place), points.dim_max_val(place)
        if first.is_int() and last.is_int():
            grid = grid.lower_bound_val(kind, place, first).upper_bound_val(kind, place, last)
    return sum(len(part.get_constraints()) for part in points.coalesce().gist(grid).get_basic_sets())


def _points(kernel: Kernel, inames: Collection[str]) -> isl.Set:
    points = kernel.domain(inames)
    return points.intersect_params(isl.Set.from_basic_set(kernel.assumptions))


def _with_any(points: isl.Set, names: Collection[str]) -> isl.Set:
    """Return *points* and all that differ from them in the values of *names* alone."""
    for name in names:
        kind, place = points.get_var_dict()[name]
        points = points.project_out(kind, place, 1).insert_dims(kind, place, 1).set_dim_name(kind, place, name)
    return points
