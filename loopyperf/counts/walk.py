"""One walk over an instruction: every operation and memory reference, with the conditions under which it runs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pymbolic.primitives as prim
from loopy.diagnostic import LoopyError
from loopy.kernel.function_interface import CallableKernel, InKernelCallable
from loopy.kernel.instruction import (
    Assignment,
    BarrierInstruction,
    CallInstruction,
    InstructionBase,
    MultiAssignmentBase,
    NoOpInstruction,
)
from loopy.library.function import MakeTupleCallable
from loopy.library.reduction import ArgExtOpCallable
from loopy.symbolic import ResolvedFunction
from loopy.type_inference import TypeReader
from loopy.types import LoopyType
from pymbolic.mapper import Mapper, UnsupportedExpressionError

from loopyperf.counts.arithmetic import (
    COMPLEX_PARTS,
    Operation,
    dtype_name,
    function_operation,
    operations,
)
from loopyperf.counts.execution import Condition, Conditions
from loopyperf.counts.memory import Direction, Reference, reference
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel

Event = Operation | Reference
Events = Counter[tuple[Conditions, Event]]
ALWAYS: Conditions = frozenset()


class _TypeMemory(TypeReader):
    """Loopy's type reader, each node of an instruction read once.

    Nodes are told apart by identity: ``numpy.float32(1)`` equals ``numpy.float64(1)`` in Python.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel.loopy_kernel, kernel.callables)
        self._known: dict[tuple[int, bool], Any] = {}
        self._alive: list[Any] = []

    def rec(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        key = (id(expr), bool(kwargs.get("return_tuple", False)))
        if key not in self._known:
            self._known[key] = super().rec(expr, *args, **kwargs)
            self._alive.append(expr)
        return self._known[key]

    def combined(self, *expressions: Any) -> LoopyType:
        """Return the type in which *expressions* are compared."""
        return self(prim.Sum(expressions))


class InstructionWalker(Mapper[None, [Conditions]]):
    """Walks instructions of one kernel; an unknown construct is refused by name."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self._types = _TypeMemory(kernel)
        self._events: Events = Counter()

    def events(self, instruction: InstructionBase) -> Events:
        """Return how many operations and memory references one execution of *instruction* has.

        Raises :class:`UncountableError` naming the instruction and the construct.
        """
        self._events = Counter()
        try:
            self._visit(instruction)
        except UncountableError as error:
            raise UncountableError(f"instruction {instruction.id!r}: {error}") from error
        except (LoopyError, NotImplementedError, UnsupportedExpressionError) as error:  # of Loopy's type inference
            raise UncountableError(f"instruction {instruction.id!r}: {type(error).__name__}: {error}") from error
        return self._events

    def _visit(self, instruction: InstructionBase) -> None:
        if isinstance(instruction, (NoOpInstruction, BarrierInstruction)):
            return
        if not isinstance(instruction, MultiAssignmentBase):
            raise UncountableError(f"no count for a {type(instruction).__name__}, whose text Loopy does not read")
        if isinstance(instruction, Assignment) and instruction.atomicity:
            raise UncountableError("no count for an atomic update")
        conditions = frozenset(Condition(predicate) for predicate in instruction.predicates)
        for predicate in instruction.predicates:
            self.rec(predicate, ALWAYS)
        self.rec(instruction.expression, conditions)
        for assignee in instruction.assignees:
            self._assign(assignee, conditions, isinstance(instruction, CallInstruction))

    def _assign(self, assignee: Any, conditions: Conditions, by_call: bool) -> None:
        match assignee:
            case prim.Variable():
                self._refer(assignee.name, None, "store", conditions)
            case prim.Subscript(aggregate=prim.Variable(name=name)):
                self._refer(name, assignee.index_tuple, "store", conditions)
                self._rec_all(assignee.index_tuple, conditions)
            case _:
                construct = "sub-array reference" if by_call else type(assignee).__name__
                raise UncountableError(f"no count for an assignment to a {construct}: {assignee}")

    # {{{ recording

    def _record(self, event: Event, conditions: Conditions, number: int = 1) -> None:
        self._events[conditions, event] += number

    def _refer(self, name: str, index: tuple[Any, ...] | None, direction: Direction, conditions: Conditions) -> None:
        array = self.kernel.array(name)
        if array is not None:
            self._record(reference(array, name, index, direction), conditions)

    def _dtype(self, expression: Any) -> LoopyType:
        return self._types(expression)

    def _rec_all(self, expressions: Sequence[Any], conditions: Conditions) -> None:
        for expression in expressions:
            self.rec(expression, conditions)

    # }}}

    # {{{ leaves

    def map_constant(self, expr: Any, conditions: Conditions) -> None:
        """A literal costs nothing."""

    map_nan = map_constant
    map_literal = map_constant

    def map_variable(self, expr: prim.Variable, conditions: Conditions) -> None:
        self._refer(expr.name, None, "load", conditions)

    map_tagged_variable = map_variable

    def map_subscript(self, expr: prim.Subscript, conditions: Conditions) -> None:
        if not isinstance(expr.aggregate, prim.Variable):
            raise UncountableError(f"no count for a subscript of {type(expr.aggregate).__name__}: {expr}")
        self._refer(expr.aggregate.name, expr.index_tuple, "load", conditions)
        self._rec_all(expr.index_tuple, conditions)

    # }}}

    # {{{ operations

    def _operate(self, expr: Any, children: Sequence[Any], conditions: Conditions, dtype: LoopyType) -> None:
        for operation, number in operations(expr, dtype):
            self._record(operation, conditions, number)
        self._rec_all(children, conditions)

    def map_sum(self, expr: Any, conditions: Conditions) -> None:
        self._operate(expr, expr.children, conditions, self._dtype(expr))

    map_product = map_sum
    map_min = map_sum
    map_max = map_sum
    map_bitwise_and = map_sum
    map_bitwise_or = map_sum
    map_bitwise_xor = map_sum

    def map_quotient(self, expr: Any, conditions: Conditions) -> None:
        self._operate(expr, (expr.numerator, expr.denominator), conditions, self._dtype(expr))

    map_floor_div = map_quotient
    map_remainder = map_quotient

    def map_power(self, expr: prim.Power, conditions: Conditions) -> None:
        self._operate(expr, (expr.base, expr.exponent), conditions, self._dtype(expr))

    def map_comparison(self, expr: prim.Comparison, conditions: Conditions) -> None:
        self._operate(expr, (expr.left, expr.right), conditions, self._types.combined(expr.left, expr.right))

    def map_logical_and(self, expr: Any, conditions: Conditions) -> None:
        self._operate(expr, expr.children, conditions, self.kernel.loopy_kernel.index_dtype)

    map_logical_or = map_logical_and

    def map_logical_not(self, expr: prim.LogicalNot, conditions: Conditions) -> None:
        self._operate(expr, (expr.child,), conditions, self.kernel.loopy_kernel.index_dtype)

    def map_bitwise_not(self, expr: prim.BitwiseNot, conditions: Conditions) -> None:
        self._operate(expr, (expr.child,), conditions, self._dtype(expr))

    def map_left_shift(self, expr: Any, conditions: Conditions) -> None:
        self._operate(expr, (expr.shiftee, expr.shift), conditions, self._dtype(expr.shiftee))

    map_right_shift = map_left_shift

    def map_type_cast(self, expr: Any, conditions: Conditions) -> None:
        """A conversion is free, as in the paper."""
        self.rec(expr.child, conditions)

    map_type_annotation = map_type_cast

    def map_call(self, expr: prim.Call, conditions: Conditions) -> None:
        if not isinstance(expr.function, ResolvedFunction):
            raise UncountableError(f"no count for a call of {expr.function}, which Loopy has not resolved")
        callee = self.kernel.callables[expr.function.name]
        if isinstance(callee, CallableKernel):
            raise UncountableError(f"no count for a call of the kernel {expr.function.name!r}")
        operation = self._function(callee, expr)
        if operation is not None:
            self._record(operation, conditions)
        self._rec_all(expr.parameters, conditions)

    def _function(self, callee: InKernelCallable, expr: prim.Call) -> Operation | None:
        if isinstance(callee, MakeTupleCallable):
            return None
        if isinstance(callee, ArgExtOpCallable):
            return function_operation("max", self._dtype(expr))
        results = [key for key in callee.arg_id_to_dtype or () if isinstance(key, int) and key < 0]
        if len(results) != 1:
            raise UncountableError(f"no count for {callee.name}, a function of {len(results)} results")
        for parameter in expr.parameters if callee.name not in COMPLEX_PARTS else ():
            dtype_name(self._dtype(parameter))
        return function_operation(callee.name, self._dtype(expr))

    def map_if(self, expr: prim.If, conditions: Conditions) -> None:
        self.rec(expr.condition, conditions)
        self.rec(expr.then, conditions | {Condition(expr.condition, holds=True)})
        self.rec(expr.else_, conditions | {Condition(expr.condition, holds=False)})

    # }}}

    def handle_unsupported_expression(self, expr: Any, conditions: Conditions) -> None:
        raise UncountableError(f"no count for {type(expr).__name__} in {expr}")

    def map_foreign(self, expr: Any, conditions: Conditions) -> None:
        if not prim.is_constant(expr):
            raise UncountableError(f"no count for {type(expr).__name__} in an expression: {expr}")
