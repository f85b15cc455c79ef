"""What the statements of a launch make a warp execute: an instruction for each operation, each load and each store.

This is the source graph: nothing is folded, merged or contracted (see :mod:`loopyperf.idg.lowering`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pymbolic.primitives as prim
from loopy.kernel.function_interface import InKernelCallable
from loopy.kernel.instruction import InstructionBase, MultiAssignmentBase, NoOpInstruction
from loopy.library.function import IndexOfCallable, MakeTupleCallable
from loopy.library.reduction import ArgExtOpCallable, SegmentOpCallable
from loopy.symbolic import LinearSubscript, ResolvedFunction, get_dependencies
from pymbolic.mapper import Mapper

from loopyperf.counts.arithmetic import function_operations, operations
from loopyperf.counts.conditions import Conditions, all_of, alternatives, plain_text
from loopyperf.counts.expression_types import ExpressionTypes
from loopyperf.counts.guards import Guard
from loopyperf.counts.item import Access, Direction, Item, Operation
from loopyperf.counts.memory import Reference, linear_reference, reference
from loopyperf.counts.number_type import NumberType, number_type
from loopyperf.counts.typical import Typical
from loopyperf.counts.vectors import VectorLoop, vector_loop
from loopyperf.counts.walk import combining
from loopyperf.errors import UncountableError
from loopyperf.idg.drafts import Definition, Draft
from loopyperf.idg.nest import Statement
from loopyperf.idg.values import Read, Value
from loopyperf.kernel import Kernel
from loopyperf.launches import Barrier

SUBSYSTEMS = {"special": "sfu", "div": "sfu", "pow": "sfu"}
"""of operations that single-precision and integer arithmetic units do not do"""


class Translator(Mapper[Value, [Conditions]]):
    """Translates statements of one launch; :attr:`drafts` and :attr:`definitions` grow in the order of the program."""

    _statement: Statement
    _vector: VectorLoop | None

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        """Translate for *kernel*; *typical* tells what foreign code does."""
        super().__init__()
        self.kernel = kernel
        self.typical = typical
        self.drafts: list[Draft] = []
        self.definitions: list[Definition] = []
        self.guarding: list[tuple[Any, Value, Statement]] = []
        """predicates, with what they evaluate to, and where"""
        self._types = ExpressionTypes(kernel)
        self._controls: tuple[Value, ...] = ()

    # {{{ statements

    def translate(self, statement: Statement) -> None:
        """Append the instructions of *statement*."""
        self._statement, self._vector, self._controls = statement, None, tuple(self._predicates_of(statement))
        match statement.what:
            case Barrier():
                self._add("barrier", "", "barrier", statement.what.label, frozenset())
            case Guard():
                for conditions in all_of(statement.what.before, self._is_known):
                    value = self.rec(statement.what.predicate, conditions)
                    self.guarding.append((statement.what.predicate, value, statement))
            case NoOpInstruction():
                pass
            case _:
                self._vector = vector_loop(self.kernel, statement.what)
                for conditions in all_of(sorted(statement.what.predicates, key=str), self._is_known):
                    self._translate_instruction(statement.what, conditions)

    def _predicates_of(self, statement: Statement) -> Iterator[Value]:
        """Yield what the predicates evaluate to that *statement* is under."""
        what = statement.what
        required = what.before if isinstance(what, Guard) else () if isinstance(what, Barrier) else what.predicates
        for predicate in required:
            loops = [guard.loops for known, _, guard in self.guarding if known == predicate]
            values = [value for known, value, _ in self.guarding if known == predicate]
            around = [v for v, outer in zip(values, loops, strict=True) if statement.loops[: len(outer)] == outer]
            yield from around[-1:]

    def _translate_instruction(self, instruction: InstructionBase, conditions: Conditions) -> None:
        if not isinstance(instruction, MultiAssignmentBase):
            construct = f"no count for a {type(instruction).__name__}, whose text Loopy does not read"
            self._do_stated(instruction.id, construct, conditions, [])
            return
        value = self.rec(instruction.expression, conditions)
        for assignee in instruction.assignees:
            self._assign(assignee, value, conditions)

    def _assign(self, assignee: Any, value: Value, conditions: Conditions) -> None:
        match assignee:
            case prim.Variable(name=name):
                index: tuple[Any, ...] = ()
            case prim.Subscript(aggregate=prim.Variable(name=name)):
                index = assignee.index_tuple
            case LinearSubscript(aggregate=prim.Variable(name=name)):
                index = (assignee.index,)
            case _:
                raise UncountableError(f"no graph of an assignment to a {type(assignee).__name__}: {assignee}")
        addresses = [self.rec(expression, conditions) for expression in index]
        found = self._reference(assignee, name, index, "store")
        if found is not None:
            self._access(found, str(assignee), [value, *addresses], conditions)
        elif self.kernel.array(name) is None:
            node = value.node
            if node is None or value.is_negated:
                node = self._add("move", "", "alu", str(assignee), conditions, [value])
            self.definitions.append(Definition(self._statement, name, index, node))

    # }}}

    # {{{ instructions

    def _add(
        self,
        kind: str,
        dtype: str,
        subsystem: str,
        text: str,
        conditions: Conditions,
        operands: Sequence[Value] = (),
        item: Item | None = None,
    ) -> int:
        draft = Draft(kind, dtype, subsystem, plain_text(text), self._statement, conditions, list(operands))
        draft.item, draft.controls = item, self._controls
        self.drafts.append(draft)
        return len(self.drafts) - 1

    def _do(self, operation: Operation, text: Any, operands: Sequence[Value], conditions: Conditions) -> Value:
        scalar = operation.dtype
        subsystem = "fp64" if scalar == "f64" else SUBSYSTEMS.get(operation.kind, "alu")
        node = self._add(operation.kind, scalar, subsystem, str(text), conditions, operands, operation)
        if isinstance(text, prim.ExpressionNode) and self._is_known(text):
            self.drafts[node].expression = text
        return Value(node)

    def _do_stated(self, name: str, construct: str, conditions: Conditions, operands: Sequence[Value]) -> Value:
        """Do what is stated for *name*, of which the source does not tell; raises :class:`UncountableError`."""
        node: int | None = None
        for item, number in self.typical.cost(name, construct).items():
            match item:
                case Operation():
                    node = self._do(item, name, operands, conditions).node
                case Access(direction, space):
                    node = self._add(direction, "", space, name, conditions, operands, item)
                case _:
                    raise UncountableError(f"no graph of {item} in {name}")
            assert node is not None
            self.drafts[node].number = number
        return Value(node)

    def _members(self, expression: Any) -> int:
        """Return how many members of a vector *expression* is computed for, one after the other."""
        if self._vector is None or not self._vector.is_vector(expression):
            return 1
        return int(cast("Any", self.kernel.loopy_kernel.get_constant_iname_length(self._vector.iname)))

    def _compute(self, expression: Any, operands: Sequence[Value], result: NumberType, conditions: Conditions) -> Value:
        """Return the result of the top node of *expression*, folded from left to right."""
        try:
            found = list(operations(expression, result, self._types.number))
        except UncountableError as refusal:
            return self._do_stated(str(expression), str(refusal), conditions, operands)
        return self._fold(found, expression, operands, self._members(expression), conditions)

    def _fold(
        self,
        found: Sequence[tuple[Operation, int]],
        expression: Any,
        operands: Sequence[Value],
        members: int,
        conditions: Conditions,
    ) -> Value:
        if len(found) == 1 and len(operands) > 1 and found[0][1] % (len(operands) - 1) == 0:
            operation, number = found[0]
            value = operands[0]
            for _ in range(number // (len(operands) - 1) * members):
                value = operands[0]
                for operand in operands[1:]:
                    value = self._do(operation, expression, [value, operand], conditions)
            return value
        earlier = list(operands)
        for operation, number in found:
            before = list(dict.fromkeys([*earlier, *operands]))
            earlier = [self._do(operation, expression, before, conditions) for _ in range(number * members)]
        return earlier[0] if earlier else Value(known=expression)

    # }}}

    # {{{ memory

    def _reference(self, expr: Any, name: str, index: tuple[Any, ...], direction: Direction) -> Reference | None:
        if isinstance(expr, LinearSubscript):
            return linear_reference(self.kernel, name, expr.index, direction)
        return reference(self.kernel, name, index, direction, self._vector.iname if self._vector else None)

    def _access(self, found: Reference, text: str, operands: Sequence[Value], conditions: Conditions) -> Value:
        node = self._add(found.direction, f"b{found.bits}", found.space, text, conditions, operands)
        self.drafts[node].reference = found
        return Value(node)

    def _load(self, expr: Any, name: str, index: tuple[Any, ...], conditions: Conditions) -> Value:
        addresses = [self.rec(expression, conditions) for expression in index]
        try:
            found = self._reference(expr, name, index, "load")
        except UncountableError as refusal:
            return self._do_stated(name, str(refusal), conditions, addresses)
        if found is not None:
            return self._access(found, str(expr), addresses, conditions)
        if name in self.kernel.loopy_kernel.temporary_variables:
            return Value(read=Read(name, index))
        return Value(known=expr)

    # }}}

    # {{{ leaves

    def _is_known(self, expression: Any) -> bool:
        return get_dependencies(expression) <= self.kernel.parameters | self.kernel.loopy_kernel.all_inames()

    def map_constant(self, expr: Any, conditions: Conditions) -> Value:
        return Value(known=expr)

    map_nan = map_constant
    map_literal = map_constant

    def map_variable(self, expr: prim.Variable, conditions: Conditions) -> Value:
        return self._load(expr, expr.name, (), conditions)

    map_tagged_variable = map_variable

    def map_subscript(self, expr: prim.Subscript, conditions: Conditions) -> Value:
        if not isinstance(expr.aggregate, prim.Variable):
            raise UncountableError(f"no graph of a subscript of {type(expr.aggregate).__name__}: {expr}")
        return self._load(expr, expr.aggregate.name, expr.index_tuple, conditions)

    def map_linear_subscript(self, expr: LinearSubscript, conditions: Conditions) -> Value:
        if not isinstance(expr.aggregate, prim.Variable):
            raise UncountableError(f"no graph of a subscript of {type(expr.aggregate).__name__}: {expr}")
        return self._load(expr, expr.aggregate.name, (expr.index,), conditions)

    # }}}

    # {{{ operations

    def _rec_all(self, expressions: Sequence[Any], conditions: Conditions) -> list[Value]:
        return [self.rec(expression, conditions) for expression in expressions]

    def _operate(self, expr: Any, children: Sequence[Any], conditions: Conditions) -> Value:
        return self._compute(expr, self._rec_all(children, conditions), self._types.number(expr), conditions)

    def map_sum(self, expr: Any, conditions: Conditions) -> Value:
        return self._operate(expr, expr.children, conditions)

    map_min = map_sum
    map_max = map_sum
    map_bitwise_and = map_sum
    map_bitwise_or = map_sum
    map_bitwise_xor = map_sum

    def map_product(self, expr: prim.Product, conditions: Conditions) -> Value:
        """A factor of -1 changes the sign of an operand."""
        factors = [child for child in expr.children if not (prim.is_constant(child) and child == -1)]
        signs = len(expr.children) - len(factors)
        operands = self._rec_all(factors, conditions) or [Value(known=1)]
        operands[0] = operands[0].negated() if signs % 2 else operands[0]
        if len(operands) == 1:
            return operands[0]
        return self._compute(expr, operands, self._types.number(expr), conditions)

    def map_quotient(self, expr: Any, conditions: Conditions) -> Value:
        return self._operate(expr, (expr.numerator, expr.denominator), conditions)

    map_floor_div = map_quotient
    map_remainder = map_quotient

    def map_power(self, expr: prim.Power, conditions: Conditions) -> Value:
        return self._operate(expr, (expr.base, expr.exponent), conditions)

    def map_comparison(self, expr: prim.Comparison, conditions: Conditions) -> Value:
        sides = self._rec_all((expr.left, expr.right), conditions)
        return self._compute(expr, sides, self._types.combined(expr.left, expr.right), conditions)

    def map_logical_and(self, expr: prim.LogicalAnd | prim.LogicalOr, conditions: Conditions) -> Value:
        """A child is evaluated where those before it have not decided."""
        values: list[Value] = []
        for place, child in enumerate(expr.children):
            value = Value(known=child)
            for undecided in all_of(expr.children[:place], self._is_known, not isinstance(expr, prim.LogicalOr)):
                value = self.rec(child, conditions | undecided)
            values.append(value)
        return self._compute(expr, values, self._truth, conditions)

    map_logical_or = map_logical_and

    @property
    def _truth(self) -> NumberType:
        return number_type(self.kernel.loopy_kernel.index_dtype)

    def map_logical_not(self, expr: prim.LogicalNot, conditions: Conditions) -> Value:
        return self._compute(expr, self._rec_all((expr.child,), conditions), self._truth, conditions)

    def map_bitwise_not(self, expr: prim.BitwiseNot, conditions: Conditions) -> Value:
        return self._operate(expr, (expr.child,), conditions)

    def map_left_shift(self, expr: Any, conditions: Conditions) -> Value:
        sides = self._rec_all((expr.shiftee, expr.shift), conditions)
        return self._compute(expr, sides, self._types.number(expr.shiftee), conditions)

    map_right_shift = map_left_shift

    def map_type_cast(self, expr: Any, conditions: Conditions) -> Value:
        """A conversion is free, as in the paper."""
        return self.rec(expr.child, conditions)

    map_type_annotation = map_type_cast

    def map_if(self, expr: prim.If, conditions: Conditions) -> Value:
        values = [self.rec(expr.condition, conditions)]
        before, self._controls = self._controls, (*self._controls, values[0])
        for side, holds in ((expr.then, True), (expr.else_, False)):
            chosen = alternatives(expr.condition, self._is_known, holds)
            values += [self.rec(side, conditions | each) for each in chosen]
        self._controls = before
        return Value(self._add("select", "", "alu", str(expr), conditions, values))

    # }}}

    # {{{ calls

    def map_call(self, expr: prim.Call, conditions: Conditions) -> Value:
        if not isinstance(expr.function, ResolvedFunction):
            construct = f"no count for a call of {expr.function}, which Loopy has not resolved"
            return self._do_stated(
                str(expr.function), construct, conditions, self._rec_all(expr.parameters, conditions)
            )
        callee = self.kernel.callables[expr.function.name]
        if isinstance(callee, IndexOfCallable):
            element = cast("prim.Subscript", expr.parameters[0])
            self._rec_all(element.index_tuple, conditions)
            return Value(known=expr)
        operands = self._rec_all(expr.parameters, conditions)
        if isinstance(callee, MakeTupleCallable):
            return Value(self._add("move", "", "alu", str(expr), conditions, operands))
        return self._call(callee, expr, operands, conditions)

    def _call(
        self, callee: InKernelCallable, expr: prim.Call, operands: Sequence[Value], conditions: Conditions
    ) -> Value:
        types = callee.arg_id_to_dtype or {}
        results = [number_type(types[key]) for key in sorted(types) if isinstance(key, int) and key < 0]
        if isinstance(callee, (ArgExtOpCallable, SegmentOpCallable)):
            return self._do(Operation(combining(callee), results[-1].scalar), expr, operands, conditions)
        name = str(callee.name)
        if len(results) != 1:
            construct = f"no count for {name}, a function of {len(results)} results"
            return self._do_stated(name, construct, conditions, operands)
        argument = self._types.number(expr.parameters[0]) if expr.parameters else results[0]
        try:
            found = list(function_operations(name, results[0], argument))
        except UncountableError as refusal:
            return self._do_stated(name, str(refusal), conditions, operands)
        if not found and operands:
            return operands[0]
        return self._fold(found, expr, operands, self._members(expr), conditions)

    # }}}

    def map_lookup(self, expr: prim.Lookup, conditions: Conditions) -> Value:
        return self._do_stated(str(expr), f"no count for {expr}, a member of a structure", conditions, [])

    def handle_unsupported_expression(self, expr: Any, conditions: Conditions) -> Value:
        return self._do_stated(str(expr), f"no count for {expr}, a {type(expr).__name__}", conditions, [])

    def map_foreign(self, expr: Any, conditions: Conditions) -> Value:
        return Value(known=expr)
