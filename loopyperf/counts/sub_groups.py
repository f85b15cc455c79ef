"""Sub-groups (warps, wavefronts): work-items that execute an instruction together.

A sub-group executes what at least one of its work-items executes, so it is active work-items that are counted: points
of the loops whose work-items lie in one sub-group, and which are in the same pass of every loop, are one execution.
The work-items of a group are numbered along its first axis first.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import islpy as isl
from loopy.kernel.data import LocalInameTag
from loopy.schedule import EnterLoop

from loopyperf.counts.loops import bounding_inames, leaning_loops
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.launches import Launch

SET = isl.dim_type.set


Loops = Callable[[frozenset[str]], isl.Set]


def sub_groups(
    kernel: Kernel, launch: Launch, points: isl.Set, loops: Loops, idle_axes: Mapping[int, isl.PwAff], size: int
) -> isl.Set:
    """Return the executions of sub-groups of *size* lanes whose work-items execute *points*.

    *loops* tells what points the loops over some inames visit. *idle_axes* are local axes along which all work-items
    execute all points, with their extents. Raises :class:`UncountableError` where the numbering of work-items depends
    on a size.
    """
    names = points.get_var_names_not_none(SET)
    tags = {place: kernel.hardware_axis(name) for place, name in enumerate(names)}
    axes = {tag.axis: place for place, tag in tags.items() if isinstance(tag, LocalInameTag)}
    points = in_passes(kernel, launch, points, loops)
    for axis, extent in idle_axes.items():
        points, axes[axis] = _with_axis(points, extent), points.dim(SET)
    if not axes:
        return points
    weights = _weights(launch, max(axes))
    # Loopy numbers the work-items of an axis from the first point of its loop.
    firsts = {place: _first(kernel, names[place]) if place < len(names) else 0 for place in axes.values()}
    number = " + ".join(f"{weights[axis]}*(x{place} - {firsts[place]})" for axis, place in sorted(axes.items()))
    before = ", ".join(f"x{place}" for place in range(points.dim(SET)))
    after = [f"x{place}" for place in range(points.dim(SET)) if place not in axes.values()]
    return points.apply(isl.Map(f"{{ [{before}] -> [{', '.join([*after, f'floor(({number})/{size})'])}] }}"))


def in_passes(kernel: Kernel, launch: Launch, points: isl.Set, loops: Loops) -> isl.Set:
    """Return *points* with the passes of loops that do not start from the same value in all lanes for their values."""
    names = points.get_var_names_not_none(SET)
    leaning = leaning_loops(kernel, launch, loops(frozenset(names)))
    if not leaning:
        return points
    nest = [item.iname for item in launch.schedule if isinstance(item, EnterLoop)]
    order = sorted((name for name in names if name in nest), key=nest.index)
    starts = [loop_start(kernel, loops, names, order[order.index(name) + 1 :], name) for name in sorted(leaning)]
    together = reduce(isl.Map.flat_range_product, starts)
    before = ", ".join(f"x{place}" for place in range(len(names)))
    after = ", ".join(f"y{place}" for place in range(len(starts)))
    numbers = {name: f"x{names.index(name)} - y{place}" for place, name in enumerate(sorted(leaning))}
    passes = ", ".join(numbers.get(name, f"x{place}") for place, name in enumerate(names))
    started = together.intersect_domain(points).wrap()
    return started.apply(isl.Map(f"{{ [[{before}] -> [{after}]] -> [{passes}] }}"))


def loop_start(kernel: Kernel, loops: Loops, names: Sequence[str], inner: Sequence[str], loop: str) -> isl.Map:
    """Return the map from points over *names* to where *loop* starts there; *inner* are the loops inside it."""
    bounding = bounding_inames(kernel, loop)
    around = [name for name in names if name != loop and name in bounding and name not in inner]
    visited = loops(frozenset([*around, loop]))
    order = visited.get_var_names_not_none(SET)
    before = ", ".join(f"x{names.index(name)}" for name in order)
    outside = ", ".join(f"x{names.index(name)}" for name in around)
    first = visited.apply(isl.Map(f"{{ [{before}] -> [[{outside}] -> [x{names.index(loop)}]] }}")).unwrap().lexmin()
    everything = ", ".join(f"x{place}" for place in range(len(names)))
    return isl.Map(f"{{ [{everything}] -> [{outside}] }}").apply_range(first)


def _first(kernel: Kernel, iname: str) -> int:
    first = kernel.domain([iname]).dim_min_val(0)
    if not first.is_int():
        raise UncountableError(f"sub-groups cannot be counted, because where {iname} starts depends on a size")
    return first.to_python()


def _with_axis(points: isl.Set, extent: isl.PwAff) -> isl.Set:
    """Return the points with a last dimension that runs from zero up to *extent*."""
    return points.flat_product(isl.Set.from_pw_aff(extent).apply(isl.Map("{ [extent] -> [x]: 0 <= x < extent }")))


def _weights(launch: Launch, last: int) -> list[int]:
    """Return for each local axis up to *last* how far apart neighbours along it are numbered."""
    weights = [1]
    for axis in range(last):
        extent = launch.local_axes.get(axis)
        if extent is not None and not extent.is_cst():
            raise UncountableError(
                f"sub-groups cannot be counted, because the extent of l.{axis} depends on a size: {extent}"
            )
        weights.append(weights[-1] * (1 if extent is None else extent.max_val().to_python()))
    return weights
