"""How the address of an access changes from one work-item to the next.

Neighboring work-items along ``l.0`` are the lanes of a sub-group. Most addresses are affine in the lane, so neighboring
lanes are equally far apart. Other addresses wrap or repeat for some lanes. These lanes are enumerated in a typical
iteration of the surrounding loops: of several iterations in the middle, the one with the median span. So
``a[(i+1) % n]``, which wraps only in the last of many groups, gets the class of the other groups, and ``a[i % 8]``,
which wraps in every group, gets the class of lanes that wrap. If the address itself is data, nothing is known.

As in the paper, all lanes are compared at the same values of the surrounding loops. In a loop that starts from the
lane, as in ``i <= j < n``, the lanes do not execute these iterations together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from math import ceil
from operator import mul
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionNotAffineError
from loopy.symbolic import CoefficientCollector, IdentityMapper, TypeCast, WalkMapper, get_dependencies
from pymbolic.mapper import UnsupportedExpressionError
from pymbolic.mapper.evaluator import EvaluationMapper
from pymbolic.mapper.flattener import flatten

from loopyperf.counts.loops import LoopPoints
from loopyperf.counts.memory_accesses import CASES, Reference, element_strides, value_at
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.polyhedral.points import at_sizes
from loopyperf.polyhedral.sets import as_int

SET = isl.dim_type.set
PARAM = isl.dim_type.param
ENUMERATED = 32
"""most lanes that are enumerated"""
ITERATIONS = 24
"""consecutive iterations that are enumerated, so that wraps in every second, third, fourth or eighth are represented"""
SEPARATE = 5
"""elements: lanes further apart do not share a memory transaction; the highest stride class is more than 4"""


@dataclass(frozen=True, slots=True)
class EvenLanes:
    """Lanes at equal distances."""

    steps: tuple[int, ...]
    """step from one lane to the next, for each index"""
    stride: int
    """distance between the addresses of neighboring lanes in elements, without sign"""

    @property
    def density(self) -> Fraction:
        """Return the share of the elements between lanes that a lane accesses."""
        return Fraction(1, max(self.stride, 1))


@dataclass(frozen=True, slots=True)
class UnevenLanes:
    """Lanes given one by one."""

    addresses: tuple[int, ...]
    """address of each lane, in elements"""
    indices: tuple[tuple[int, ...], ...]

    @property
    def span(self) -> int:
        """Return the number of elements that the lanes span, with gaps between distant lanes cut short."""
        gaps = (after - before for before, after in pairwise(sorted(set(self.addresses))))
        return 1 + sum(min(gap, SEPARATE) for gap in gaps)

    @property
    def stride(self) -> int:
        """Return the mean distance between lanes in elements, rounded up; 0 if all lanes have the same address."""
        return ceil(Fraction(self.span - 1, max(len(self.addresses) - 1, 1)))

    @property
    def density(self) -> Fraction:
        """Return the share of the spanned elements that a lane accesses."""
        return Fraction(len(set(self.addresses)) - 1, max(self.span - 1, 1))

    @property
    def sharing(self) -> str:
        """Return how lanes share elements: the number of elements per lane, and the lane at which the pattern repeats.

        Empty if they share none, or if all access the same one.
        """
        number = len(self.addresses)
        if len(set(self.addresses)) in (1, number):
            return ""
        period = next(lane for lane in range(1, number + 1) if self.addresses[lane:] == self.addresses[: number - lane])
        stride = Fraction(len(set(self.addresses)), period)
        return f"stride {stride}" + (f", wraps at {period}" if period < number else "")


@dataclass(frozen=True, slots=True)
class LanesByData:
    """Lanes whose addresses depend on data."""


Lanes = EvenLanes | UnevenLanes | LanesByData


def lanes_of(
    kernel: Kernel, inames: frozenset[str], loops: LoopPoints, ref: Reference, sizes: Mapping[str, int]
) -> Lanes | None:
    """Return how *ref* moves along ``l.0`` in the loops over *inames*, at the (large) *sizes*.

    None if lanes have to be enumerated and none is active at *sizes*.
    """
    lanes = kernel.lane_inames(inames)
    if _differ_by_data(kernel, inames, loops, lanes, ref):
        return LanesByData()
    strides = element_strides(kernel, ref, sizes)
    steps = [_step(expression, lanes) for expression in ref.index]
    if any(step is None or get_dependencies(step) - sizes.keys() for step in steps):
        return _typical(loops.points, lanes, ref, strides, sizes)
    known = tuple(value_at(step, sizes, f"the index {index}") for step, index in zip(steps, ref.index, strict=True))
    return EvenLanes(known, abs(sum(map(mul, known, strides))))


# {{{ lanes at equal distances


def _step(expression: Any, lanes: frozenset[str]) -> Any | None:
    """Return the growth of *expression* from lane to lane, as an expression; None if it is not affine in *lanes*."""
    if not lanes & get_dependencies(expression):
        return 0
    try:
        # Flattening drops products with zero, which the collector cannot handle.
        coefficients = CoefficientCollector(lanes)(flatten(_OffsetsByName(lanes)(expression)))
    except (ExpressionNotAffineError, UnsupportedExpressionError, RuntimeError):
        return None
    return prim.flattened_sum([coefficients.get(prim.Variable(lane), 0) for lane in lanes])


class _OffsetsByName(IdentityMapper[[]]):
    """Replaces parts that are not affine, and are the same for all lanes, by a variable."""

    def __init__(self, lanes: frozenset[str]) -> None:
        super().__init__()
        self.lanes = lanes

    def rec(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(expr, (*CASES, prim.Call, prim.Subscript)) and not self.lanes & get_dependencies(expr):
            return prim.Variable("an offset")
        return super().rec(expr, *args, **kwargs)

    __call__ = rec


# }}}


# {{{ lanes that differ by data


def _differ_by_data(
    kernel: Kernel, inames: frozenset[str], loops: LoopPoints, lanes: frozenset[str], ref: Reference
) -> bool:
    """Return whether an index of *ref* depends on data that differs between neighboring lanes."""
    own = {loop for loop, data in loops.starts.items() if data & kernel.lane_variables}
    known = inames | kernel.parameters
    names = frozenset[str]().union(*map(get_dependencies, ref.index))
    return bool(names & own or (names - known) & kernel.lane_variables) or any(
        _data_moves_lanes(expression, lanes, known) for expression in ref.index
    )


def offsets_in_temporaries(kernel: Kernel) -> dict[str, Any]:
    """Return the values of the integer temporaries whose data does not differ between lanes."""
    known = kernel.parameters | kernel.loopy_kernel.all_inames()

    def is_of_lanes(value: Any) -> bool:
        names = get_dependencies(value)
        lanes = kernel.lane_inames(names & kernel.loopy_kernel.all_inames())
        return bool(names & kernel.lane_variables) or _data_moves_lanes(value, lanes, known)

    return {name: value for name, value in kernel.integer_temporaries.items() if not is_of_lanes(value)}


def _data_moves_lanes(expression: Any, lanes: frozenset[str], known: frozenset[str]) -> bool:
    """Return whether data determines the distance between *lanes*; a term that is only added moves all lanes equally.

    Data is what depends on names outside of *known*, and the results of functions.
    """
    if not _depends(expression, lanes) or not _is_data(expression, known):
        return False
    match expression:
        case prim.Sum(children=parts):
            return any(_data_moves_lanes(part, lanes, known) for part in parts)
        case prim.Product(children=parts):
            moving = [part for part in parts if _depends(part, lanes) or _is_data(part, known)]
            return len(moving) > 1 or _data_moves_lanes(moving[0], lanes, known)
        case prim.FloorDiv(numerator=part, denominator=by) | prim.Remainder(numerator=part, denominator=by):
            return _depends(by, lanes) or _is_data(by, known) or _data_moves_lanes(part, lanes, known)
        case TypeCast(child=part):
            return _data_moves_lanes(part, lanes, known)
        case _:
            return True


def _depends(expression: Any, lanes: frozenset[str]) -> bool:
    return not lanes.isdisjoint(get_dependencies(expression))


def _is_data(expression: Any, known: frozenset[str]) -> bool:
    return not get_dependencies(expression) <= known or has_call(expression)


def has_call(expression: Any) -> bool:
    """Return whether *expression* calls a function."""
    finder = _Calls()
    finder(expression)
    return finder.found


class _Calls(WalkMapper[[]]):
    found = False

    def visit(self, expr: Any) -> bool:
        self.found |= isinstance(expr, prim.Call)
        return not self.found


# }}}


# {{{ lanes one by one


def _typical(
    points: isl.Set, lanes: frozenset[str], ref: Reference, strides: Sequence[int], sizes: Mapping[str, int]
) -> UnevenLanes | None:
    """Return the lanes in a typical iteration of the other loops.

    Iterations with fewer lanes than others, which belong to a partial group, are ignored. Of the others it is the
    median by span, then by addresses; of two in the middle the lower one.
    """
    points = at_sizes(points, sizes)
    if points.is_empty():
        return None
    (lane,) = lanes
    found: list[UnevenLanes] = []
    for together in dict.fromkeys(tuple(_iteration(points, lane, number)) for number in range(ITERATIONS)):
        at_points = ({**sizes, **dict(point)} for point in together)
        indices = tuple(tuple(int(index_values(index, each)) for index in ref.index) for each in at_points)
        addresses = (sum(map(mul, index, strides)) for index in indices)
        found.append(UnevenLanes(tuple(addresses), indices))
    most = max(len(each.addresses) for each in found)
    full = sorted((each for each in found if len(each.addresses) == most), key=lambda each: (each.span, each.addresses))
    return full[(len(full) - 1) // 2]


def _iteration(points: isl.Set, lane: str, number: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield the first points of iteration *number* of the :data:`ITERATIONS` in the middle, lane by lane.

    Each loop variable advances by one per iteration and wraps from its last value to its first. If the loop skips the
    value, the next lower one is used.
    """
    names = points.get_var_names_not_none(SET)
    values: dict[str, int] = {}
    for place, name in enumerate(names):
        if name != lane:
            first, last = _bounds(points, place)
            reached = first + ((last - first) // 2 + number - ITERATIONS // 2) % (last - first + 1)
            value = points.upper_bound_val(SET, place, _val(reached)).dim_max_val(place)
            points, values[name] = points.fix_val(SET, place, value), as_int(value)
    first, last = _bounds(points, names.index(lane))
    for value in range(first, min(last, first + ENUMERATED - 1) + 1):
        yield (*values.items(), (lane, value))


def _bounds(points: isl.Set, place: int) -> tuple[int, int]:
    return as_int(points.dim_min_val(place)), as_int(points.dim_max_val(place))


def _val(value: int) -> isl.Val:
    return isl.Val(str(value))


def index_values(expression: Any, values: Mapping[str, Any]) -> Any:
    """Return *expression* at *values* of its variables: integers, or arrays that broadcast together.

    Data has no value here and counts as zero.
    """
    with np.errstate(divide="ignore"):  # in the branch that does not execute
        evaluate = _Values(dict(values))
        return evaluate(expression)


class _Values(EvaluationMapper[Any]):
    """Evaluates expressions on arrays: both branches of a condition first, then the selection."""

    def map_variable(self, expr: prim.Variable) -> Any:
        return self.context.get(expr.name, 0)

    def map_subscript(self, expr: prim.Subscript) -> Any:
        return 0

    def map_call(self, expr: prim.Call) -> Any:
        return 0

    def map_type_cast(self, expr: Any) -> Any:
        return self.rec(expr.child)

    map_type_annotation = map_type_cast

    def map_if(self, expr: prim.If) -> Any:
        return cast("Any", np.where(self.rec(expr.condition), self.rec(expr.then), self.rec(expr.else_)))

    def map_min(self, expr: prim.Min) -> Any:
        return reduce(np.minimum, map(self.rec, expr.children))

    def map_max(self, expr: prim.Max) -> Any:
        return reduce(np.maximum, map(self.rec, expr.children))

    def map_logical_and(self, expr: prim.LogicalAnd) -> Any:
        return reduce(np.logical_and, map(self.rec, expr.children))

    def map_logical_or(self, expr: prim.LogicalOr) -> Any:
        return reduce(np.logical_or, map(self.rec, expr.children))

    def map_logical_not(self, expr: prim.LogicalNot) -> Any:
        return np.logical_not(self.rec(expr.child))

    def handle_unsupported_expression(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        raise UncountableError(f"cannot compute addresses of an index with {expr} ({type(expr).__name__})")


# }}}
