"""Operations and accesses of one instruction, each with the points at which it is executed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.codegen import UnvectorizableError
from loopy.expression import VectorizabilityChecker
from loopy.kernel.array import FixedStrideArrayDimTag, SeparateArrayArrayDimTag, VectorArrayDimTag
from loopy.kernel.data import AddressSpace, VectorizeTag
from loopy.kernel.instruction import Assignment, CallInstruction, MultiAssignmentBase
from loopy.symbolic import DependencyMapper, LinearSubscript, get_dependencies
from loopy.type_inference import TypeReader
from loopy.types import LoopyType
from pymbolic import substitute

from loopyperf.kernel import Kernel
from tests.counting_numbers import Number, Real, Tally, Vector, number
from tests.executions import Executions, both, neither
from tests.expression_evaluation import TextEvaluator
from tests.generated_expressions import Writer
from tests.pointwise import PointwiseEvaluator, is_even
from tests.stride_classes import Access, Lanes, UnevenLanes

LANES = 32
"""number of lanes examined if they are not equally spaced"""
ITERATIONS = range(-12, 12)
"""iterations examined, relative to the middle of each loop"""
FAR = 1 << 40
"""elements between the arrays into which Loopy separates an axis"""


@dataclass(frozen=True)
class Happening:
    """A property of operations, or an access, executed *number* times at each *active* point."""

    what: str | Access
    number: int
    active: np.ndarray


def vector_iname(kernel: Kernel, instruction: Any) -> str | None:
    """Return the loop that the generated code executes as one vector operation, according to Loopy's checker."""
    loopy_kernel = kernel.loopy_kernel
    tagged = [name for name in instruction.within_inames if loopy_kernel.iname_tags_of_type(name, VectorizeTag)]
    if not tagged or not isinstance(instruction, Assignment) or instruction.atomicity:
        return None
    checker = _checker(kernel, tagged[0])
    try:
        stores_vector, computes_vector = checker(instruction.assignee), checker(instruction.expression)
        for leaf in DependencyMapper(include_subscripts=True)(instruction.expression):
            checker(leaf)  # Loopy does not check all of them and may generate invalid code
    except UnvectorizableError:
        return None
    whole = _is_whole(kernel, frozenset(instruction.within_inames), tagged[0])
    return tagged[0] if whole and (stores_vector or not computes_vector) else None


def _is_whole(kernel: Kernel, inames: frozenset[str], iname: str) -> bool:
    """Return whether the loop over *iname* has its full length at each point of the other loops."""
    slabs = kernel.loopy_kernel.iname_slab_increments.values()
    assert not any(map(any, slabs)), "vectors in some slabs of a loop and members in others are not known"
    points = isl.Set.from_basic_set(kernel.loopy_kernel.get_inames_domain(inames))
    points = points.intersect_params(isl.Set.from_basic_set(kernel.assumptions))
    kind, place = points.get_var_dict()[iname]
    length = int(kernel.loopy_kernel.get_constant_iname_length(iname))
    anywhere = points.project_out(kind, place, 1).insert_dims(kind, place, 1)
    whole = anywhere.lower_bound_val(kind, place, isl.Val(0)).upper_bound_val(kind, place, isl.Val(length - 1))
    return points.is_equal(whole)


def _checker(kernel: Kernel, iname: str) -> VectorizabilityChecker:
    length = kernel.loopy_kernel.get_constant_iname_length(iname)
    return VectorizabilityChecker(kernel.loopy_kernel, iname, int(length))


