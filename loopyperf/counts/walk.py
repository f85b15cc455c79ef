"""Walk over the expressions of a kernel: statements become steps, with the conditions under which they execute.

This is the only place that translates expressions: :mod:`loopyperf.counts.kernel_counts` adds up the steps, and
:mod:`loopyperf.idg.launch_program` makes draft instructions of them.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pymbolic.primitives as prim
from loopy.diagnostic import LoopyError
from loopy.kernel.instruction import (
    Assignment,
    BarrierInstruction,
    CInstruction,
    InstructionBase,
    MultiAssignmentBase,
    NoOpInstruction,
)
from loopy.library.function import IndexOfCallable
from loopy.library.reduction import ArgExtOpCallable, SegmentOpCallable
from loopy.symbolic import LinearSubscript, ResolvedFunction, SubArrayRef, get_dependencies
from pymbolic.mapper import UnsupportedExpressionError
from pymbolic.mapper.substitutor import substitute

from loopyperf.counts.arithmetic import (
    INDEX,
    Context,
    Link,
    OperationMapper,
    function_operations,
    link_operations,
    number_type,
    real_functions,
)
from loopyperf.counts.conditions import Conditions, Guard, Selects, disjoint_conditions
from loopyperf.counts.generated_code import GeneratedCode, VectorLoop, vector_loop
from loopyperf.counts.item import Access, Direction, Kind, Operation
from loopyperf.counts.memory_accesses import atomically_added, is_atomic, linear_reference, reference
from loopyperf.counts.sizes import Typical
from loopyperf.counts.steps import (
    Definition,
    Read,
    Step,
    Value,
    joined_parts,
    operations_in_order,
    part,
    product_with_sign,
)
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel

REAL_PARTS = ("real", "imag")
"""functions that select the real or imaginary part, which takes no instruction"""


class Walk(OperationMapper[Value, [Conditions, Context]]):
    """Translates statements of one kernel into steps; raises for an unknown construct.

    Methods that evaluate an expression return its value, and append the steps that compute it.
    """

    def __init__(self, kernel: Kernel, typical: Typical, *, is_compiled: bool = False) -> None:
        """Walk over *kernel*; *typical* has costs of foreign code and other constructs that cannot be translated.

        *is_compiled* tells whether an atomic addition is one store, if the device has an instruction for it, or the
        operations in the source.
        """
        super().__init__()
        self.kernel, self.typical, self.is_compiled = kernel, typical, is_compiled
        self.steps: list[Step] = []
        """steps of all statements so far"""
        self.definitions: list[Definition] = []
        """assignments to private variables so far"""
        self.vector: VectorLoop | None = None
        """the loop that the current statement executes at once, as vector operations"""
        self._code = GeneratedCode(kernel)
        self._selects = Selects(kernel, typical)
        self._instruction = ""
        self._controls: tuple[Value, ...] = ()
        self._loop_variable: prim.Variable | None = None
        """the loop variable whose value is being translated"""

    # {{{ statements

    def instruction(self, instruction: InstructionBase) -> None:
        """Append the steps of *instruction*, without the evaluation of its predicates.

        Raises :class:`UncountableError` naming the construct.
        """
        self._instruction, self.vector = str(instruction.id), vector_loop(self.kernel, instruction)
        if isinstance(instruction, BarrierInstruction) or _does_nothing(instruction):
            return
        with _type_errors():
            for conditions in disjoint_conditions(sorted(instruction.predicates, key=str), self.kernel.is_known):
                if foreign := _foreign_code(self.kernel, instruction):
                    self._cost(*foreign, conditions)
                else:
                    self._assignment(cast("MultiAssignmentBase", instruction), conditions)

    def predicate(self, guard: Guard) -> list[Value]:
        """Append the steps of *guard*, and return the value of its predicate in each alternative around it."""
        self._instruction, self.vector = str(guard.instruction.id), None
        with _type_errors():
            around = disjoint_conditions(guard.before, self.kernel.is_known)
            return [self._evaluated(guard.predicate, conditions, None) for conditions in around]

    def _assignment(self, assignment: MultiAssignmentBase, conditions: Conditions) -> None:
        expressions = list(self._code.evaluated(assignment))
        if self.is_compiled and isinstance(assignment, Assignment) and is_atomic(assignment):
            added = atomically_added(self.kernel, assignment)
            expressions = expressions if added is None else [(added, expressions[0][1])]
        values = [self._evaluated(expression, conditions, context) for expression, context in expressions]
        for number, assignee in enumerate(assignment.assignees):
            self._assign(assignee, values[number if len(values) > 1 else 0], conditions)

    def _evaluated(self, expression: Any, conditions: Conditions, context: Context) -> Value:
        self._selects.begin(expression)
        return self.rec(expression, conditions, context)

    def _assign(self, assignee: Any, value: Value, conditions: Conditions) -> None:
        match assignee:
            case prim.Variable(name=name):
                index: tuple[Any, ...] = ()
            case prim.Subscript(aggregate=prim.Variable(name=name)):
                index = assignee.index_tuple
            case LinearSubscript(aggregate=prim.Variable(name=name)):
                index = (assignee.index,)
            case prim.Lookup():
                self.rec(assignee, conditions, None)
                return
            case _:
                raise UncountableError(f"no count for an assignment to a {type(assignee).__name__}: {assignee}")
        if self._access(assignee, name, index, "store", conditions, value) is not None:
            return
        cells = self._cells(name, index)
        for number, cell in enumerate(cells):
            own = part(value, number, len(cells), self.steps)
            node = own.node
            if node is None or own.is_negated:
                node = self._add(Step("move", assignee, conditions, (own,), part=number))
            self.definitions.append(Definition(cell.variable, cell.index, node, own.is_part))

    def _cells(self, name: str, index: tuple[Any, ...]) -> tuple[Read, ...]:
        """Return the cells of a private variable at *index*: all members if a vector is accessed as a whole."""
        vector = self.vector
        if vector is None or not any(vector.iname in get_dependencies(each) for each in index):
            return (Read(name, index),)
        members = ({vector.iname: number} for number in range(vector.length))
        return tuple(Read(name, tuple(substitute(each, member) for each in index)) for member in members)

    # }}}

    # {{{ steps

    def _add(self, step: Step) -> int:
        """Append *step* and return its index."""
        step.controls = self._controls
        self.steps.append(step)
        return len(self.steps) - 1

    def _operate(
        self,
        operations: Sequence[tuple[Operation, int]],
        expression: Any,
        operands: Sequence[Value],
        conditions: Conditions,
        members: int = 1,
        kind: str | None = None,
        functions: Sequence[str] = (),
    ) -> Value:
        """Append *operations* of *expression* for each of the *members* of a vector, and return all results.

        *kind* is their name as instructions if it is not that of the operation. *functions* are the functions of real
        numbers that they call, of which several form a complex function.
        """
        member: int | None = None

        def do(operation: Operation, own: Sequence[Value], index: int) -> Value:
            called = functions[index % len(functions)] if functions and operation.kind == "special" else ""
            text = f"{called}({expression})" if called and len(functions) > 1 else self._loop_variable or expression
            step = Step(kind or operation.kind, text, conditions, tuple(own), operation, expression=expression)
            step.function, step.part, step.member = called, index, member
            return Value(self._add(step))

        results: list[Value] = []
        for number in range(members):
            member = number if members > 1 else None
            own = operands if members == 1 else [part(operand, number, members, self.steps) for operand in operands]
            results += operations_in_order(operations, own, number, self.steps, do)
        return joined_parts(results, self.steps) if results else Value(known=expression)

    def _members(self, expression: Any) -> int:
        """Return the number of vector members for which *expression* is computed."""
        return self.vector.length if self.vector is not None and self.vector.is_vector(expression) else 1

    def _cost(self, name: str, construct: str, conditions: Conditions, operands: Sequence[Value] = ()) -> Value:
        """Append the items that ``typical`` gives for *name*; raises :class:`UncountableError` if it gives none."""
        node: int | None = None
        for item, number in self.typical.cost(name, construct).items():
            kind = item.direction if isinstance(item, Access) else item.kind
            node = self._add(Step(kind, name, conditions, tuple(operands), item, number=number, member=0))
        return Value(node)

    def _access(
        self, expr: Any, name: str, index: tuple[Any, ...], direction: Direction, conditions: Conditions, *stored: Value
    ) -> Value | None:
        """Append the access of element *index* of *name* and return its value; None if *name* is not in memory."""
        operands = (*stored, *[self.rec(each, conditions, INDEX) for each in index])
        try:
            if isinstance(expr, LinearSubscript):
                element = linear_reference(self.kernel, name, expr.index, direction)
            else:
                element = reference(self.kernel, name, index, direction, self.vector.iname if self.vector else None)
        except UncountableError as refusal:
            return self._cost(name, str(refusal), conditions, operands)
        if element is None:
            return None
        is_repeated = direction == "load" and expr in self._selects.again
        step = Step(direction, expr, conditions, operands, reference=element, is_repeated=is_repeated)
        return Value(self._add(step))

    # }}}

    # {{{ leaves

    def map_constant(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        return Value(known=expr)

    map_nan = map_literal = map_constant

    def map_local_hw_index(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        return Value(known=prim.Variable(f"{type(expr).__name__} {expr.axis}"))

    map_group_hw_index = map_local_hw_index

    def map_variable(self, expr: prim.Variable, conditions: Conditions, context: Context) -> Value:
        written = self._code.stands_for(expr.name, context)
        if written is None:
            return self._load(expr, expr, (), conditions)
        before, self._loop_variable = self._loop_variable, expr
        value = self.rec(written, conditions, context)
        self._loop_variable = before
        if value.node is None:
            return Value(known=expr)
        self.steps[value.node].expression = expr
        return value

    map_tagged_variable = map_variable

    def map_subscript(self, expr: prim.Subscript, conditions: Conditions, context: Context) -> Value:
        return self._load(expr, expr.aggregate, expr.index_tuple, conditions)

    def map_linear_subscript(self, expr: LinearSubscript, conditions: Conditions, context: Context) -> Value:
        return self._load(expr, expr.aggregate, (expr.index,), conditions)

    def _load(self, expr: Any, array: Any, index: tuple[Any, ...], conditions: Conditions) -> Value:
        if not isinstance(array, prim.Variable):
            raise UncountableError(f"no count for a subscript of {type(array).__name__}: {expr}")
        value = self._access(expr, array.name, index, "load", conditions)
        if value is None and array.name in self.kernel.loopy_kernel.temporary_variables:
            return Value(reads=self._cells(array.name, index))
        return Value(known=expr) if value is None else value

    # }}}

    # {{{ operations

    def map_operation(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        links = self._code.chain(expr, context).links
        operands: list[Value] = []
        for link in links:
            again = operands[-1] if operands else Value(known=1)
            operands.append(again if link.operand is None else self.rec(link.operand, conditions, link.context))
        return self._chained(expr, links, operands, conditions)

    def _chained(self, expr: Any, links: Sequence[Link], operands: Sequence[Value], conditions: Conditions) -> Value:
        """Return the value of *links* of *expr* applied to their *operands* from left to right."""
        try:
            operations = [list(link_operations(link, expr)) for link in links]
        except UncountableError as refusal:
            return self._cost(str(expr), str(refusal), conditions, operands)
        value, members = operands[0], 1
        for link, operand, own in zip(links, operands, operations, strict=True):
            members = max(members, 1 if link.operand is None else self._members(link.operand))
            if link.kind is not None:
                pair = [operand] if isinstance(expr, (prim.LogicalNot, prim.BitwiseNot)) else [value, operand]
                kind, functions = self._kind(expr, link), real_functions("pow", link.result)
                value = self._operate(own, expr, pair, conditions, members, kind, functions)
            elif link is not links[0]:
                value = product_with_sign(value, operand)
        return value

    def _kind(self, expr: Any, link: Link) -> str | None:
        """Return the name of *link* of *expr* as an instruction; None if it is that of the operation.

        Counts do not distinguish a square, which compiles to a product, a power with an integer exponent, which
        compiles to a loop of products, and the remainder of a division.
        """
        if link.kind == "pow" and not link.result.is_complex:
            if link.operand is None:
                return "square"
            return "powi" if self._code.inferred.number(link.operand).is_integral else None
        return "mod" if isinstance(expr, prim.Remainder) and link.kind == "div" else None

    def map_logical_and(
        self, expr: prim.LogicalAnd | prim.LogicalOr, conditions: Conditions, context: Context
    ) -> Value:
        """A child is evaluated only if the children before it have not determined the result, or if it is cheap."""
        values: list[Value] = []
        for child, ways in self._selects.operands(expr, self._instruction):
            value = Value(known=child)
            for undecided in ways:
                value = self.rec(child, conditions | undecided, context)
            values.append(value)
        return self._chained(expr, self._code.chain(expr, context).links, values, conditions)

    map_logical_or = map_logical_and

    def map_type_cast(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        """A conversion is free, as in the paper."""
        return self.rec(expr.child, conditions, context)

    map_type_annotation = map_type_cast

    def map_if(self, expr: prim.If, conditions: Conditions, context: Context) -> Value:
        values = [self.rec(expr.condition, conditions, context)]
        before, self._controls = self._controls, (*self._controls, values[0])
        sides = self._selects.sides(expr, self._instruction)
        values += [self.rec(side, conditions | chosen, context) for side, chosen in sides]
        self._controls = before
        return Value(self._add(Step("select", expr, conditions, tuple(values))))

    # }}}

    # {{{ calls

    def map_call(self, expr: prim.Call, conditions: Conditions, context: Context) -> Value:
        if not isinstance(expr.function, ResolvedFunction):
            construct = f"no count for a call of {expr.function}, which Loopy has not resolved"
            operands = [self.rec(parameter, conditions, None) for parameter in expr.parameters]
            return self._cost(str(expr.function), construct, conditions, operands)
        callee = self.kernel.callables[expr.function.name]
        if isinstance(callee, IndexOfCallable):
            for index in cast("prim.Subscript", expr.parameters[0]).index_tuple:
                self.rec(index, conditions, INDEX)
            return Value(known=expr)
        operands = [self.rec(parameter, conditions, wanted) for parameter, wanted in self._code.parameters(expr)]
        types: dict[Any, Any] = callee.arg_id_to_dtype or {}
        results = [number_type(types[key]) for key in sorted(types) if isinstance(key, int) and key < 0]
        if isinstance(callee, (ArgExtOpCallable, SegmentOpCallable)):
            combining = Operation(_combining(callee), results[-1].scalar)
            return self._operate([(combining, 1)], expr, operands, conditions)
        name = str(callee.name)
        if len(results) != 1 or self.typical.has(name):
            return self._cost(name, f"no count for {name}, a function of {len(results)} results", conditions, operands)
        result = self._code.number(expr, context)
        argument = self._code.inferred.number(expr.parameters[0]) if expr.parameters else result
        try:
            operations = list(function_operations(name, result, argument))
        except UncountableError as refusal:
            return self._cost(name, str(refusal), conditions, operands)
        if not operations and operands:
            return part(operands[0], REAL_PARTS.index(name), 2, self.steps) if name in REAL_PARTS else operands[0]
        functions = real_functions(name, argument, result) or (name,)
        return self._operate(operations, expr, operands, conditions, self._members(expr), functions=functions)

    # }}}

    def map_lookup(self, expr: prim.Lookup, conditions: Conditions, context: Context) -> Value:
        return self._cost(str(expr), f"no count for {expr}, a member of a structure", conditions)

    def handle_unsupported_expression(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        return self._cost(str(expr), f"no count for {expr}, a {type(expr).__name__}", conditions)

    def map_foreign(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        if not prim.is_constant(expr):
            raise UncountableError(f"no count for {type(expr).__name__} in an expression: {expr}")
        return Value(known=expr)


@contextmanager
def _type_errors() -> Generator[None]:
    """Turn the errors of Loopy's type inference into :class:`UncountableError`."""
    try:
        yield
    except (LoopyError, NotImplementedError, UnsupportedExpressionError) as error:
        raise UncountableError(f"Loopy cannot infer its types ({type(error).__name__}: {error})") from error


def _combining(callee: ArgExtOpCallable | SegmentOpCallable) -> Kind:
    """Return the kind of operation that combines two values in a reduction with an index or a flag."""
    if isinstance(callee, ArgExtOpCallable):
        return "min/max"
    reduction: Any = callee.name
    return "mul" if "*" in reduction.reduction_op.op else "add"


_NOTHING = re.compile(r"(\s|;|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
"""C code without effect: white space, comments and empty statements"""


def _does_nothing(instruction: InstructionBase) -> bool:
    """Return whether *instruction* exists only for the schedule, or is C code without a statement."""
    if isinstance(instruction, CInstruction):
        return _NOTHING.fullmatch(cast("str", instruction.code)) is not None
    return isinstance(instruction, NoOpInstruction)


def _foreign_code(kernel: Kernel, instruction: InstructionBase) -> tuple[str, str] | None:
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
