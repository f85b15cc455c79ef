"""Expressions of loop iterations as plain numbers for a stack machine.

Trip counts, conditions, and the sources of edges are expressions (:mod:`loopyperf.idg.program`). Each becomes a
:class:`Code`: operations in the order in which a stack evaluates them. Nearly all are one operation: a constant, or the
iteration of a loop plus a constant.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import add, mul
from typing import Any, cast

import pymbolic.primitives as prim
from pymbolic.mapper import Mapper

from loopyperf.errors import GraphError
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Item, Iteration, Loop, loops_in
from loopyperf.polyhedral.affine import Affine, Symbol
from loopyperf.polyhedral.expressions import Same

CONSTANT, PASS, ADD, MULTIPLY, FLOOR, REMAINDER, MINIMUM, MAXIMUM = range(8)
EQUAL, UNEQUAL, LESS, AT_MOST, AND, OR, NOT, CHOOSE = range(8, 16)

COMPARISONS = {"==": EQUAL, "!=": UNEQUAL, "<": LESS, "<=": AT_MOST}
SWAPPED = {">": LESS, ">=": AT_MOST}


KNOWN = 1 << 9
"""size of the cache of encoded expressions"""
PassExpression = Any
"""an integer, or a pymbolic expression of loop iterations by name"""

Change = Callable[[Any, Sequence[str]], Any]
"""function of (expression, names of the loops around it) that returns another expression"""
KnownPasses = dict[tuple[Same[tuple[Any, ...]], tuple[str, ...]], tuple[Any, ...]]
"""(iterations that edges come from, names of the loops around their targets) -> converted iterations; most edges share
them"""


@dataclass(frozen=True, slots=True)
class Code:
    """An expression of the iterations of the loops around it."""

    operations: tuple[tuple[int, int, int], ...]
    """(operation, level of a loop with 0 for the outermost, constant or addend)"""
    refusal: str = ""
    """why the expression cannot be encoded; empty if it can"""

    def lag(self, level: int) -> int | None:
        """Return the iteration of the loop at *level* minus this expression; None if that is no constant."""
        match self.operations:
            case ((operation, loop, added),) if (operation, loop) == (PASS, level):
                return -added
            case _:
                return None

    @property
    def constant(self) -> int | None:
        """Return its value if it is a constant; otherwise None."""
        match self.operations:
            case ((operation, _, number),) if operation == CONSTANT:
                return number
            case _:
                return None

    @property
    def levels(self) -> set[int]:
        """Return the levels of the loops on whose iterations it depends."""
        return {level for operation, level, _ in self.operations if operation == PASS}

    def expression(self, names: Sequence[str]) -> PassExpression:
        """Return it as a pymbolic expression; *names* are those of the loops, outermost first."""
        stack: list[Any] = []
        for operation, level, number in self.operations:
            if operation == CONSTANT:
                stack.append(number)
            elif operation == PASS:
                loop = prim.Variable(names[level])
                stack.append(loop + number if number else loop)
            elif operation == NOT:
                stack.append(prim.LogicalNot(stack.pop()))
            elif operation == CHOOSE:
                *stack, condition, then, otherwise = stack
                stack.append(prim.If(condition, then, otherwise))
            else:
                *stack, one, other = stack
                stack.append(_MADE[operation](one, other))
        return stack[-1]


_MADE: Mapping[int, Callable[[Any, Any], Any]] = {
    ADD: add,
    MULTIPLY: mul,
    FLOOR: prim.FloorDiv,
    REMAINDER: prim.Remainder,
    MINIMUM: lambda one, other: prim.Min((one, other)),
    MAXIMUM: lambda one, other: prim.Max((one, other)),
    EQUAL: lambda one, other: prim.Comparison(one, "==", other),
    UNEQUAL: lambda one, other: prim.Comparison(one, "!=", other),
    LESS: lambda one, other: prim.Comparison(one, "<", other),
    AT_MOST: lambda one, other: prim.Comparison(one, "<=", other),
    AND: lambda one, other: prim.LogicalAnd((one, other)),
    OR: lambda one, other: prim.LogicalOr((one, other)),
}
"""operation -> function that builds the pymbolic expression from two operands"""


def coded(expression: PassExpression | Code, names: Sequence[str]) -> Code | int | None:
    """Return *expression* without pymbolic; *names* are those of the loops that it may refer to, outermost first.

    An unsupported expression raises an error only when it is executed.
    """
    return expression if expression is None or isinstance(expression, (int, Code)) else _coded(expression, tuple(names))


@lru_cache(maxsize=KNOWN)
def _coded(expression: PassExpression, names: tuple[str, ...]) -> Code:
    operations: list[tuple[int, int, int]] = []

    def append(operation: int, level: int = 0, number: int = 0) -> None:
        operations.append((operation, level, number))

    try:
        _Encoder(append, names)(expression)
    except GraphError as error:
        return Code((), str(error))
    return Code(tuple(operations))


def decoded(expression: Code | int | None, names: Sequence[str]) -> PassExpression:
    """Return the expression from which :func:`coded` made *expression*."""
    return expression.expression(names) if isinstance(expression, Code) else expression


def coded_graph(graph: Idg) -> Idg:
    """Return *graph* with all expressions as :class:`Code`; the same object if they already are."""
    return graph if _is_coded(graph) else _in_graph(graph, coded, coded)


def _is_coded(graph: Idg) -> bool:
    conditions = [each.condition for each in (*graph.instructions, *graph.edges) if each.condition is not None]
    trips = [loop.trips for loop in loops_in(graph.body)]
    iterations = (each for edge in graph.edges for each in edge.iterations)
    return all(isinstance(each, (Code, int)) for each in (*conditions, *trips, *iterations))


def decoded_graph(graph: Idg) -> Idg:
    """Return *graph* with all expressions as pymbolic expressions."""
    return _in_graph(graph, decoded, _iteration)


def _in_graph(graph: Idg, change: Change, of_pass: Change) -> Idg:
    names, known = [tuple([loop.name for loop in loops]) for loops in graph.loops_around], KnownPasses()
    instructions = tuple(
        each if each.condition is None else replace(each, condition=change(each.condition, own))
        for each, own in zip(graph.instructions, names, strict=True)
    )
    edges = tuple([_changed(edge, names[edge.target], change, of_pass, known) for edge in graph.edges])
    return Idg(instructions, edges, _in_body(graph.body, (), change))


def decoded_edge(edge: Edge, names: tuple[str, ...]) -> Edge:
    """Return *edge* with pymbolic expressions and affine iterations; *names* are the loops around its target."""
    return _changed(edge, names, decoded, _iteration, KnownPasses())


def _iteration(code: Code | int | Iteration, names: Sequence[str]) -> Iteration:
    match code:
        case int():
            return Affine((), code)
        case Affine():
            return code
        case Code(operations=((operation, level, number),)) if operation in (CONSTANT, PASS):
            return Affine(() if operation == CONSTANT else ((names[level], 1),), number)
        case _:
            return Affine.around(code.expression(names))


def decoded_body(body: Sequence[Item], names: Sequence[str] = ()) -> tuple[Item, ...]:
    """Return *body* with pymbolic expressions; *names* are those of the loops around it."""
    return _in_body(body, names, decoded)


def _changed(edge: Edge, names: tuple[str, ...], change: Change, of_pass: Change, known: KnownPasses) -> Edge:
    if not edge.iterations and edge.condition is None:
        return edge
    key = Same(edge.iterations), names
    if key not in known:
        known[key] = tuple([of_pass(each, names) for each in edge.iterations])
    condition = change(edge.condition, names)
    return Edge(edge.source, edge.target, edge.distance, known[key], condition, edge.through, edge.operand)


def codes_of(edge: Edge) -> tuple[Code | int, ...]:
    """Return the iterations that *edge* of a coded graph comes from."""
    return cast("tuple[Code | int, ...]", edge.iterations)


def _in_body(body: Sequence[Item], names: Sequence[str], change: Change) -> tuple[Item, ...]:
    return tuple(
        replace(item, trips=change(item.trips, names), body=_in_body(item.body, (*names, item.name), change))
        if isinstance(item, Loop)
        else item
        for item in body
    )


class ExpressionTable:
    """The operations of all expressions of some graphs."""

    def __init__(self) -> None:
        """Create an empty table."""
        self.begins: list[int] = [0]
        """start of each expression among the operations, and the end of the last one"""
        self.operations: list[tuple[int, int, int]] = []
        """(operation, level of a loop, constant or addend)"""
        self._known: dict[Code | int, int] = {}

    def add(self, expression: Code | int) -> int:
        """Return the number of *expression*; raises :class:`GraphError` if the core has no operation for it."""
        if expression not in self._known:
            code = expression if isinstance(expression, Code) else Code(((CONSTANT, 0, int(expression)),))
            if code.refusal:
                raise GraphError(code.refusal)
            self._known[expression] = len(self.begins) - 1
            self.operations += code.operations
            self.begins.append(len(self.operations))
        return self._known[expression]


class _Encoder(Mapper[None, []]):
    """Appends the operations of an expression in postfix order."""

    def __init__(self, append: Callable[..., None], names: Sequence[str]) -> None:
        super().__init__()
        self.append, self.names = append, list(names)

    def __call__(self, expression: Any) -> None:
        """Append the operations of *expression*; a loop's iteration plus a constant is one operation."""
        if isinstance(expression, (bool, int)):
            return self.append(CONSTANT, 0, int(expression))
        if isinstance(expression, prim.Sum) and (known := Affine.of(expression)) is not None:
            expression = known
        if isinstance(expression, Affine):
            return self._sum(cast("Affine[Symbol]", expression))
        try:
            return super().__call__(expression)
        except (NotImplementedError, ValueError) as error:
            what = type(expression).__name__
            raise GraphError(f"the simulator cannot evaluate {expression}: unsupported operation {what}") from error

    def _sum(self, known: Affine[Symbol]) -> None:
        match known:
            case Affine(terms=()):
                self.append(CONSTANT, 0, known.constant)
            case Affine(terms=((str(name), 1),)):
                self.append(PASS, self._level(name), known.constant)
            case _:
                super().__call__(known.expression)

    def map_variable(self, expr: prim.Variable) -> None:
        self.append(PASS, self._level(expr.name))

    def map_sum(self, expr: prim.Sum) -> None:
        self._fold(ADD, expr.children)

    def map_product(self, expr: prim.Product) -> None:
        self._fold(MULTIPLY, expr.children)

    def map_min(self, expr: prim.Min) -> None:
        self._fold(MINIMUM, expr.children)

    def map_max(self, expr: prim.Max) -> None:
        self._fold(MAXIMUM, expr.children)

    def map_logical_and(self, expr: prim.LogicalAnd) -> None:
        self._fold(AND, expr.children)

    def map_logical_or(self, expr: prim.LogicalOr) -> None:
        self._fold(OR, expr.children)

    def map_logical_not(self, expr: prim.LogicalNot) -> None:
        self._fold(NOT, [expr.child])
        self.append(NOT)

    def map_floor_div(self, expr: prim.FloorDiv) -> None:
        self._divide(FLOOR, expr)

    def map_remainder(self, expr: prim.Remainder) -> None:
        self._divide(REMAINDER, expr)

    def map_comparison(self, expr: prim.Comparison) -> None:
        operator = str(expr.operator)
        if operator in SWAPPED:
            return self._fold(SWAPPED[operator], [expr.right, expr.left])
        return self._fold(COMPARISONS[operator], [expr.left, expr.right])

    def map_if(self, expr: prim.If) -> None:
        self(expr.condition)
        self(expr.then)
        self(expr.else_)
        self.append(CHOOSE)

    def _fold(self, operation: int, children: Sequence[Any]) -> None:
        for number, child in enumerate(children):
            self(child)
            if number:
                self.append(operation)

    def _divide(self, operation: int, expr: Any) -> None:
        # All parts of a condition are always evaluated, so a divisor that is not a number might be 0.
        if not isinstance(expr.denominator, int) or expr.denominator <= 0:
            raise GraphError(f"the simulator cannot evaluate {expr}: the divisor must be a positive integer")
        self._fold(operation, [expr.numerator, expr.denominator])

    def _level(self, name: str) -> int:
        if name not in self.names:
            raise GraphError(f"no enclosing loop is named {name!r}; enclosing loops are {self.names}")
        return self.names.index(name)