class Visitor:
    """Visits expressions with the points where they are evaluated; :attr:`happenings` lists what they execute."""

    def __init__(
        self,
        kernel: Kernel,
        executions: Executions,
        inames: frozenset[str],
        vector: str | None,
        share: Fraction | None = None,
    ) -> None:
        self.kernel, self.executions, self.points, self.inames = kernel, executions, executions.points, inames
        self.share = share
        self.is_vector = _checker(kernel, vector) if vector else None
        at_once = {vector: np.zeros(len(self.points), int)} if vector else {}
        self.evaluate = PointwiseEvaluator({**self.points.columns, **at_once})
        self.types = TypeReader(kernel.loopy_kernel, kernel.callables)
        self.writer = Writer(kernel, inames)
        self.happenings: list[Happening] = []
        self.registers: Mapping[str, Any] = {}
        """name -> the expression that replaces it"""

    @property
    def accesses(self) -> list[Access]:
        """Return the accesses of global memory, in order."""
        return [happening.what for happening in self.happenings if isinstance(happening.what, Access)]

    def instruction(self, instruction: Any) -> None:
        """Visit *instruction*, without its predicates."""
        if not isinstance(instruction, MultiAssignmentBase):
            return
        active = self.where(*instruction.predicates)
        for expression, dtype in self.assigned(instruction):
            self.expression(expression, active, self.writer.context(dtype), dtype)
        if isinstance(instruction, CallInstruction) and not self.makes_tuple(instruction):
            self.reduced(instruction.expression, active)
        for assignee in instruction.assignees:
            self.access(assignee, "store", active)
            self.indices(assignee, active)

    def assigned(self, instruction: MultiAssignmentBase) -> Iterator[tuple[Any, LoopyType]]:
        """Yield the assigned expressions, each with the type of its assignee."""
        names = instruction.assignee_var_names()
        types: list[Any] = [self.kernel.loopy_kernel.get_var_descriptor(name).dtype for name in names]
        if isinstance(instruction, Assignment):
            yield instruction.expression, types[0]
        elif self.makes_tuple(instruction):
            yield from zip(instruction.expression.parameters, types, strict=True)

    def makes_tuple(self, instruction: MultiAssignmentBase) -> bool:
        """Return whether *instruction* assigns several expressions, rather than the results of one call."""
        return self.kernel.callables[instruction.expression.function.name].name == "make_tuple"

    # {{{ conditions

    def where(self, *conditions: Any) -> np.ndarray:
        """Return at which points all *conditions* hold, or in which share of executions if they depend on data."""
        return reduce(both, map(self.holds, conditions), np.ones(len(self.points), bool))

    def holds(self, condition: Any) -> np.ndarray:
        """Return at which points *condition* holds, or in which share of executions if it depends on data."""
        condition = self.in_full(condition)
        if get_dependencies(condition) <= self.evaluate.context.keys():
            return np.broadcast_to(self.evaluate(condition), (len(self.points),)).astype(bool)
        if isinstance(condition, prim.LogicalNot):
            return neither(self.holds(condition.child))
        if isinstance(condition, prim.LogicalAnd):
            return self.where(*condition.children)
        if isinstance(condition, prim.LogicalOr):
            return neither(reduce(both, (neither(self.holds(child)) for child in condition.children)))
        assert self.share is not None, f"how often {condition} holds is not said"
        return np.full(len(self.points), float(self.share))

    def junction(self, expr: prim.LogicalAnd | prim.LogicalOr, active: np.ndarray, context: str | None) -> None:
        """Visit each child at the points where the previous ones have not decided the result."""
        for child in expr.children:
            self.expression(child, active, context)
            holds = self.holds(child)
            active = both(active, holds if isinstance(expr, prim.LogicalAnd) else neither(holds))

    # }}}

    # {{{ expressions

    def expression(
        self, expr: Any, active: np.ndarray, context: str | None = None, needed: LoopyType | None = None
    ) -> None:
        """Visit the text of *expr*, in the type context *context*, evaluated at the *active* points."""
        if isinstance(expr, prim.ExpressionNode):
            TextEvaluator(self.writer, self).evaluated(self.writer.text(expr, context, needed), active)

    def loaded(self, expr: Any, active: np.ndarray, tally: Tally) -> Number:
        """Visit an access; return a number of its type, or a vector of such numbers."""
        self.access(expr, "load", active)
        self.indices(expr, active)
        result = number(self.types(expr).numpy_dtype, tally)
        if self.is_vector is None or not self._is_whole(expr):
            return result
        assert isinstance(result, Real), f"vectors of {result} are not known"
        return Vector((result,) * self.is_vector.vec_iname_length)

    def indices(self, expr: Any, active: np.ndarray) -> None:
        """Visit the indices of an access."""
        for index in _index_tuple(expr):
            self.expression(index, active, "i")

    def reduced(self, expr: prim.Call, active: np.ndarray) -> None:
        """Visit one step of a reduction with several results."""
        callee = self.kernel.callables[expr.function.name]
        types = callee.arg_id_to_dtype
        for place, parameter in enumerate(expr.parameters):
            self.expression(parameter, active, self.writer.context(types[place]), types[place])
        if "Segment" in str(callee.name):
            ((_, code),) = callee.generate_preambles(self.kernel.loopy_kernel.target)
            self.did("add", types[-1].numpy_dtype, code.count(" + "), active)
            self.did("mul", types[-1].numpy_dtype, code.count(" * "), active)

    def did(self, kind: str, dtype: np.dtype[Any], times: int, active: np.ndarray) -> None:
        """Record operations at the *active* points; operations on integers are not counted."""
        if times and dtype.kind == "f":
            self.happenings.append(Happening(f"f{8 * dtype.itemsize} {kind}", times, active))

    # }}}

    # {{{ accesses

    def access(self, expr: Any, direction: str, active: np.ndarray) -> None:
        name = expr.name if isinstance(expr, prim.Variable) else expr.aggregate.name
        array = self.kernel.arrays.get(name)
        if array is None:
            return
        bits = 8 * (self._vector_type(array).itemsize if self._is_whole(expr) else array.dtype.itemsize)
        if array.address_space == AddressSpace.LOCAL:
            self.happenings.append(Happening(f"local {direction} {bits}-bit", 1, active))
            return
        expr = self.in_full(expr)
        zero = np.zeros(len(self.points), int)
        lanes = self.lanes(expr, array)
        axes = [zero, *(axis + zero for axis in self.addresses(expr, array, {}))]
        if isinstance(lanes, Lanes) and len(lanes.steps) < len(axes):  # a step in memory, not along an axis
            axes = [zero, sum(axes)]
        found = Access(direction, name, bits, np.array(axes)[:, active > 0], lanes)
        self.happenings.append(Happening(found, 1, active))

    def in_full(self, expr: Any) -> Any:
        """Return *expr* with registers replaced by their values."""
        return substitute(expr, dict(self.registers)) if get_dependencies(expr) & self.registers.keys() else expr

    def _is_whole(self, expr: Any) -> bool:
        """Return whether *expr* is a vector over the vectorized loop."""
        try:
            return self.is_vector is not None and self.is_vector(expr)
        except UnvectorizableError:  # a function call, to which the generated code passes a vector anyway
            return True

    def _vector_type(self, array: Any) -> np.dtype[Any]:
        (axis,) = [place for place, tag in enumerate(array.dim_tags) if isinstance(tag, VectorArrayDimTag)]
        return self.kernel.loopy_kernel.target.vector_dtype(array.dtype, int(array.shape[axis])).numpy_dtype

    def strides(self, expr: Any, array: Any) -> list[Any]:
        """Return the stride in memory of each index of *expr*, in accessed elements or vectors."""
        if isinstance(expr, LinearSubscript) or array.dim_tags is None:
            return [1] * len(_index_tuple(expr))
        members = self.is_vector.vec_iname_length if self._is_whole(expr) else 1
        return [_stride(tag) // members for tag in array.dim_tags]

    def addresses(self, expr: Any, array: Any, moved: Mapping[str, Any]) -> list[np.ndarray]:
        """Return the contribution of each axis to the address at each point, with some inames replaced by *moved*."""
        evaluator = PointwiseEvaluator({**self.evaluate.context, **moved})
        axes = zip(_index_tuple(expr), self.strides(expr, array), strict=True)
        return [np.asarray(evaluator(index)) * evaluator(stride) for index, stride in axes]

    def lanes(self, expr: Any, array: Any) -> Lanes | UnevenLanes:
        """Return how the address of *expr* changes along ``l.0``."""
        (lane,) = self.kernel.lane_inames(self.inames) or (None,)
        if lane is None or all(is_even(index, lane, self.inames) for index in _index_tuple(expr)):
            return self.even_lanes(expr, array)
        step = self.step_in_memory(expr, array, lane)
        if step is None:
            return UnevenLanes(tuple(self.passes(expr, array, lane)))
        return Lanes(abs(step), (0, step), 1, abs(step))

    def step_in_memory(self, expr: Any, array: Any, lane: str) -> int | None:
        """Return the distance of each lane from the previous one, in elements; None if it is not constant."""
        if len(self.points) < 2:
            return None
        zero = np.zeros(len(self.points), int)
        moved = {lane: self.points.columns[lane] + 1}
        here, there = (sum(self.addresses(expr, array, where), zero) for where in ({}, moved))
        columns = [self.points.columns[name] - self.points.columns[name].min() for name in sorted(self.inames)]
        lengths = [int(column.max()) + 2 for column in columns]
        places = np.ravel_multi_index(columns, lengths)
        to_neighbour = np.ravel_multi_index([int(name == lane) for name in sorted(self.inames)], lengths)
        has_neighbour = np.isin(places + to_neighbour, places)
        steps = set((there - here)[has_neighbour if has_neighbour.any() else slice(None)].tolist())
        return steps.pop() if len(steps) == 1 else None

    def passes(self, expr: Any, array: Any, lane: str) -> Iterator[np.ndarray]:
        """Yield the addresses of the first lanes in consecutive iterations of the other loops.

        Excluded lanes between others still count as neighbors, as for equally spaced lanes.
        """
        columns = self.points.columns
        chosen = [self._rows_of_iteration(lane, number) for number in ITERATIONS] if len(self.points) > 1 else []
        for together in {tuple(rows.tolist()): rows for rows in chosen}.values():
            first, last = columns[lane][together].min(), columns[lane][together].max()
            lanes = np.arange(first, last + 1)[:LANES]
            here = {name: np.full(len(lanes), column[together[0]]) for name, column in columns.items()}
            yield sum(self.addresses(expr, array, {**here, lane: lanes}), np.zeros(len(lanes), int))

    def _rows_of_iteration(self, lane: str, number: int) -> np.ndarray:
        """Return the points of iteration *number* from the middle of each loop, or of the last one before."""
        rows = np.arange(len(self.points))
        for name, column in self.points.columns.items():
            if name in self.inames - {lane}:
                there = column[rows]
                first, last = int(there.min()), int(there.max())
                middle, length = (last - first) // 2, last - first + 1
                rows = rows[there == there[there <= first + (middle + number) % length].max()]
        return rows

    def even_lanes(self, expr: Any, array: Any) -> Lanes:
        """Return how *expr* moves along ``l.0`` at the first point; assert that all other points agree."""
        moved = {lane: self.points.columns[lane] + 1 for lane in self.kernel.lane_inames(self.inames)}
        both = zip(self.addresses(expr, array, moved), self.addresses(expr, array, {}), strict=True)
        zero = np.zeros(len(self.points), int)
        steps = [there - here + zero for there, here in both]
        assert self.points.agree(sum(steps, zero)), f"{expr}: no single lane stride"
        if not len(self.points):
            return Lanes(0, (), 1, 0)
        block, row = max(
            (
                (abs(int(step[0])), abs(int(np.ravel(self.evaluate(stride))[0])))
                for step, stride in zip(steps, self.strides(expr, array), strict=True)
            ),
            default=(0, 1),
        )
        signed = tuple(int(step[0]) for step in steps)
        return Lanes(abs(sum(signed)), (0, *signed), row, block)

    # }}}


def _stride(tag: Any) -> Any:
    if isinstance(tag, FixedStrideArrayDimTag):
        return tag.stride
    assert isinstance(tag, (VectorArrayDimTag, SeparateArrayArrayDimTag)), f"this layout is not known: {tag}"
    return 1 if isinstance(tag, VectorArrayDimTag) else FAR


def _index_tuple(expr: Any) -> list[Any]:
    return [expr.index] if isinstance(expr, LinearSubscript) else list(getattr(expr, "index_tuple", ()))
