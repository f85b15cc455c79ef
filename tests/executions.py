"""How often what happens at some points is executed: by work-items, or by sub-groups of them."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property

import islpy as isl
import numpy as np
from loopy.codegen.bounds import get_usable_inames_for_conditional
from loopy.codegen.tools import CodegenOperationCacheManager
from loopy.kernel.data import GroupInameTag, LocalInameTag
from loopy.kernel.tools import get_hw_axis_base_for_codegen
from loopy.schedule import CallKernel, EnterLoop
from loopy.symbolic import pw_aff_to_expr
from pymbolic import evaluate

from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch, is_unrolled
from tests.enumeration import Points

Sizes = Mapping[str, int]
Numbers = np.ndarray
"""one count for each size"""

SMALL = 10_000
"""beyond the denominators of shares"""

COUNTINGS = ("paper", "executed")


def extents(axes: Mapping[int, isl.PwAff], sizes: Sequence[Sizes]) -> dict[int, Numbers]:
    """Return axis -> how long it is at each of *sizes*."""
    lengths = {axis: pw_aff_to_expr(extent, int_ok=True) for axis, extent in axes.items()}
    return {
        axis: np.array([max(int(evaluate(length, dict(size))), 0) for size in sizes])
        for axis, length in lengths.items()
    }


# {{{ conditions: where they hold, or how often, which is a number from 0 to 1


def both(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return where, or how often, both conditions hold."""
    return first & second if first.dtype == second.dtype == bool else first * second


def neither(condition: np.ndarray) -> np.ndarray:
    """Return where, or how often, *condition* does not hold."""
    return ~condition if condition.dtype == bool else 1 - condition


# }}}


