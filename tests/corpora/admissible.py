"""Small sizes that satisfy a kernel's assumptions, and whether enumeration is cheap at them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from math import inf, prod

import islpy as isl

from loopyperf.kernel import Kernel

PARAM, SET = isl.dim_type.param, isl.dim_type.set
EQUAL = (7, 16, 5, 32, 2, 64, 128, 1)
"""values for all sizes at once: odd ones first, so that tiles are not full"""
MOST_POINTS = 300_000


def admissible_sizes(kernel: Kernel) -> Iterator[Mapping[str, int]]:
    """Yield sizes that satisfy the assumptions of *kernel*: equal ones, then the smallest ones >= 2."""
    params = isl.Set.from_basic_set(kernel.assumptions)
    names = [str(params.get_dim_name(PARAM, place)) for place in range(params.dim(PARAM))]
    points = params.move_dims(SET, 0, PARAM, 0, len(names))
    for number in EQUAL if names else EQUAL[:1]:
        sizes = dict.fromkeys(names, number)
        if not _fixed(points, SET, sizes).is_empty():
            yield sizes
    for place in range(len(names)):
        points = points.lower_bound_val(SET, place, isl.Val(2))
    if names and not points.is_empty():
        smallest = points.lexmin().sample_point()
        yield {name: smallest.get_coordinate_val(SET, place).to_python() for place, name in enumerate(names)}


def admits(kernel: Kernel, sizes: Mapping[str, int]) -> bool:
    """Return whether *sizes* satisfy the assumptions of *kernel*."""
    return not _fixed(isl.Set.from_basic_set(kernel.assumptions), PARAM, sizes).is_empty()


def enumeration_is_cheap(kernel: Kernel, sizes: Mapping[str, int]) -> bool:
    """Return whether the bounding boxes of all instructions' loops, which enumeration scans, are small."""
    return all(points <= MOST_POINTS for points in accumulate(_boxes(kernel, sizes)))


def points(kernel: Kernel, sizes: Mapping[str, int]) -> float:
    """Return the number of points in the bounding boxes of all instructions' loops."""
    return sum(_boxes(kernel, sizes))


def _boxes(kernel: Kernel, sizes: Mapping[str, int]) -> Iterator[float]:
    instructions = (instruction for launch in kernel.launches for instruction in launch.instructions)
    loops = Counter(frozenset(instruction.within_inames) for instruction in instructions)
    return (number * _box(kernel, inames, sizes) for inames, number in loops.items())


def _box(kernel: Kernel, inames: frozenset[str], sizes: Mapping[str, int]) -> float:
    loops = _fixed(isl.Set.from_basic_set(kernel.loopy_kernel.get_inames_domain(inames)), PARAM, sizes)
    if loops.is_empty():
        return 0
    loops = loops.project_out(PARAM, 0, loops.dim(PARAM))  # unbounded if bounds depend on data
    if not loops.is_bounded():
        return inf
    axes = range(loops.dim(SET))
    return prod((loops.dim_max_val(axis) - loops.dim_min_val(axis)).to_python() + 1 for axis in axes)


def _fixed(points: isl.Set, kind: isl.dim_type, values: Mapping[str, int]) -> isl.Set:
    for name, (found, place) in points.get_var_dict(kind).items():
        if name in values:
            points = points.fix_val(found, place, isl.Val(values[name]))
    return points
