"""Sub-groups (warps, wavefronts): work-items that execute an instruction together.

A sub-group executes what at least one of its work-items executes. All points of the loops whose work-items are in one
sub-group, and that are in the same iteration of every loop, are one execution. The work-items of a group are numbered
along its first axis first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import islpy as isl
from loopy.kernel.data import LocalInameTag

from loopyperf.counts.loops import bounding_around, first_values, leaning_loops
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch
from loopyperf.polyhedral.isl_values import as_int

SET = isl.dim_type.set


Loops = Callable[[frozenset[str]], isl.Set]


def sub_groups(
    kernel: Kernel, launch: Launch, points: isl.Set, loops: Loops, idle_axes: Mapping[int, isl.PwAff], size: int
) -> isl.Set:
    """Return the executions of sub-groups of *size* lanes whose work-items execute *points*.

    *loops* returns the points of the loops over some inames. *idle_axes* maps local axes along which all work-items
    execute all points to their extents. Raises :class:`UncountableError` if the numbering of work-items depends on a
    size.
    """
    names = points.get_var_names_not_none(SET)
    tags = {place: kernel.hardware_axes.get(name) for place, name in enumerate(names)}
    places = {tag.axis: place for place, tag in tags.items() if isinstance(tag, LocalInameTag)}
    # Loopy numbers the work-items of an axis from the first value of its loop.
    firsts = {axis: _first(kernel, names[place]) for axis, place in places.items()}
    leaning = leaning_loops(kernel, launch, loops(frozenset(names)))
    points = _in_iterations(kernel, launch, points, loops, leaning)
    for axis, extent in idle_axes.items():
        values = isl.Set.from_pw_aff(extent).apply(isl.Map("{ [extent] -> [x]: 0 <= x < extent }"))
        places[axis], firsts[axis], points = points.dim(SET), 0, points.flat_product(values)
    if not places:
        return points
    weights = _weights(launch, max(places))
    axes = [_Axis(places[axis], firsts[axis], weights[axis]) for axis in sorted(places)]
    # Boxes: every sub-group consists of whole rows of a group, or of a part of one row.
    are_boxes = all(size % weight == 0 or weight % size == 0 for weight in weights)
    if (are_boxes and len(leaning) <= 1) or not _is_constant(launch, max(places)):
        return _numbered(points, axes, size)
    return _lane_by_lane(points, axes, [range(_extent(launch, axis)) for axis in sorted(places)], size)


@dataclass(frozen=True, slots=True)
class _Axis:
    """A local axis: its place in points, its first value, and the weight of its index in work-item numbers."""

    place: int
    first: int
    weight: int

    @property
    def number(self) -> str:
        """Return the term that the axis adds to the number of a work-item."""
        return f"{self.weight}*(x{self.place} - {self.first})"


def _numbered(points: isl.Set, axes: Sequence[_Axis], size: int) -> isl.Set:
    """Return *points* with the sub-group number in place of the axes *axes*."""
    before = ", ".join(f"x{place}" for place in range(points.dim(SET)))
    others = [f"x{place}" for place in range(points.dim(SET)) if place not in {axis.place for axis in axes}]
    number = f"floor(({' + '.join(axis.number for axis in axes)})/{size})"
    return points.apply(isl.Map(f"{{ [{before}] -> [{', '.join([*others, number])}] }}"))


def _lane_by_lane(points: isl.Set, axes: Sequence[_Axis], ranges: Sequence[range], size: int) -> isl.Set:
    """Return the result of :func:`_numbered` as a union over the lanes of each sub-group.

    Most lanes execute the same points as another lane, or a subset. If sub-groups end inside a row, counting this union
    is much faster, and gives shorter formulas, than counting with an integer division.
    """
    lanes: dict[int, isl.Set] = {}
    for values in product(*ranges):
        own = points
        for axis, value in zip(axes, values, strict=True):
            own = own.fix_val(SET, axis.place, isl.Val(axis.first + value))
        for place in sorted((axis.place for axis in axes), reverse=True):
            own = own.project_out(SET, place, 1)
        number = sum(axis.weight * value for axis, value in zip(axes, values, strict=True)) // size
        others = lanes.setdefault(number, own)
        lanes[number] = others if own.is_subset(others) else others.union(own)
    last = points.dim(SET) - len(axes)
    return reduce(
        isl.Set.union,
        (each.coalesce().add_dims(SET, 1).fix_val(SET, last, isl.Val(number)) for number, each in lanes.items()),
    )


def _in_iterations(kernel: Kernel, launch: Launch, points: isl.Set, loops: Loops, leaning: frozenset[str]) -> isl.Set:
    """Return *points* with the values of *leaning* loops, which start differently in lanes, as iteration numbers."""
    names = points.get_var_names_not_none(SET)
    if not leaning:
        return points
    order = launch.nested(names)
    starts = [loop_start(kernel, loops, names, order[order.index(name) + 1 :], name) for name in sorted(leaning)]
    together = reduce(isl.Map.flat_range_product, starts)
    before = ", ".join(f"x{place}" for place in range(len(names)))
    after = ", ".join(f"y{place}" for place in range(len(starts)))
    numbers = {name: f"x{names.index(name)} - y{place}" for place, name in enumerate(sorted(leaning))}
    iterations = ", ".join(numbers.get(name, f"x{place}") for place, name in enumerate(names))
    started = together.intersect_domain(points).wrap()
    return started.apply(isl.Map(f"{{ [[{before}] -> [{after}]] -> [{iterations}] }}"))


def loop_start(kernel: Kernel, loops: Loops, names: Sequence[str], inner: Sequence[str], loop: str) -> isl.Map:
    """Return the map from points over *names* to the first value of *loop* there; *inner* are the loops inside it."""
    around = bounding_around(kernel, names, loop, inner)
    everything = ", ".join(f"x{place}" for place in range(len(names)))
    outside = ", ".join(f"x{names.index(name)}" for name in around)
    first = first_values(loops(frozenset([*around, loop])), around, loop)
    return isl.Map(f"{{ [{everything}] -> [{outside}] }}").apply_range(first)


def _first(kernel: Kernel, iname: str) -> int:
    first = kernel.domain([iname]).dim_min_val(0)
    if not first.is_int():
        raise UncountableError(f"cannot count sub-groups: the first value of {iname} depends on a size")
    return as_int(first)


def _weights(launch: Launch, last: int) -> list[int]:
    """Return the difference of work-item numbers between neighbors along each local axis up to *last*."""
    weights = [1]
    for axis in range(last):
        weights.append(weights[-1] * _extent(launch, axis))
    return weights


def _extent(launch: Launch, axis: int) -> int:
    if axis not in launch.local_axes:
        return 1
    if not _is_constant(launch, axis):
        raise UncountableError(
            f"cannot count sub-groups: the extent of l.{axis} depends on a size: {launch.local_axes[axis]}"
        )
    return as_int(launch.local_axes[axis].max_val())


def _is_constant(launch: Launch, axis: int) -> bool:
    return axis not in launch.local_axes or launch.local_axes[axis].is_cst()
