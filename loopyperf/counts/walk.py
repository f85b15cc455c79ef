"""Walk over an instruction: all operations and memory references, with the conditions under which they execute."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, cast

import pymbolic.primitives as prim
from loopy.diagnostic import LoopyError
from loopy.kernel.function_interface import InKernelCallable
from loopy.kernel.instruction import (
    BarrierInstruction,
    CInstruction,
    InstructionBase,
    MultiAssignmentBase,
    NoOpInstruction,
)
from loopy.library.function import IndexOfCallable
from loopy.library.reduction import ArgExtOpCallable, SegmentOpCallable
from loopy.symbolic import LinearSubscript, ResolvedFunction, SubArrayRef
from pymbolic.mapper import UnsupportedExpressionError

from loopyperf.counts.arithmetic import (
    INDEX,
    Context,
    Link,
    OperationMapper,
    function_operations,
    link_operations,
    number_type,
)
from loopyperf.counts.atomic_updates import on_collisions
from loopyperf.counts.conditions import Conditions, Guard, disjoint_conditions
from loopyperf.counts.generated_code import GeneratedCode
from loopyperf.counts.item import Direction, Item, Kind, Operation
from loopyperf.counts.loops import VectorLoop, vector_loop
from loopyperf.counts.memory_accesses import Reference, linear_reference, reference
from loopyperf.counts.selects import Selects
from loopyperf.counts.sizes import Typical
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Assumption

Event = Item | Reference
Events = dict[tuple[Conditions, Event, str | None], int | Fraction]
"""(conditions, event, loop executed at once as a vector or None) -> number per execution of the instruction"""


class InstructionWalker(OperationMapper[None, [Conditions, Context]]):
    """Collects operations and references in instructions of one kernel; raises for an unknown construct."""

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        """Walk instructions of *kernel*; *typical* has costs of foreign code and other constructs without a count."""
        super().__init__()
        self.kernel = kernel
        self.typical = typical
        self.assumed: dict[Assumption, None] = {}
        """assumptions in the order in which they were made"""
        self._code = GeneratedCode(kernel)
        self._selects = Selects(kernel, typical)
        self._instruction = ""
        self._events: Events = {}
        self._vector: VectorLoop | None = None

    # {{{ instructions

    def events(self, instruction: InstructionBase) -> Events:
        """Return the number of each operation and memory reference in one execution of *instruction*.

        Its predicates are not included. Raises :class:`UncountableError` naming the construct.
        """
        return self._recorded(instruction, self._visit, instruction)

    def events_of_guard(self, guard: Guard) -> Events:
        """Return the events in one evaluation of a predicate, under the conditions around it; see :meth:`events`."""
        return self._recorded(guard.instruction, self._visit_guard, guard)

    def _recorded(self, instruction: InstructionBase, visit: Callable[..., None], *arguments: Any) -> Events:
        self._events = {}
        self._instruction = str(instruction.id)
        self._vector = vector_loop(self.kernel, instruction)
        try:
            visit(*arguments)
        except (LoopyError, NotImplementedError, UnsupportedExpressionError) as error:  # from type inference
            raise UncountableError(f"Loopy cannot infer its types ({type(error).__name__}: {error})") from error
        return self._events

    def _visit(self, instruction: InstructionBase) -> None:
        if isinstance(instruction, BarrierInstruction) or does_nothing(instruction):
            return
        for conditions in disjoint_conditions(sorted(instruction.predicates, key=str), self.kernel.is_known):
            if foreign := foreign_code(self.kernel, instruction):
                self._record_cost(*foreign, conditions)
            else:
                self._visit_assignment(cast("MultiAssignmentBase", instruction), conditions)

    def _visit_guard(self, guard: Guard) -> None:
        for conditions in disjoint_conditions(guard.before, self.kernel.is_known):
            self._selects.begin(guard.predicate)
            self.rec(guard.predicate, conditions, None)

    def _visit_assignment(self, instruction: MultiAssignmentBase, conditions: Conditions) -> None:
        for assumption in on_collisions(instruction):
            self.typical.distinct(assumption.name)  # device models use it
            self.assumed[assumption] = None
        for expression, context in self._code.evaluated(instruction):
            self._selects.begin(expression)
            self.rec(expression, conditions, context)
        for assignee in instruction.assignees:
            self._assign(assignee, conditions)

    def _assign(self, assignee: Any, conditions: Conditions) -> None:
        match assignee:
            case prim.Variable():
                self._refer(assignee.name, (), "store", conditions)
            case prim.Subscript(aggregate=prim.Variable(name=name)):
                self._refer(name, assignee.index_tuple, "store", conditions)
                self._rec_indices(assignee.index_tuple, conditions)
            case LinearSubscript(aggregate=prim.Variable(name=name)):
                self._record(linear_reference(self.kernel, name, assignee.index, "store"), conditions)
                self._rec_indices((assignee.index,), conditions)
            case prim.Lookup():
                self.rec(assignee, conditions, None)
            case _:
                raise UncountableError(f"no count for an assignment to a {type(assignee).__name__}: {assignee}")

    # }}}

    # {{{ recording

    def _record(
        self, event: Event | None, conditions: Conditions, number: int | Fraction = 1, at_once: bool = False
    ) -> None:
        """Record *event*; *at_once* tells whether it executes once for all elements of a vector, if there is one."""
        if event is not None:
            key = conditions, event, self._vector.iname if at_once and self._vector else None
            self._events[key] = self._events.get(key, 0) + number

    def _is_scalar(self, expression: Any) -> bool:
        return self._vector is not None and not self._vector.is_vector(expression)

    def _record_cost(self, name: str, construct: str, conditions: Conditions) -> None:
        for item, number in self.typical.cost(name, construct).items():
            self._record(item, conditions, number)

    def _refer(self, name: str, index: tuple[Any, ...], direction: Direction, conditions: Conditions) -> None:
        vector = self._vector.iname if self._vector else None
        try:
            self._record(reference(self.kernel, name, index, direction, vector), conditions, at_once=True)
        except UncountableError as refusal:
            self._record_cost(name, str(refusal), conditions)

    def _rec_indices(self, indices: Sequence[Any], conditions: Conditions) -> None:
        for index in indices:
            self.rec(index, conditions, INDEX)

    # }}}

    # {{{ leaves

    def map_constant(self, expr: Any, conditions: Conditions, context: Context) -> None:
        """A literal is free."""

    map_nan = map_constant
    map_literal = map_constant

    map_local_hw_index = map_constant
    map_group_hw_index = map_constant

    def map_variable(self, expr: prim.Variable, conditions: Conditions, context: Context) -> None:
        written = self._code.stands_for(expr.name, context)
        if written is None:
            self._refer(expr.name, (), "load", conditions)
        else:
            self.rec(written, conditions, context)

    map_tagged_variable = map_variable

    def map_subscript(self, expr: prim.Subscript, conditions: Conditions, context: Context) -> None:
        if not isinstance(expr.aggregate, prim.Variable):
            raise UncountableError(f"no count for a subscript of {type(expr.aggregate).__name__}: {expr}")
        if expr not in self._selects.again:
            self._refer(expr.aggregate.name, expr.index_tuple, "load", conditions)
        self._rec_indices(expr.index_tuple, conditions)

    def map_linear_subscript(self, expr: LinearSubscript, conditions: Conditions, context: Context) -> None:
        if not isinstance(expr.aggregate, prim.Variable):
            raise UncountableError(f"no count for a subscript of {type(expr.aggregate).__name__}: {expr}")
        self._record(linear_reference(self.kernel, expr.aggregate.name, expr.index, "load"), conditions)
        self._rec_indices((expr.index,), conditions)

    # }}}

    # {{{ operations

    def map_operation(self, expr: Any, conditions: Conditions, context: Context) -> None:
        links = self._code.chain(expr, context).links
        self._record_operations(expr, links, conditions)
        for link in links:
            if link.operand is not None:
                self.rec(link.operand, conditions, link.context)

    def _record_operations(self, expr: Any, links: Sequence[Link], conditions: Conditions) -> None:
        is_scalar = self._vector is not None
        try:
            for link in links:
                is_scalar = is_scalar and (link.operand is None or self._is_scalar(link.operand))
                for operation, number in link_operations(link, expr):
                    self._record(operation, conditions, number, at_once=is_scalar)
        except UncountableError as refusal:
            self._record_cost(str(expr), str(refusal), conditions)

    def map_logical_and(self, expr: prim.LogicalAnd | prim.LogicalOr, conditions: Conditions, context: Context) -> None:
        """A child is evaluated only if the children before it have not determined the result, or if it is cheap."""
        self._record_operations(expr, self._code.chain(expr, context).links, conditions)
        for child, ways in self._selects.operands(expr, self._instruction):
            for undecided in ways:
                self.rec(child, conditions | undecided, context)

    map_logical_or = map_logical_and

    def map_type_cast(self, expr: Any, conditions: Conditions, context: Context) -> None:
        """A conversion is free, as in the paper."""
        self.rec(expr.child, conditions, context)

    map_type_annotation = map_type_cast

    def map_if(self, expr: prim.If, conditions: Conditions, context: Context) -> None:
        self.rec(expr.condition, conditions, context)
        for side, chosen in self._selects.sides(expr, self._instruction):
            self.rec(side, conditions | chosen, context)

    # }}}

    # {{{ calls

    def map_call(self, expr: prim.Call, conditions: Conditions, context: Context) -> None:
        if not isinstance(expr.function, ResolvedFunction):
            construct = f"no count for a call of {expr.function}, which Loopy has not resolved"
            self._record_cost(str(expr.function), construct, conditions)
            for parameter in expr.parameters:
                self.rec(parameter, conditions, None)
            return
        callee = self.kernel.callables[expr.function.name]
        if isinstance(callee, IndexOfCallable):
            element = cast("prim.Subscript", expr.parameters[0])
            self._rec_indices(element.index_tuple, conditions)
            return
        self._call(callee, expr, conditions, context)
        for parameter, wanted in self._code.parameters(expr):
            self.rec(parameter, conditions, wanted)

    def _call(self, callee: InKernelCallable, expr: prim.Call, conditions: Conditions, context: Context) -> None:
        types = callee.arg_id_to_dtype or {}
        results = [number_type(types[key]) for key in sorted(types) if isinstance(key, int) and key < 0]
        if isinstance(callee, (ArgExtOpCallable, SegmentOpCallable)):
            self._record(Operation(combining(callee), results[-1].scalar), conditions)
        elif len(results) != 1:
            construct = f"no count for {callee.name}, a function of {len(results)} results"
            self._record_cost(str(callee.name), construct, conditions)
        elif self.typical.has(str(callee.name)):
            self._record_cost(str(callee.name), "", conditions)
        else:
            result = self._code.number(expr, context)
            argument = self._code.inferred.number(expr.parameters[0]) if expr.parameters else result
            try:
                for operation, number in function_operations(str(callee.name), result, argument):
                    self._record(operation, conditions, number, at_once=self._is_scalar(expr))
            except UncountableError as refusal:
                self._record_cost(str(callee.name), str(refusal), conditions)

    # }}}

    def map_lookup(self, expr: prim.Lookup, conditions: Conditions, context: Context) -> None:
        self._record_cost(str(expr), f"no count for {expr}, a member of a structure", conditions)

    def handle_unsupported_expression(self, expr: Any, conditions: Conditions, context: Context) -> None:
        self._record_cost(str(expr), f"no count for {expr}, a {type(expr).__name__}", conditions)

    def map_foreign(self, expr: Any, conditions: Conditions, context: Context) -> None:
        if not prim.is_constant(expr):
            raise UncountableError(f"no count for {type(expr).__name__} in an expression: {expr}")


def combining(callee: ArgExtOpCallable | SegmentOpCallable) -> Kind:
    """Return the kind of operation that combines two values in a reduction with an index or a flag."""
    if isinstance(callee, ArgExtOpCallable):
        return "min/max"
    reduction: Any = callee.name
    return "mul" if "*" in reduction.reduction_op.op else "add"


_NOTHING = re.compile(r"(\s|;|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
"""C code without effect: white space, comments and empty statements"""


def does_nothing(instruction: InstructionBase) -> bool:
    """Return whether *instruction* exists only for the schedule, or is C code without a statement."""
    if isinstance(instruction, CInstruction):
        return _NOTHING.fullmatch(cast("str", instruction.code)) is not None
    return isinstance(instruction, NoOpInstruction)


def foreign_code(kernel: Kernel, instruction: InstructionBase) -> tuple[str, str] | None:
    """Return the keyword and the reason for a cost from the user, if Loopy does not parse the code of *instruction*.

    Such code is C code or a call of a function with array arguments, e.g. from BLAS. None for other instructions.
    """
    if not isinstance(instruction, MultiAssignmentBase):
        return instruction.id, f"no count for a {type(instruction).__name__}, whose code Loopy does not parse"
    expression: Any = instruction.expression
    passed = (*getattr(expression, "parameters", ()), *instruction.assignees)
    if not any(isinstance(each, SubArrayRef) for each in passed):
        return None
    function: Any = expression.function
    name = kernel.callables[function.name].name if isinstance(function, ResolvedFunction) else function
    return str(name), f"no count for a call of {name}, whose code Loopy does not parse"
