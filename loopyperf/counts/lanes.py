"""How an access moves from one work-item to the next.

Neighbouring work-items along ``l.0`` are the lanes of a sub-group. Most addresses are affine in the lane: each lane is
as far from the next one as any other. Others wrap or stand still for some lanes; those lanes are enumerated, in a
typical pass of the loops around: of several passes in the middle, the median by how far its lanes reach. So
``a[(i+1) % n]``, which wraps in the last group of many, has the class of the others, and ``a[i % 8]``, which wraps in
all of them, that of lanes that wrap. Where the address itself is data, nothing is known.

As in the paper, all lanes are looked at with the same values of the loops around: in a loop that starts from the lane,
as in ``i <= j < n``, these are not passes that the lanes make together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil
from operator import mul
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionNotAffineError
from loopy.symbolic import CoefficientCollector, IdentityMapper, TypeCast, WalkMapper, get_dependencies
from pymbolic.mapper import UnsupportedExpressionError
from pymbolic.mapper.evaluator import EvaluationMapper
from pymbolic.mapper.flattener import flatten

from loopyperf.counts.loops import LoopPoints
from loopyperf.counts.memory_accesses import CASES, Reference, element_strides, value_at
from loopyperf.kernel import Kernel

SET = isl.dim_type.set
PARAM = isl.dim_type.param
ENUMERATED = 32
"""lanes"""
ITERATIONS = 24
"""of the loops around, one after another, so that what wraps in every second, third, fourth or eighth has its share"""
SEPARATE = 5
"""elements: lanes further apart do not share what memory moves at once; the highest stride class is more than 4"""


@dataclass(frozen=True, slots=True)
class EvenLanes:
    """Lanes that are all equally far apart."""

    steps: tuple[int, ...]
    """from one lane to the next, for each index"""
    stride: int
    """elements from one lane's address to the next one's, without sign"""

    @property
    def density(self) -> Fraction:
        """Return the share of the elements between lanes that some lane has."""
        return Fraction(1, max(self.stride, 1))


@dataclass(frozen=True, slots=True)
class UnevenLanes:
    """Lanes one by one."""

    addresses: tuple[int, ...]
    """in elements"""
    indices: tuple[tuple[int, ...], ...]

    @property
    def span(self) -> int:
        """Return the elements that the lanes reach over, gaps between lanes that are far apart cut short."""
        gaps = (after - before for before, after in pairwise(sorted(set(self.addresses))))
        return 1 + sum(min(gap, SEPARATE) for gap in gaps)

    @property
    def stride(self) -> int:
        """Return how many elements a lane stands for: 0 where all have the same address."""
        return ceil(Fraction(self.span - 1, max(len(self.addresses) - 1, 1)))

    @property
    def density(self) -> Fraction:
        """Return the share of the elements reached over that some lane has."""
        return Fraction(len(set(self.addresses)) - 1, max(self.span - 1, 1))

    @property
    def sharing(self) -> str:
        """Return how lanes share elements, as the fraction of an element each and the lane at which they begin again.

        Empty where they share none, or all the same one.
        """
        number = len(self.addresses)
        if len(set(self.addresses)) in (1, number):
            return ""
        period = next(lane for lane in range(1, number + 1) if self.addresses[lane:] == self.addresses[: number - lane])
        stride = Fraction(len(set(self.addresses)), period)
        return f"stride {stride}" + (f", wraps at {period}" if period < number else "")


@dataclass(frozen=True, slots=True)
class LanesByData:
    """Lanes whose addresses are data."""


Lanes = EvenLanes | UnevenLanes | LanesByData


def lanes_of(
    kernel: Kernel, inames: frozenset[str], loops: LoopPoints, ref: Reference, sizes: Mapping[str, int]
) -> Lanes | None:
    """Return how *ref* moves along ``l.0`` in the loops over *inames*, at the (large) *sizes*.

    None where lanes have to be enumerated and none is active at *sizes*.
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


# {{{ lanes that are equally far apart


def _step(expression: Any, lanes: frozenset[str]) -> Any | None:
    """Return what *expression* grows by from lane to lane, an expression; None where it is not affine in *lanes*."""
    if not lanes & get_dependencies(expression):
        return 0
    try:
        # Flattening drops products with zero, which the collector does not expect.
        coefficients = CoefficientCollector(lanes)(flatten(_OffsetsByName(lanes)(expression)))
    except (ExpressionNotAffineError, UnsupportedExpressionError, RuntimeError):
        return None
    return prim.flattened_sum([coefficients.get(prim.Variable(lane), 0) for lane in lanes])


