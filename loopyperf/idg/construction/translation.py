"""Translation of the statements of a launch into draft instructions: one per operation, load and store.

This is the source graph: nothing is folded, merged or contracted (see :mod:`loopyperf.compiler.compiler_model`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pymbolic.primitives as prim
from loopy.kernel.function_interface import InKernelCallable
from loopy.kernel.instruction import Assignment, InstructionBase, MultiAssignmentBase
from loopy.library.function import IndexOfCallable
from loopy.library.reduction import ArgExtOpCallable, SegmentOpCallable
from loopy.symbolic import LinearSubscript, ResolvedFunction, get_dependencies
from pymbolic.mapper.substitutor import substitute

from loopyperf.counts.arithmetic import (
    INDEX,
    MULTIPLY_COMPLEX,
    Context,
    Link,
    OperationMapper,
    function_operations,
    link_operations,
    number_type,
    real_functions,
)
from loopyperf.counts.atomic_updates import atomically_added, is_atomic, update_of
from loopyperf.counts.conditions import Conditions, Guard, disjoint_conditions, parts, plain_text
from loopyperf.counts.generated_code import GeneratedCode
from loopyperf.counts.item import Access, Direction, Item, MemorySpace, Operation
from loopyperf.counts.loops import VectorLoop, vector_loop
from loopyperf.counts.memory_accesses import Reference, linear_reference, reference, resolved
from loopyperf.counts.selects import Selects
from loopyperf.counts.sizes import Typical
from loopyperf.counts.walk import combining, does_nothing, foreign_code
from loopyperf.device.parts import Pipeline
from loopyperf.errors import UncountableError
from loopyperf.idg.construction.drafts import (
    ConditionEvaluation,
    Definition,
    Draft,
    Read,
    Value,
    has_call,
    machine_kind,
    product_with_sign,
)
from loopyperf.idg.program import Opcode
from loopyperf.idg.warps.warp_classes import Statement
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier

REAL, IMAGINARY = 0, 1
REAL_PARTS = ("real", "imag")
"""functions that select the real or imaginary part, which takes no instruction"""


def nodes_of(value: Value, drafts: Sequence[Draft]) -> tuple[int, ...]:
    """Return the indices in *drafts* of the instructions that compute *value*, one per part."""
    if value.node is None:
        return ()
    return (value.node,) if value.is_part else (value.node, *drafts[value.node].beside)


def part(value: Value, place: int, number: int, drafts: Sequence[Draft]) -> Value:
    """Return part *place* of *value* if it has *number* parts; otherwise the whole value."""
    if len(value.reads) == number:
        return replace(value, reads=(value.reads[place],))
    nodes = nodes_of(value, drafts)
    return replace(value, node=nodes[place], is_part=True) if len(nodes) == number > 1 else value


def called_part(operation: Operation, called: Sequence[str], place: int, expression: Any) -> Any:
    """Return the text of part *place* of *expression*; a special function shows the real function that it *called*."""
    return f"{called[place % len(called)]}({expression})" if called and operation.kind == "special" else expression


Do = Callable[[Operation, Sequence[Value], int], Value]
"""adds the instruction of an operation, given its operands and its part index"""


def in_stages(
    found: Sequence[tuple[Operation, int]], operands: Sequence[Value], members: int, drafts: Sequence[Draft], do: Do
) -> list[Value]:
    """Add the operations *found* for each of the *members* of a vector, and return the results of all members.

    Operations of one kind are independent, each with its parts of the *operands*; each kind depends on the previous
    one.
    """
    values: list[Value] = []
    for member in range(members):
        its = operands if members == 1 else [part(each, member, members, drafts) for each in operands]
        values += _of_member(found, its, member, drafts, do)
    return values


def _of_member(
    found: Sequence[tuple[Operation, int]], operands: Sequence[Value], member: int, drafts: Sequence[Draft], do: Do
) -> list[Value]:
    if [(operation.kind, number) for operation, number in found] == [*MULTIPLY_COMPLEX.items()]:
        (multiplication, _), (addition, _) = found
        pairs = enumerate(_complex_products(operands, drafts), 4 * member)
        products = [do(multiplication, pair, place) for place, pair in pairs]
        return [do(addition, pair, place) for place, pair in enumerate((products[:2], products[2:]), 2 * member)]
    earlier: list[Value] = []
    for operation, number in found:
        taken = [[part(each, place, number, drafts) for each in operands] for place in range(number)]
        earlier = [do(operation, [*earlier, *its], place) for place, its in enumerate(taken, number * member)]
    return earlier


def beside_each_other(parts: Sequence[Value], drafts: Sequence[Draft]) -> Value:
    """Return the value that consists of *parts*, each computed by its own instruction."""
    first, *others = [each.node for each in parts if each.node is not None]
    drafts[first].beside = tuple(others)
    return parts[0]


def _complex_products(operands: Sequence[Value], drafts: Sequence[Draft]) -> Iterator[tuple[Value, Value]]:
    """Yield the four pairs of factors: two for the real part, then two for the imaginary part."""
    for left, right in ((REAL, REAL), (IMAGINARY, IMAGINARY), (REAL, IMAGINARY), (IMAGINARY, REAL)):
        yield part(operands[0], left, 2, drafts), part(operands[-1], right, 2, drafts)


SUBSYSTEMS: Mapping[Opcode, Pipeline] = dict.fromkeys((Opcode.SPECIAL, Opcode.DIV, Opcode.POW), Pipeline.SFU)
"""pipelines of operations that the single-precision and integer units do not execute"""


class Translator(OperationMapper[Value, [Conditions, Context]]):
    """Translates statements of one launch; :attr:`drafts` and :attr:`definitions` grow in the order of the program."""

    _statement: Statement
    _vector: VectorLoop | None
    _evaluated: Mapping[Any, ConditionEvaluation]
    """condition that guards the statement -> its evaluation, with parts of conditions"""
    _is_loop: bool | None
    """whether the statement is an atomic update by a compare-exchange loop; None if it is no atomic update"""

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        """Translate for *kernel*; *typical* gives the operations of foreign code."""
        super().__init__()
        self.kernel = kernel
        self.typical = typical
        self.drafts: list[Draft] = []
        self.definitions: list[Definition] = []
        self.guarding: list[tuple[Any, Value, ConditionEvaluation]] = []
        """(predicate, its value, its evaluation)"""
        self._written: dict[str, int] = {}
        """variable or array -> the last statement so far that writes it"""
        self._code = GeneratedCode(kernel)
        self._selects = Selects(kernel, typical)
        self._controls: tuple[Value, ...] = ()
        self._texts: dict[Any, str] = {}
        """expression -> its text, which several operations share"""
        self._written_for = ""
        """the loop variable whose replacement expression is being translated"""

    # {{{ statements

    def translate(self, statement: Statement) -> None:
        """Append the instructions of *statement*."""
        guarding = list(self._predicates_of(statement))
        self._statement, self._vector, self._controls = statement, None, tuple(value for _, value, _ in guarding)
        self._evaluated = {
            part: found for whole, _, found in guarding for part in (whole, *parts(whole, self.kernel.is_known))
        }
        match statement.what:
            case Barrier():
                self._add(Opcode.BARRIER, "", Pipeline.BARRIER, statement.what.label, frozenset())
            case Guard():
                for conditions in disjoint_conditions(statement.what.before, self.kernel.is_known):
                    self._selects.begin(statement.what.predicate)
                    value = self.rec(statement.what.predicate, conditions, None)
                    self.guarding.append((statement.what.predicate, value, self._evaluation(statement.what.predicate)))
            case InstructionBase() as nothing if does_nothing(nothing):
                pass
            case _:
                self._vector = vector_loop(self.kernel, statement.what)
                for conditions in disjoint_conditions(sorted(statement.what.predicates, key=str), self.kernel.is_known):
                    self._translate_instruction(statement.what, conditions)
                written = cast("frozenset[str]", statement.what.write_dependency_names())
                self._written |= dict.fromkeys(written, statement.number)

    def _evaluation(self, condition: Any) -> ConditionEvaluation:
        """Return the evaluation of *condition* at the current statement."""
        version = max((self._written.get(name, -1) for name in get_dependencies(condition)), default=-1)
        return ConditionEvaluation(self._statement.loops, version)

    def _predicates_of(self, statement: Statement) -> Iterator[tuple[Any, Value, ConditionEvaluation]]:
        """Yield the predicates that guard *statement*, with their values and evaluations."""
        what = statement.what
        required = what.before if isinstance(what, Guard) else () if isinstance(what, Barrier) else what.predicates
        for predicate in required:
            same = (each for each in self.guarding if each[0] == predicate)
            around = [each for each in same if statement.loops[: len(each[2].loops)] == each[2].loops]
            yield from around[-1:]

    def _translate_instruction(self, instruction: InstructionBase, conditions: Conditions) -> None:
        if foreign := foreign_code(self.kernel, instruction):
            self._assume_cost(*foreign, conditions, [])
            return
        assignment = cast("MultiAssignmentBase", instruction)
        found = list(self._code.evaluated(assignment))
        self._is_loop = None
        if isinstance(assignment, Assignment) and is_atomic(assignment):
            added = atomically_added(self.kernel, assignment)
            self._is_loop = added is None
            found = found if added is None else [(added, found[0][1])]
        values: list[Value] = []
        for expression, context in found:
            self._selects.begin(expression)
            values.append(self.rec(expression, conditions, context))
        for place, assignee in enumerate(assignment.assignees):
            self._assign(assignee, values[place if len(values) > 1 else 0], conditions)

    def _assign(self, assignee: Any, value: Value, conditions: Conditions) -> None:
        match assignee:
            case prim.Variable(name=name):
                index: tuple[Any, ...] = ()
            case prim.Subscript(aggregate=prim.Variable(name=name)):
                index = assignee.index_tuple
            case LinearSubscript(aggregate=prim.Variable(name=name)):
                index = (assignee.index,)
            case _:
                raise UncountableError(f"cannot translate an assignment to a {type(assignee).__name__}: {assignee}")
        addresses = [self.rec(expression, conditions, INDEX) for expression in index]
        found = self._reference(assignee, name, index, "store")
        if found is not None:
            self._access(found, str(assignee), [value, *addresses], conditions)
        elif self.kernel.arrays.get(name) is None:
            cells = self._cells(name, index)
            for place, cell in enumerate(cells):
                self._define(cell, part(value, place, len(cells), self.drafts), place, str(assignee), conditions)

    def _define(self, cell: Read, value: Value, place: int, text: str, conditions: Conditions) -> None:
        """Assign *value* to *cell*; *place* is the index of the vector member, if it is one."""
        node = value.node
        if node is None or value.is_negated:
            node = self._add(Opcode.MOVE, "", Pipeline.ALU, text, conditions, [value])
            self.drafts[node].part = place
        self.definitions.append(Definition(self._statement, cell.variable, cell.index, node, value.is_part))

    def _cells(self, name: str, index: tuple[Any, ...]) -> tuple[Read, ...]:
        """Return the cells of a private variable at *index*: all members if a vector is accessed as a whole."""
        vector = self._vector
        if vector is None or not any(vector.iname in get_dependencies(each) for each in index):
            return (Read(name, index),)
        members = ({vector.iname: number} for number in range(vector.length))
        return tuple(Read(name, tuple(substitute(each, member) for each in index)) for member in members)

    # }}}

    # {{{ instructions

    def _add(
        self,
        kind: Opcode,
        dtype: str,
        subsystem: Pipeline | MemorySpace,
        text: str,
        conditions: Conditions,
        operands: Sequence[Value] = (),
        item: Item | None = None,
    ) -> int:
        text = plain_text(text, self.kernel.function_names)
        draft = Draft(kind, dtype, subsystem, text, self._statement, conditions, list(operands))
        draft.item, draft.controls = item, self._controls
        tested = (each.expression for each in conditions)
        draft.evaluations = {each: self._evaluated.get(each) or self._evaluation(each) for each in tested}
        self.drafts.append(draft)
        return len(self.drafts) - 1

    def _do(
        self, operation: Operation, text: Any, operands: Sequence[Value], conditions: Conditions, part: int = 0
    ) -> Value:
        scalar, kind = operation.dtype, Opcode(operation.kind)
        subsystem = Pipeline.FP64 if scalar == "f64" else SUBSYSTEMS.get(kind, Pipeline.ALU)
        # Loopy's printer cannot print hardware indices.
        words = self._written_for or self._texts.get(text) or self._texts.setdefault(text, str(text))
        node = self._add(kind, scalar, subsystem, words, conditions, operands, operation)
        self.drafts[node].part = part
        names = get_dependencies(text) if isinstance(text, prim.ExpressionNode) else None
        if names is not None and names <= self.kernel.known_names and not has_call(text):
            self.drafts[node].expression = text
        return Value(node)

    def _assume_cost(self, name: str, construct: str, conditions: Conditions, operands: Sequence[Value]) -> Value:
        """Add the operations that ``typical`` gives for *name*; raises :class:`UncountableError` if it gives none."""
        node: int | None = None
        for item, number in self.typical.cost(name, construct).items():
            match item:
                case Operation():
                    node = self._do(item, name, operands, conditions).node
                case Access():
                    raise UncountableError(
                        f"the addresses of the {item.direction}s in typical[{name!r}] are unknown; "
                        "give only its operations, or use a model without a graph, such as model='linear'"
                    )
                case _:
                    raise UncountableError(f"typical[{name!r}] has {item}, which is not an operation; give operations")
            assert node is not None
            self.drafts[node].number = number
        return Value(node)

    def _members(self, expression: Any) -> int:
        """Return the number of vector members for which *expression* is computed."""
        return self._vector.length if self._vector is not None and self._vector.is_vector(expression) else 1

    def _fold(self, expr: Any, links: Sequence[Link], operands: Sequence[Value], conditions: Conditions) -> Value:
        """Return the value of *links* of *expr* applied to their *operands* from left to right."""
        value, members = operands[0], 1
        for link, operand in zip(links, operands, strict=True):
            members = max(members, 1 if link.operand is None else self._members(link.operand))
            if link is not links[0] and link.kind is None:
                value = product_with_sign(value, operand)
            elif link.kind is not None:
                value = self._combine(expr, link, [value, operand], members, conditions)
        return value

    def _combine(self, expr: Any, link: Link, operands: Sequence[Value], members: int, conditions: Conditions) -> Value:
        try:
            found = list(link_operations(link, expr))
        except UncountableError as refusal:
            return self._assume_cost(str(expr), str(refusal), conditions, operands)
        operands = operands[1:] if isinstance(expr, (prim.LogicalNot, prim.BitwiseNot)) else operands
        value = self._in_stages(found, expr, operands, members, conditions, real_functions("pow", link.result))
        if kind := machine_kind(expr, link, self._code.inferred):
            for node in nodes_of(value, self.drafts):
                self.drafts[node].kind = kind
        return value

    def _in_stages(
        self,
        found: Sequence[tuple[Operation, int]],
        expression: Any,
        operands: Sequence[Value],
        members: int,
        conditions: Conditions,
        called: Sequence[str] = (),
    ) -> Value:
        """Add the operations *found* for *expression* for each of the *members*; *called* names real functions."""

        def do(operation: Operation, its: Sequence[Value], place: int) -> Value:
            return self._do(operation, called_part(operation, called, place, expression), its, conditions, place)

        values = in_stages(found, operands, members, self.drafts, do)
        return beside_each_other(values, self.drafts) if values else Value(known=expression)

    # }}}

    # {{{ memory

    def _reference(self, expr: Any, name: str, index: tuple[Any, ...], direction: Direction) -> Reference | None:
        if isinstance(expr, LinearSubscript):
            return linear_reference(self.kernel, name, expr.index, direction)
        return reference(self.kernel, name, index, direction, self._vector.iname if self._vector else None)

    def _access(self, found: Reference, text: str, operands: Sequence[Value], conditions: Conditions) -> Value:
        node = self._add(Opcode(found.direction), f"b{found.bits}", found.space, text, conditions, operands)
        index = resolved(self.kernel, self.typical, found.index, self.kernel.known_temporaries)
        found = replace(found, index=index)
        if found.direction == "store" and self._is_loop is not None:
            found = replace(found, update=update_of(self.kernel, self.typical, found, self._is_loop))
        self.drafts[node].reference = found
        return Value(node)

    def _load(self, expr: Any, name: str, index: tuple[Any, ...], conditions: Conditions) -> Value:
        addresses = [self.rec(expression, conditions, INDEX) for expression in index]
        try:
            found = self._reference(expr, name, index, "load")
        except UncountableError as refusal:
            return self._assume_cost(name, str(refusal), conditions, addresses)
        if found is not None:
            return self._access(found, str(expr), addresses, conditions)
        if name in self.kernel.loopy_kernel.temporary_variables:
            return Value(reads=self._cells(name, index))
        return Value(known=expr)

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
            return self._load(expr, expr.name, (), conditions)
        before, self._written_for = self._written_for, expr.name
        value = self.rec(written, conditions, context)
        self._written_for = before
        if value.node is None:
            return Value(known=expr)
        self.drafts[value.node].expression = expr
        return value

    map_tagged_variable = map_variable

    def map_subscript(self, expr: prim.Subscript, conditions: Conditions, context: Context) -> Value:
        if not isinstance(expr.aggregate, prim.Variable):
            raise UncountableError(f"cannot translate a subscript of a {type(expr.aggregate).__name__}: {expr}")
        return self._load(expr, expr.aggregate.name, expr.index_tuple, conditions)

    def map_linear_subscript(self, expr: LinearSubscript, conditions: Conditions, context: Context) -> Value:
        if not isinstance(expr.aggregate, prim.Variable):
            raise UncountableError(f"cannot translate a subscript of a {type(expr.aggregate).__name__}: {expr}")
        return self._load(expr, expr.aggregate.name, (expr.index,), conditions)

    # }}}

    # {{{ operations

    def map_operation(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        links = self._code.chain(expr, context).links
        operands: list[Value] = []
        for link in links:
            again = operands[-1] if operands else Value(known=1)
            operands.append(again if link.operand is None else self.rec(link.operand, conditions, link.context))
        return self._fold(expr, links, operands, conditions)

    def map_logical_and(
        self, expr: prim.LogicalAnd | prim.LogicalOr, conditions: Conditions, context: Context
    ) -> Value:
        """Translate with short-circuit evaluation: a child is evaluated if none before has decided, or if cheap."""
        values: list[Value] = []
        for child, ways in self._selects.operands(expr, self._statement.name):
            value = Value(known=child)
            for undecided in ways:
                value = self.rec(child, conditions | undecided, context)
            values.append(value)
        return self._fold(expr, self._code.chain(expr, context).links, values, conditions)

    map_logical_or = map_logical_and

    def map_type_cast(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        """Translate the child; conversions are free, as in the paper."""
        return self.rec(expr.child, conditions, context)

    map_type_annotation = map_type_cast

    def map_if(self, expr: prim.If, conditions: Conditions, context: Context) -> Value:
        values = [self.rec(expr.condition, conditions, context)]
        before, self._controls = self._controls, (*self._controls, values[0])
        sides = self._selects.sides(expr, self._statement.name)
        values += [self.rec(side, conditions | chosen, context) for side, chosen in sides]
        self._controls = before
        return Value(self._add(Opcode.SELECT, "", Pipeline.ALU, str(expr), conditions, values))

    # }}}

    # {{{ calls

    def map_call(self, expr: prim.Call, conditions: Conditions, context: Context) -> Value:
        if not isinstance(expr.function, ResolvedFunction):
            construct = f"no count for a call of {expr.function}, which Loopy has not resolved"
            operands = [self.rec(parameter, conditions, None) for parameter in expr.parameters]
            return self._assume_cost(str(expr.function), construct, conditions, operands)
        callee = self.kernel.callables[expr.function.name]
        if isinstance(callee, IndexOfCallable):
            for index in cast("prim.Subscript", expr.parameters[0]).index_tuple:
                self.rec(index, conditions, INDEX)
            return Value(known=expr)
        operands = [self.rec(parameter, conditions, wanted) for parameter, wanted in self._code.parameters(expr)]
        return self._call(callee, expr, operands, conditions, context)

    def _call(
        self,
        callee: InKernelCallable,
        expr: prim.Call,
        operands: Sequence[Value],
        conditions: Conditions,
        context: Context,
    ) -> Value:
        types = callee.arg_id_to_dtype or {}
        results = [number_type(types[key]) for key in sorted(types) if isinstance(key, int) and key < 0]
        if isinstance(callee, (ArgExtOpCallable, SegmentOpCallable)):
            return self._do(Operation(combining(callee), results[-1].scalar), expr, operands, conditions)
        name = str(callee.name)
        if len(results) != 1 or self.typical.has(name):
            construct = f"no count for {name}, a function of {len(results)} results"
            return self._assume_cost(name, construct, conditions, operands)
        result = self._code.number(expr, context)
        argument = self._code.inferred.number(expr.parameters[0]) if expr.parameters else result
        try:
            found = list(function_operations(name, result, argument))
        except UncountableError as refusal:
            return self._assume_cost(name, str(refusal), conditions, operands)
        if not found and operands:
            return part(operands[0], REAL_PARTS.index(name), 2, self.drafts) if name in REAL_PARTS else operands[0]
        return self._in_stages(
            found, expr, operands, self._members(expr), conditions, real_functions(name, argument, result)
        )

    # }}}

    def map_lookup(self, expr: prim.Lookup, conditions: Conditions, context: Context) -> Value:
        return self._assume_cost(str(expr), f"no count for {expr}, a member of a structure", conditions, [])

    def handle_unsupported_expression(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        return self._assume_cost(str(expr), f"no count for {expr}, a {type(expr).__name__}", conditions, [])

    def map_foreign(self, expr: Any, conditions: Conditions, context: Context) -> Value:
        return Value(known=expr)