class Executions:
    """Counts executions of *points*, the points of the loops over *inames* in *launch*."""

    def __init__(
        self,
        kernel: Kernel,
        launch: Launch,
        inames: frozenset[str],
        sizes: Sequence[Sizes],
        points: Points,
        sub_group_size: int | None = None,
    ) -> None:
        self.kernel, self.launch, self.sizes = kernel, launch, sizes
        self.points, self.sub_group_size = points, sub_group_size
        tags = {iname: kernel.hardware_axes.get(iname) for iname in inames}
        self.lanes = {tag.axis: iname for iname, tag in tags.items() if isinstance(tag, LocalInameTag)}
        self.others = sorted(inames - set(self.lanes.values()))
        groups = {tag.axis for tag in tags.values() if isinstance(tag, GroupInameTag)}
        self.items = extents(launch.local_axes, sizes)
        of_groups = extents(launch.group_axes, sizes)
        self.idle_groups = math.prod(length for axis, length in of_groups.items() if axis not in groups)
        self.idle_items = {axis: length for axis, length in self.items.items() if axis not in self.lanes}

    def number(self, active: np.ndarray, counting: str) -> Numbers:
        """Return how often the *active* points are executed at each size."""
        executed = counting == "executed"
        if self.sub_group_size is None:
            copies = self.idle_groups * math.prod(self.idle_items.values()) if executed else 1
            return self._number(active) * copies
        number = self._sub_groups(active, self.idle_items if executed else {})
        return number * (self.idle_groups if executed else 1)

    def _number(self, active: np.ndarray) -> Numbers:
        """Return the number of *active* points, exactly: shares are fractions of small numbers."""
        if active.dtype == bool:
            return self.points.number(active)
        shares = ((Fraction(share).limit_denominator(SMALL), active == share) for share in np.unique(active).tolist())
        return sum(self.points.number(there).astype(object) * share for share, there in shares)

    # {{{ sub-groups

    def _sub_groups(self, active: np.ndarray, idle: Mapping[int, Numbers]) -> Numbers:
        """Return how many sub-groups are active; along the *idle* axes all their work-items are."""
        assert active.dtype == bool, "lanes of a sub-group that are active some of the time"
        rows, places = np.flatnonzero(active), self._places[active]
        for axis, length in idle.items():
            times = length[self.points.size[rows]]
            first = np.repeat(np.cumsum(times) - times, times)
            rows, places = np.repeat(rows, times), np.repeat(places, times)
            places = places + (np.arange(len(rows)) - first) * self._weights[axis][self.points.size[rows]]
        one_each = _distinct([self.points.size[rows], places // self.sub_group_size, *self._passes(rows)])
        return np.bincount(self.points.size[rows[one_each]], minlength=self.points.sizes)

    def _passes(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return what tells executions apart that are not of the same pass of all loops, and of one group."""
        return [self._numbered[name][rows] for name in self.others]

    @cached_property
    def _numbered(self) -> dict[str, np.ndarray]:
        """Return the coordinates of the points; of sequential loops the numbers of their passes, from where they start.

        Where a loop starts may differ between the work-items, and between the passes of the loops around it. A copy of
        an unrolled loop has the same value for all.
        """
        columns = self.points.columns
        nest = [item.iname for item in self.launch.schedule if isinstance(item, EnterLoop)]
        around = [*self.lanes.values(), *(name for name in self.others if name not in nest)]
        numbered = dict(columns)
        for name in sorted((name for name in self.others if name in nest), key=nest.index):
            if not is_unrolled(self.kernel.loopy_kernel, name):
                bounding = self._bounding(name).intersection(around)
                alike = [self.points.size, *(columns[each] for each in sorted(bounding))]
                numbered[name] = columns[name] - _least(columns[name], alike)
            around.append(name)
        return numbered

    def _bounding(self, loop: str) -> set[str]:
        """Return the inames that the generated code bounds *loop* with, where others are conditions inside it."""
        loopy_kernel = self.kernel.loopy_kernel
        usable = get_usable_inames_for_conditional(loopy_kernel, self._begins(loop), self._operations)
        home = loopy_kernel.get_home_domain_index(loop)
        domains = [home, *loopy_kernel.all_parents_per_domain()[home]]
        names = {name for index in domains for name in loopy_kernel.domains[index].get_var_names(isl.dim_type.set)}
        return names & (usable | self._added(loop))

    def _added(self, loop: str) -> frozenset[str]:
        """Return the inames of hardware axes that nothing in *loop* uses, which are usable once they are added."""
        if any(loop in barrier.inames for barrier in self.launch.barriers):
            return frozenset()
        inside = [each.within_inames for each in self.launch.instructions if loop in each.within_inames]
        names = (*self.lanes.values(), *self.others)
        axes = (name for name in names if self.kernel.hardware_axes.get(name) is not None)
        return frozenset(axes).difference(*inside)

    def _begins(self, loop: str) -> int:
        """Return where in the schedule of the kernel *loop* begins, in this launch."""
        schedule = self.kernel.loopy_kernel.linearization
        calls = [place for place, item in enumerate(schedule) if isinstance(item, CallKernel)]
        first = next(place for place in calls if schedule[place].kernel_name == self.launch.name)
        loops = (place for place, item in enumerate(schedule) if isinstance(item, EnterLoop) and item.iname == loop)
        return next(place for place in loops if place > first)

    @cached_property
    def _operations(self) -> CodegenOperationCacheManager:
        return CodegenOperationCacheManager.from_kernel(self.kernel.loopy_kernel)

    @cached_property
    def _weights(self) -> dict[int, Numbers]:
        """Return for each axis how far apart its work-items are numbered, at each size."""
        weights, weight = {}, np.ones(self.points.sizes, int)
        for axis in range(max(self.items, default=-1) + 1):
            weights[axis] = weight
            weight = weight * self.items.get(axis, 1)
        return weights

    @cached_property
    def _places(self) -> np.ndarray:
        """Return the number that the work-item of each point has in its group, idle axes left out."""
        places = np.zeros(len(self.points), int)
        for axis, iname in self.lanes.items():
            places += (self.points.columns[iname] - self._first(iname)) * self._weights[axis][self.points.size]
        return places

    def _first(self, iname: str) -> np.ndarray:
        """Return for each point where *iname* begins: there the generated code has work-item 0 of its axis."""
        first = pw_aff_to_expr(get_hw_axis_base_for_codegen(self.kernel.loopy_kernel, iname).to_pw_aff(), int_ok=True)
        return np.array([int(evaluate(first, dict(size))) for size in self.sizes])[self.points.size]

    # }}}


def _least(values: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return for each row the least of *values* in the rows that agree with it in all *columns*."""
    if not len(values):
        return values
    _, group = np.unique(np.stack(columns), axis=1, return_inverse=True)
    least = np.full(group.max() + 1, values.max())
    np.minimum.at(least, group.ravel(), values)
    return least[group.ravel()]


def _distinct(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return one row of each set of rows that agree in all *columns*."""
    key = np.zeros(len(columns[0]), int)
    for column in columns if len(key) else ():
        key = key * (int(column.max() - column.min()) + 1) + column - column.min()
    return np.unique(key, return_index=True)[1]
