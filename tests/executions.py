"""Number of executions of an instruction at given points, by work-items or by sub-groups."""

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
"""larger than the denominators of all shares"""

COUNTINGS = ("paper", "executed")


def extents(axes: Mapping[int, isl.PwAff], sizes: Sequence[Sizes]) -> dict[int, Numbers]:
    """Return axis -> its length at each of *sizes*."""
    lengths = {axis: pw_aff_to_expr(extent, int_ok=True) for axis, extent in axes.items()}
    return {
        axis: np.array([max(int(evaluate(length, dict(size))), 0) for size in sizes])
        for axis, length in lengths.items()
    }


# {{{ conditions: booleans for each point, or shares from 0 to 1


def both(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return where, or in which share of executions, both conditions hold."""
    return first & second if first.dtype == second.dtype == bool else first * second


def neither(condition: np.ndarray) -> np.ndarray:
    """Return where, or in which share of executions, *condition* does not hold."""
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
        """Return the exact number of *active* points: shares are fractions with small denominators."""
        if active.dtype == bool:
            return self.points.number(active)
        shares = ((Fraction(share).limit_denominator(SMALL), active == share) for share in np.unique(active).tolist())
        return sum(self.points.number(there).astype(object) * share for share, there in shares)

    # {{{ sub-groups

    def _sub_groups(self, active: np.ndarray, idle: Mapping[int, Numbers]) -> Numbers:
        """Return the number of active sub-groups; along the *idle* axes, all work-items are active."""
        assert active.dtype == bool, "lanes of a sub-group that are active some of the time"
        rows, places = np.flatnonzero(active), self._places[active]
        for axis, length in idle.items():
            times = length[self.points.size[rows]]
            first = np.repeat(np.cumsum(times) - times, times)
            rows, places = np.repeat(rows, times), np.repeat(places, times)
            places = places + (np.arange(len(rows)) - first) * self._weights[axis][self.points.size[rows]]
        representatives = _distinct([self.points.size[rows], places // self.sub_group_size, *self._iterations(rows)])
        return np.bincount(self.points.size[rows[representatives]], minlength=self.points.sizes)

    def _iterations(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return columns that differ between iterations of the loops, and between groups."""
        return [self._numbered[name][rows] for name in self.others]

    @cached_property
    def _numbered(self) -> dict[str, np.ndarray]:
        """Return the coordinates of the points; for sequential loops, the iteration numbers relative to the start.

        The start of a loop may differ between work-items, and between iterations of the loops around it. A copy of an
        unrolled loop has the same value for all work-items.
        """
        columns = self.points.columns
        nest = [item.iname for item in self.launch.schedule if isinstance(item, EnterLoop)]
        around = [*self.lanes.values(), *(name for name in self.others if name not in nest)]
        numbered = dict(columns)
        for name in sorted((name for name in self.others if name in nest), key=nest.index):
            if not is_unrolled(self.kernel.loopy_kernel, name):
                bounding = self._bounding(name).intersection(around)
                keys = [self.points.size, *(columns[each] for each in sorted(bounding))]
                numbered[name] = columns[name] - _group_minimum(columns[name], keys)
            around.append(name)
        return numbered

    def _bounding(self, loop: str) -> set[str]:
        """Return the inames in the generated bounds of *loop*; constraints on others become conditions inside it."""
        loopy_kernel = self.kernel.loopy_kernel
        usable = get_usable_inames_for_conditional(loopy_kernel, self._start(loop), self._operations)
        home = loopy_kernel.get_home_domain_index(loop)
        domains = [home, *loopy_kernel.all_parents_per_domain()[home]]
        names = {name for index in domains for name in loopy_kernel.domains[index].get_var_names(isl.dim_type.set)}
        return names & (usable | self._added(loop))

    def _added(self, loop: str) -> frozenset[str]:
        """Return the inames of hardware axes that no instruction in *loop* uses; once added, bounds can use them."""
        if any(loop in barrier.inames for barrier in self.launch.barriers):
            return frozenset()
        inside = [each.within_inames for each in self.launch.instructions if loop in each.within_inames]
        names = (*self.lanes.values(), *self.others)
        axes = (name for name in names if self.kernel.hardware_axes.get(name) is not None)
        return frozenset(axes).difference(*inside)

    def _start(self, loop: str) -> int:
        """Return the index in the kernel's schedule at which *loop* starts in this launch."""
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
        """Return for each axis the stride of its work-items in the linear index, at each size."""
        weights, weight = {}, np.ones(self.points.sizes, int)
        for axis in range(max(self.items, default=-1) + 1):
            weights[axis] = weight
            weight = weight * self.items.get(axis, 1)
        return weights

    @cached_property
    def _places(self) -> np.ndarray:
        """Return the linear index of the work-item of each point in its group, without idle axes."""
        places = np.zeros(len(self.points), int)
        for axis, iname in self.lanes.items():
            places += (self.points.columns[iname] - self._first(iname)) * self._weights[axis][self.points.size]
        return places

    def _first(self, iname: str) -> np.ndarray:
        """Return for each point the lowest value of *iname*, which the generated code assigns to work-item 0."""
        first = pw_aff_to_expr(get_hw_axis_base_for_codegen(self.kernel.loopy_kernel, iname).to_pw_aff(), int_ok=True)
        return np.array([int(evaluate(first, dict(size))) for size in self.sizes])[self.points.size]

    # }}}


def _group_minimum(values: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return for each row the minimum of *values* over the rows that agree with it in all *columns*."""
    if not len(values):
        return values
    _, group = np.unique(np.stack(columns), axis=1, return_inverse=True)
    lowest = np.full(group.max() + 1, values.max())
    np.minimum.at(lowest, group.ravel(), values)
    return lowest[group.ravel()]


def _distinct(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return the index of one row for each set of rows that agree in all *columns*."""
    key = np.zeros(len(columns[0]), int)
    for column in columns if len(key) else ():
        key = key * (int(column.max() - column.min()) + 1) + column - column.min()
    return np.unique(key, return_index=True)[1]
