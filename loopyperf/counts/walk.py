"""One walk over an instruction: every operation and memory reference, with the conditions under which it runs."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, cast

import pymbolic.primitives as prim
from loopy.diagnostic import LoopyError
from loopy.kernel.function_interface import InKernelCallable
from loopy.kernel.instruction import (
    Assignment,
    BarrierInstruction,
    CallInstruction,
    InstructionBase,
    MultiAssignmentBase,
    NoOpInstruction,
)
from loopy.library.function import IndexOfCallable, MakeTupleCallable
from loopy.library.reduction import ArgExtOpCallable, SegmentOpCallable
from loopy.symbolic import LinearSubscript, ResolvedFunction, get_dependencies
from pymbolic.mapper import Mapper, UnsupportedExpressionError

from loopyperf.counts.arithmetic import function_operations, operations
from loopyperf.counts.conditions import Conditions, all_of, alternatives
from loopyperf.counts.expression_types import ExpressionTypes
from loopyperf.counts.guards import Guard
from loopyperf.counts.item import Direction, Item, Kind, Operation
from loopyperf.counts.memory import Reference, linear_reference, reference
from loopyperf.counts.number_type import NumberType, number_type
from loopyperf.counts.typical import Typical
from loopyperf.counts.vectors import VectorLoop, vector_loop
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel

Event = Item | Reference
Events = dict[tuple[Conditions, Event, str | None], int | Fraction]
"""with the loop that is run all at once, if each happens once for all of its passes, and how often in one execution"""


class InstructionWalker(Mapper[None, [Conditions]]):
    """Walks instructions of one kernel; an unknown construct is refused by name."""

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        """Walk instructions of *kernel*; *typical* tells what foreign code costs, and whatever else has no count."""
        super().__init__()
        self.kernel = kernel
        self.typical = typical
        self.assumed: dict[str, None] = {}
        """sentences, in the order in which they were needed"""
        self._types = ExpressionTypes(kernel)
        self._events: Events = {}
        self._vector: VectorLoop | None = None

    # {{{ instructions

    def events(self, instruction: InstructionBase) -> Events:
        """Return how many operations and memory references one execution of *instruction* has.

        What its predicates do is not among them. Raises :class:`UncountableError` naming the construct.
        """
        return self._recorded(instruction, self._visit, instruction)

    def events_of_guard(self, guard: Guard) -> Events:
        """Return what one evaluation of a predicate does, under the conditions around it; see :meth:`events`."""
        return self._recorded(guard.instruction, self._visit_guard, guard)

    def _recorded(self, instruction: InstructionBase, visit: Callable[..., None], *arguments: Any) -> Events:
        self._events = {}
        self._vector = vector_loop(self.kernel, instruction)
        try:
            visit(*arguments)
        except (LoopyError, NotImplementedError, UnsupportedExpressionError) as error:  # of Loopy's type inference
            raise UncountableError(f"Loopy cannot tell its types ({type(error).__name__}: {error})") from error
        return self._events

    def _visit(self, instruction: InstructionBase) -> None:
        if isinstance(instruction, (NoOpInstruction, BarrierInstruction)):
            return
        for conditions in all_of(sorted(instruction.predicates, key=str), self._is_known):
            if isinstance(instruction, MultiAssignmentBase):
                self._visit_assignment(instruction, conditions)
            else:
                construct = f"no count for a {type(instruction).__name__}, whose text Loopy does not read"
                self._record_cost(instruction.id, construct, conditions)

    def _visit_guard(self, guard: Guard) -> None:
        for conditions in all_of(guard.before, self._is_known):
            self.rec(guard.predicate, conditions)

    def _visit_assignment(self, instruction: MultiAssignmentBase, conditions: Conditions) -> None:
        if isinstance(instruction, Assignment) and instruction.atomicity:
            names = ", ".join(sorted(instruction.assignee_var_names()))
            self.assumed[f"atomic updates of {names} are counted without what it costs when work-items collide"] = None
        self.rec(instruction.expression, conditions)
        for assignee in instruction.assignees:
            self._assign(assignee, conditions, isinstance(instruction, CallInstruction))

    def _assign(self, assignee: Any, conditions: Conditions, by_call: bool) -> None:
        match assignee:
            case prim.Variable():
                self._refer(assignee.name, (), "store", conditions)
            case prim.Subscript(aggregate=prim.Variable(name=name)):
                self._refer(name, assignee.index_tuple, "store", conditions)
                self._rec_all(assignee.index_tuple, conditions)
            case LinearSubscript(aggregate=prim.Variable(name=name)):
                self._record(linear_reference(self.kernel, name, assignee.index, "store"), conditions)
                self.rec(assignee.index, conditions)
            case prim.Lookup():
                self.rec(assignee, conditions)
            case _:
                construct = "sub-array reference" if by_call else type(assignee).__name__
                raise UncountableError(f"no count for an assignment to a {construct}: {assignee}")

    # }}}

    # {{{ recording

    def _record(
        self, event: Event | None, conditions: Conditions, number: int | Fraction = 1, at_once: bool = False
    ) -> None:
        """Record *event*; *at_once* tells whether it happens once for all members of a vector, if there are any."""
        if event is not None:
            key = conditions, event, self._vector.iname if at_once and self._vector else None
            self._events[key] = self._events.get(key, 0) + number

    def _is_scalar(self, expression: Any) -> bool:
        return self._vector is not None and not self._vector.is_vector(expression)

    def _record_cost(self, name: str, construct: str, conditions: Conditions) -> None:
        for item, number in self.typical.cost(name, construct).items():
            self._record(item, conditions, number)

    @contextmanager
    def _stated_otherwise(self, construct: Any, conditions: Conditions) -> Generator[None]:
        """Take what is stated for *construct* where there is no count for it; raises :class:`UncountableError`."""
        try:
            yield
        except UncountableError as refusal:
            self._record_cost(str(construct), str(refusal), conditions)

    def _refer(self, name: str, index: tuple[Any, ...], direction: Direction, conditions: Conditions) -> None:
        vector = self._vector.iname if self._vector else None
        with self._stated_otherwise(name, conditions):
            self._record(reference(self.kernel, name, index, direction, vector), conditions, at_once=True)

    def _rec_all(self, expressions: Sequence[Any], conditions: Conditions) -> None:
        for expression in expressions:
            self.rec(expression, conditions)

    def _is_known(self, expression: Any) -> bool:
        return get_dependencies(expression) <= self.kernel.parameters | self.kernel.loopy_kernel.all_inames()

    # }}}

    # {{{ leaves

    def map_constant(self, expr: Any, conditions: Conditions) -> None:
        """A literal costs nothing."""

    map_nan = map_constant
    map_literal = map_constant

    def map_variable(self, expr: prim.Variable, conditions: Conditions) -> None:
        self._refer(expr.name, (), "load", conditions)

    map_tagged_variable = map_variable

    def map_subscript(self, expr: prim.Subscript, conditions: Conditions) -> None:
        if not isinstance(expr.aggregate, prim.Variable):
            raise UncountableError(f"no count for a subscript of {type(expr.aggregate).__name__}: {expr}")
        self._refer(expr.aggregate.name, expr.index_tuple, "load", conditions)
        self._rec_all(expr.index_tuple, conditions)

    def map_linear_subscript(self, expr: LinearSubscript, conditions: Conditions) -> None:
        if not isinstance(expr.aggregate, prim.Variable):
            raise UncountableError(f"no count for a subscript of {type(expr.aggregate).__name__}: {expr}")
        self._record(linear_reference(self.kernel, expr.aggregate.name, expr.index, "load"), conditions)
        self.rec(expr.index, conditions)

    # }}}

    # {{{ operations

    def _operate(self, expr: Any, children: Sequence[Any], conditions: Conditions, result: NumberType) -> None:
        with self._stated_otherwise(expr, conditions):
            for operation, number in operations(expr, result, self._types.number):
                self._record(operation, conditions, number, at_once=self._is_scalar(expr))
        self._rec_all(children, conditions)

    def map_sum(self, expr: Any, conditions: Conditions) -> None:
        self._operate(expr, expr.children, conditions, self._types.number(expr))

    map_product = map_sum
    map_min = map_sum
    map_max = map_sum
    map_bitwise_and = map_sum
    map_bitwise_or = map_sum
    map_bitwise_xor = map_sum

    def map_quotient(self, expr: Any, conditions: Conditions) -> None:
        self._operate(expr, (expr.numerator, expr.denominator), conditions, self._types.number(expr))

    map_floor_div = map_quotient
    map_remainder = map_quotient

    def map_power(self, expr: prim.Power, conditions: Conditions) -> None:
        self._operate(expr, (expr.base, expr.exponent), conditions, self._types.number(expr))

    def map_comparison(self, expr: prim.Comparison, conditions: Conditions) -> None:
        self._operate(expr, (expr.left, expr.right), conditions, self._types.combined(expr.left, expr.right))

    def map_logical_and(self, expr: prim.LogicalAnd | prim.LogicalOr, conditions: Conditions) -> None:
        """A child is evaluated where those before it have not decided."""
        self._operate(expr, (), conditions, self._truth)
        decisive = isinstance(expr, prim.LogicalOr)
        for place, child in enumerate(expr.children):
            for undecided in all_of(expr.children[:place], self._is_known, not decisive):
                self.rec(child, conditions | undecided)

    map_logical_or = map_logical_and

    @property
    def _truth(self) -> NumberType:
        return number_type(self.kernel.loopy_kernel.index_dtype)

    def map_logical_not(self, expr: prim.LogicalNot, conditions: Conditions) -> None:
        self._operate(expr, (expr.child,), conditions, self._truth)

    def map_bitwise_not(self, expr: prim.BitwiseNot, conditions: Conditions) -> None:
        self._operate(expr, (expr.child,), conditions, self._types.number(expr))

    def map_left_shift(self, expr: Any, conditions: Conditions) -> None:
        self._operate(expr, (expr.shiftee, expr.shift), conditions, self._types.number(expr.shiftee))

    map_right_shift = map_left_shift

    def map_type_cast(self, expr: Any, conditions: Conditions) -> None:
        """A conversion is free, as in the paper."""
        self.rec(expr.child, conditions)

    map_type_annotation = map_type_cast

    def map_if(self, expr: prim.If, conditions: Conditions) -> None:
        self.rec(expr.condition, conditions)
        for side, holds in ((expr.then, True), (expr.else_, False)):
            for chosen in alternatives(expr.condition, self._is_known, holds):
                self.rec(side, conditions | chosen)

    # }}}

    # {{{ calls

    def map_call(self, expr: prim.Call, conditions: Conditions) -> None:
        if not isinstance(expr.function, ResolvedFunction):
            construct = f"no count for a call of {expr.function}, which Loopy has not resolved"
            self._record_cost(str(expr.function), construct, conditions)
            return self._rec_all(expr.parameters, conditions)
        callee = self.kernel.callables[expr.function.name]
        if isinstance(callee, IndexOfCallable):
            element = cast("prim.Subscript", expr.parameters[0])
            return self._rec_all(element.index_tuple, conditions)
        if not isinstance(callee, MakeTupleCallable):
            self._call(callee, expr, conditions)
        return self._rec_all(expr.parameters, conditions)

    def _call(self, callee: InKernelCallable, expr: prim.Call, conditions: Conditions) -> None:
        types = callee.arg_id_to_dtype or {}
        results = [number_type(types[key]) for key in sorted(types) if isinstance(key, int) and key < 0]
        if isinstance(callee, (ArgExtOpCallable, SegmentOpCallable)):
            self._record(Operation(combining(callee), results[-1].scalar), conditions)
        elif len(results) != 1:
            construct = f"no count for {callee.name}, a function of {len(results)} results"
            self._record_cost(str(callee.name), construct, conditions)
        else:
            argument = self._types.number(expr.parameters[0]) if expr.parameters else results[0]
            with self._stated_otherwise(callee.name, conditions):
                for operation, number in function_operations(str(callee.name), results[0], argument):
                    self._record(operation, conditions, number, at_once=self._is_scalar(expr))

    # }}}

    def map_lookup(self, expr: prim.Lookup, conditions: Conditions) -> None:
        self._record_cost(str(expr), f"no count for {expr}, a member of a structure", conditions)

    def handle_unsupported_expression(self, expr: Any, conditions: Conditions) -> None:
        self._record_cost(str(expr), f"no count for {expr}, a {type(expr).__name__}", conditions)

    def map_foreign(self, expr: Any, conditions: Conditions) -> None:
        if not prim.is_constant(expr):
            raise UncountableError(f"no count for {type(expr).__name__} in an expression: {expr}")


def combining(callee: ArgExtOpCallable | SegmentOpCallable) -> Kind:
    """Return the kind of operation that combines two values in a reduction to a value and an index or a flag."""
    if isinstance(callee, ArgExtOpCallable):
        return "min/max"
    reduction: Any = callee.name
    return "mul" if "*" in reduction.reduction_op.op else "add"