class _OffsetsByName(IdentityMapper[[]]):
    """Writes a variable for whatever is not affine and is the same for all lanes."""

    def __init__(self, lanes: frozenset[str]) -> None:
        super().__init__()
        self.lanes = lanes

    def rec(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(expr, (*CASES, prim.Call, prim.Subscript)) and not self.lanes & get_dependencies(expr):
            return prim.Variable("an offset")
        return super().rec(expr, *args, **kwargs)

    __call__ = rec


# }}}


# {{{ lanes told apart by data


def _differ_by_data(
    kernel: Kernel, inames: frozenset[str], loops: LoopPoints, lanes: frozenset[str], ref: Reference
) -> bool:
    """Return whether an index of *ref* depends on data that differs between neighbouring lanes."""
    own = {loop for loop, data in loops.starts.items() if data & kernel.lane_variables}
    known = inames | kernel.parameters
    names = frozenset[str]().union(*map(get_dependencies, ref.index))
    return bool(names & own or (names - known) & kernel.lane_variables) or any(
        _data_moves_lanes(expression, lanes, known) for expression in ref.index
    )


def offsets_in_temporaries(kernel: Kernel) -> dict[str, Any]:
    """Return what the integer temporaries stand for in which lanes have no data of their own."""
    known = kernel.parameters | kernel.loopy_kernel.all_inames()

    def is_of_lanes(value: Any) -> bool:
        names = get_dependencies(value)
        lanes = kernel.lane_inames(names & kernel.loopy_kernel.all_inames())
        return bool(names & kernel.lane_variables) or _data_moves_lanes(value, lanes, known)

    return {name: value for name, value in kernel.integer_temporaries.items() if not is_of_lanes(value)}


def _data_moves_lanes(expression: Any, lanes: frozenset[str], known: frozenset[str]) -> bool:
    """Return whether data tells how far apart *lanes* are: data that is no summand, which would move all alike.

    Data is what depends on other names than *known* ones, and what functions return.
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
    return not get_dependencies(expression) <= known or _calls(expression)


def _calls(expression: Any) -> bool:
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
    """Return the lanes in a typical pass of the other loops.

    Of the passes looked at, those with fewer lanes than others, of a group cut short, are left out. Of the rest it is
    the median by the elements that the lanes reach over, of equal ones by their addresses, of two in the middle the
    lesser.
    """
    for name, (kind, place) in points.get_var_dict(PARAM).items():
        points = points.fix_val(kind, place, _val(sizes[name]))
    points = points.project_out(PARAM, 0, points.dim(PARAM))
    if points.is_empty():
        return None
    (lane,) = lanes
    found: list[UnevenLanes] = []
    for together in dict.fromkeys(tuple(_iteration(points, lane, number)) for number in range(ITERATIONS)):
        indices = tuple(_index(ref, {**sizes, **dict(point)}) for point in together)
        addresses = (sum(map(mul, index, strides)) for index in indices)
        found.append(UnevenLanes(tuple(addresses), indices))
    most = max(len(each.addresses) for each in found)
    full = sorted((each for each in found if len(each.addresses) == most), key=lambda each: (each.span, each.addresses))
    return full[(len(full) - 1) // 2]


def _iteration(points: isl.Set, lane: str, number: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield the first points of one of the PASSES in the middle, by its *number*, lane by lane.

    Each loop goes on by one from pass to pass, from its last value to its first. Where it does not have that value, it
    has the next lower one.
    """
    names = points.get_var_names_not_none(SET)
    values: dict[str, int] = {}
    for place, name in enumerate(names):
        if name != lane:
            first, last = _bounds(points, place)
            reached = first + ((last - first) // 2 + number - ITERATIONS // 2) % (last - first + 1)
            value = points.upper_bound_val(SET, place, _val(reached)).dim_max_val(place)
            points, values[name] = points.fix_val(SET, place, value), value.to_python()
    first, last = _bounds(points, names.index(lane))
    for value in range(first, min(last, first + ENUMERATED - 1) + 1):
        yield (*values.items(), (lane, value))


def _bounds(points: isl.Set, place: int) -> tuple[int, int]:
    return points.dim_min_val(place).to_python(), points.dim_max_val(place).to_python()


def _val(value: int) -> isl.Val:
    return isl.Val(str(value))


class _AtPoint(EvaluationMapper[int]):
    """Evaluates an index where what it does not know is the same for all lanes, and zero."""

    def map_variable(self, expr: prim.Variable) -> int:
        return self.context.get(expr.name, 0)

    def map_subscript(self, expr: prim.Subscript) -> int:
        return 0

    def map_call(self, expr: prim.Call) -> int:
        return 0


def _index(ref: Reference, values: Mapping[str, int]) -> tuple[int, ...]:
    at_point = _AtPoint(values)
    return tuple(int(at_point(expression)) for expression in ref.index)


# }}}
