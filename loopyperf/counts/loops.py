"""The points that loops visit, including loops with loaded bounds, and the code that replaces loop variables.

Loopy allows loop bounds that the kernel computes. Such loops are counted with typical values from the user: the
iteration count if the loop is independent of other loops, otherwise the values of the variables in its bounds.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import product
from math import ceil
from operator import mul

import islpy as isl
from loopy.kernel.data import LocalInameTag

from loopyperf.counts.sizes import Typical
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch, is_unrolled
from loopyperf.polyhedral.sets import as_int, names_involved

SET = isl.dim_type.set
PARAM = isl.dim_type.param


@dataclass(frozen=True, slots=True)
class LoopPoints:
    """The points of a loop nest."""

    points: isl.Set
    """points over the inames; the parameters are the kernel's"""
    weight: Fraction = Fraction(1)
    """weight of each point: 1 unless a loop has a fractional iteration count"""
    shifted: frozenset[str] = frozenset()
    """loops of which only the iteration count is known; their variables start from zero here"""
    starts: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """loop -> data that determines its first value"""
    by_data: frozenset[str] = frozenset()
    """loops with bounds that depend on data"""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A constraint that bounds one of its loops by data."""

    loop: str
    data: frozenset[str]
    from_below: bool


def loop_points(kernel: Kernel, inames: frozenset[str], typical: Typical) -> LoopPoints:
    """Return the points that loops over exactly *inames* visit.

    Raises :class:`UncountableError` if bounds depend on data without a typical value.
    """
    points = kernel.domain(inames)
    data = frozenset(points.get_var_names_not_none(PARAM)) - kernel.parameters
    if not data:
        return LoopPoints(points)
    bounds = [bound for bound in _bounds(points, data) if _is_homed_by_data(kernel, bound)]
    iterations: dict[str, Fraction] = {}
    for loop in sorted({bound.loop for bound in bounds}):
        of_loop = [bound for bound in bounds if bound.loop == loop]
        number, points = _settled(points, loop, of_loop, typical)
        iterations.update(number)
    for name in data:
        points = _without_parameter(points, name)
    for loop, number in iterations.items():
        points = _iterating(points, loop, ceil(number))
    weights = (number / ceil(number) if number else Fraction(1) for number in iterations.values())
    starts = {bound.loop: bound.data for bound in bounds if bound.from_below}
    by_data = frozenset(bound.loop for bound in bounds)
    return LoopPoints(points, reduce(mul, weights, Fraction(1)), frozenset(iterations), starts, by_data)


def leaning_loops(kernel: Kernel, launch: Launch, points: isl.Set) -> frozenset[str]:
    """Return the sequential loops of *points* whose first value differs between the work-items of a group.

    A loop that starts from such a loop's variable is one as well: in the same iteration, work-items have different
    values. The result has no loops on the host and no unrolled loops, whose iterations or copies have one value for all
    work-items. It also has no loops that Loopy bounds without local inames, with conditions inside, because the bounds
    are in other domains or because all work-items have to reach a barrier inside.
    """
    names = points.get_var_names_not_none(SET)
    axes = {name: kernel.hardware_axes.get(name) for name in names}
    local = {name for name, tag in axes.items() if isinstance(tag, LocalInameTag)}
    loops = {name for name in axes.keys() - launch.host_inames if axes[name] is None}
    loops = {name for name in loops if not is_unrolled(kernel.loopy_kernel, name)}
    loops = loops.difference(*(barrier.loops for barrier in launch.barriers))
    nest = launch.nested(loops) if local else []
    leaning = set(local)
    for place, loop in enumerate(nest):
        inner = nest[place + 1 :]
        around = bounding_around(kernel, names, loop, inner)
        leaning_on = leaning.intersection(around)
        from_below = frozenset[str]().union(*_bounds_from_below(points, loop))
        if from_below & leaning_on or (
            not from_below.isdisjoint(inner) and not _starts_uniformly(kernel.domain({*around, loop}), loop, leaning_on)
        ):
            leaning.add(loop)
    return frozenset(leaning - local)


def _starts_uniformly(points: isl.Set, loop: str, names: Collection[str]) -> bool:
    """Return whether the first value of *loop* in *points* is the same for all values of *names*.

    If an inner loop bounds *loop*, no single constraint shows it: the first value is the first with an iteration of the
    inner loop.
    """
    around = [name for name in points.get_var_names_not_none(SET) if name != loop]
    start = first_values(points, around, loop)
    for name in names:
        start = start.project_out(isl.dim_type.in_, around.index(name), 1)
        around.remove(name)
    return start.is_single_valued()


def first_values(points: isl.Set, around: Sequence[str], loop: str) -> isl.Map:
    """Return the map from values of the loops *around* to the first value of *loop* in *points*."""
    order = [*around, loop]
    places = ", ".join(f"x{order.index(name)}" for name in points.get_var_names_not_none(SET))
    outside = ", ".join(f"x{place}" for place in range(len(around)))
    return points.apply(isl.Map(f"{{ [{places}] -> [[{outside}] -> [x{len(around)}]] }}")).unwrap().lexmin()


def _bounds_from_below(points: isl.Set, loop: str) -> Iterator[frozenset[str]]:
    """Yield the loops in each constraint of *points* that bounds *loop* from below."""
    place = points.get_var_names_not_none(SET).index(loop)
    for basic in points.get_basic_sets():
        for constraint in basic.get_constraints():
            if constraint.is_equality() or constraint.get_coefficient_val(SET, place).is_pos():
                involved = names_involved(constraint, SET)
                if loop in involved:
                    yield involved


def bounding_around(kernel: Kernel, names: Sequence[str], loop: str, inner: Collection[str]) -> list[str]:
    """Return the *names* that may occur in Loopy's bounds of *loop*: those of its domain and the domains around it.

    *inner* are the loops inside *loop*.
    """
    home = kernel.loopy_kernel.get_home_domain_index(loop)
    domains = (home, *kernel.loopy_kernel.all_parents_per_domain()[home])
    known = {name for index in domains for name in kernel.loopy_kernel.domains[index].get_var_names_not_none(SET)}
    return [name for name in names if name in known and name != loop and name not in inner]


def _settled(points: isl.Set, loop: str, bounds: list[_Bound], typical: Typical) -> tuple[dict[str, Fraction], isl.Set]:
    """Return the iteration count of *loop*, or *points* at the typical values of the data that bound it."""
    data = sorted({name for bound in bounds for name in bound.data})
    why = f"loop {loop} is bounded by data ({', '.join(data)})"
    stands_alone = _stands_alone(points, loop, data)
    if stands_alone and (typical.has(loop) or (len(data) > 1 and not all(map(typical.has, data)))):
        return {loop: typical.iterations(loop, why)}, points
    for name in data:
        points = _fixed(points, name, typical.size(name, why))
    return {}, points


def _stands_alone(points: isl.Set, loop: str, data: Iterable[str]) -> bool:
    """Return whether only *data* and a constant first value bound *loop*, and *loop* bounds no other loop."""
    for name in data:
        points = _without_parameter(points, name)
    kind, place = points.get_var_dict()[loop]
    if not points.involves_dims(kind, place, 1):
        return True
    first = points.dim_min_val(place)
    others = points.project_out(kind, place, 1).insert_dims(kind, place, 1)
    return first.is_int() and others.lower_bound_val(kind, place, first).is_equal(points)


# {{{ constraints


def _bounds(points: isl.Set, data: frozenset[str]) -> Iterator[_Bound]:
    names = points.get_var_names_not_none(SET)
    for basic in points.get_basic_sets():
        for constraint in basic.get_constraints():
            involved = names_involved(constraint, PARAM) & data
            for loop in sorted(names_involved(constraint, SET)) if involved else ():
                value = constraint.get_coefficient_val(SET, names.index(loop))
                from_below = constraint.is_equality() or value.is_pos()
                yield _Bound(loop, involved, from_below)


def _is_homed_by_data(kernel: Kernel, bound: _Bound) -> bool:
    """Return whether data bounds the loop of *bound* itself, not only a loop around or inside it."""
    home = kernel.loopy_kernel.domains[kernel.loopy_kernel.get_home_domain_index(bound.loop)]
    return bool(bound.data & frozenset(home.get_var_names_not_none(PARAM)))


# }}}


# {{{ sets


def _without_parameter(points: isl.Set, name: str) -> isl.Set:
    place = points.get_var_dict(PARAM).get(name)
    return points if place is None else points.project_out(*place, 1)


def _fixed(points: isl.Set, name: str, value: int) -> isl.Set:
    place = points.get_var_dict(PARAM).get(name)
    return points if place is None else points.fix_val(*place, isl.Val(str(value))).project_out(*place, 1)


def _iterating(points: isl.Set, loop: str, iterations: int) -> isl.Set:
    """Return *points* with this many *iterations* of *loop*, from its first value or, if that is data, from zero."""
    _, place = points.get_var_dict()[loop]
    known = points.dim_min_val(place)
    first = known if known.is_int() else isl.Val.zero(points.get_ctx())
    return points.lower_bound_val(SET, place, first).upper_bound_val(SET, place, first + isl.Val(str(iterations - 1)))


# }}}


# {{{ sub-groups (warps, wavefronts): work-items that execute an instruction together
#
# A sub-group executes what at least one of its work-items executes. All points of the loops whose work-items are in one
# sub-group, and that are in the same iteration of every loop, are one execution. The work-items of a group are numbered
# along its first axis first.


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
        (lane.coalesce().add_dims(SET, 1).fix_val(SET, last, isl.Val(number)) for number, lane in lanes.items()),
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


# }}}
