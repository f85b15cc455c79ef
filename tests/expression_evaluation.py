"""Evaluation of C expressions with numbers that count operations."""

import operator
import re
from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol

import numpy as np
import pymbolic.primitives as prim
from loopy.kernel.data import AddressSpace

from tests.c_expressions import Binary, Call, Cast, Choice, Literal, Name, Node, Signed, parsed
from tests.counting_numbers import Complex, Number, Real, Tally, Vector
from tests.executions import both, neither
from tests.generated_expressions import Mark, Writer

FLOAT32, FLOAT64, INTEGER = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)
TYPES = {"float": FLOAT32, "double": FLOAT64, "half": np.dtype(np.float16)}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}
FREE = re.compile(r"f?(min|max|abs)f?|clamp|_lpy_(real|imag|conj)_\w+|lpy_(min|max)_\w+")
"""functions that only select a value or change a sign"""
OF_INTEGERS = re.compile(r"loopy_(floor_div|mod|pow_u?int)\w*|[lg]id|[tb]Idx|indexof\w*")
POWER = re.compile(r"pow(f|f32|f64)?|loopy_pow_(float32|float64)_\w+")
COMPLEX = re.compile(r"c(float|double)_(\w+)")
DOUBLE = re.compile(r"erf|\w*[^f]")
"""functions of doubles in plain C, which has no overloading"""
COMPLEX_OPERATORS = {
    **dict.fromkeys(("add", "addr", "radd"), operator.add),
    **dict.fromkeys(("mul", "mulr", "rmul"), operator.mul),
    **dict.fromkeys(("divide", "divider", "rdivide"), operator.truediv),
    **dict.fromkeys(("pow", "powr"), operator.pow),
}


class VisitorProtocol(Protocol):
    """What :class:`TextEvaluator` requires of a visitor of expressions at points, some of which are active."""

    def loaded(self, expr: Any, active: np.ndarray, tally: Tally) -> Number:
        """Load *expr* at the *active* points; return a number of its type."""
        ...

    def expression(self, expr: Any, active: np.ndarray, context: str | None) -> None:
        """Evaluate *expr* at the *active* points."""
        ...

    def junction(self, expr: Any, active: np.ndarray, context: str | None) -> None:
        """Evaluate the children of *expr* that are needed, at the *active* points."""
        ...

    def holds(self, condition: Any) -> np.ndarray:
        """Return at which points *condition* holds."""
        ...

    def did(self, kind: str, dtype: np.dtype[Any], times: int, active: np.ndarray) -> None:
        """Record operations at the *active* points."""
        ...


class TextEvaluator:
    """Evaluates the text of *writer* and reports the operations to *visitor*."""

    def __init__(self, writer: Writer, visitor: VisitorProtocol) -> None:
        self.writer, self.visitor = writer, visitor
        self.tally = Tally()
        self.numbers: dict[str, Number] = {}
        """of the marks evaluated so far: an expression that the text repeats is computed once"""
        self.always = Counter[Any]()
        """expressions that are loaded whatever the conditions of the surrounding choices"""
        self.again: frozenset[Any] = frozenset()
        """expressions that a side of a select uses, but that are loaded elsewhere"""

    def evaluated(self, text: str, active: np.ndarray) -> Number:
        """Return the value of *text*, evaluated at the *active* points."""
        self.always = self.always_loaded(parsed(text))
        result = self.value(parsed(text), active)
        self.report_operations(active)
        return result

    def report_operations(self, active: np.ndarray) -> None:
        """Report the operations since the last call, which were executed at the *active* points."""
        for (kind, dtype), times in self.tally.items():
            self.visitor.did(kind, dtype, times, active)
        self.tally.clear()

    def value(self, node: Node, active: np.ndarray) -> Any:
        match node:
            case Name(name):
                return self.named(name, active)
            case Literal(text):
                return Real(_literal_type(text), self.tally)
            case Signed(_, operand):
                return self.value(operand, active)
            case Binary():
                return self.binary(node, active)
            case Choice():
                return self.choice(node, active)
            case Cast(name, operand):
                inside, dtype = self.value(operand, active), TYPES.get(name)
                is_vector = name[-1].isdigit() and isinstance(inside, Vector)
                return inside if is_vector else inside.converted(dtype or INTEGER)
            case Call(function, parameters):
                return self.call(function, [self.value(each, active) for each in parameters], parameters)

    # {{{ names

    def named(self, name: str, active: np.ndarray) -> Any:
        mark = self.writer.marks.get(name)
        if mark is None:
            return Real(FLOAT32 if name in ("INFINITY", "NAN") else INTEGER, self.tally)
        if name not in self.numbers:
            self.numbers[name] = self.marked(mark, active)
        return self.numbers[name]

    def marked(self, mark: Mark, active: np.ndarray) -> Number:
        match mark.kind:
            case "load":
                there = active & False if mark.expression in self.again else active
                return self.visitor.loaded(mark.expression, there, self.tally)
            case "junction":
                self.visitor.junction(mark.expression, active, mark.context)
                return Real(INTEGER, self.tally)
            case _:
                return self.value(parsed(self.writer.text(mark.expression, mark.context)), active)

    # }}}

    # {{{ operators

    def binary(self, node: Binary, active: np.ndarray) -> Any:
        left = self.value(node.left, active)
        repeated = node.right.name if isinstance(node.right, Name) and node.right.name in self.numbers else ""
        right = self.value(node.right, active)
        if node.operator not in ARITHMETIC:
            return Real(INTEGER, self.tally)
        if node.operator == "*" and repeated.startswith("lpp_first"):  # a square, which counts as a power
            return left**right
        if node.operator == "*" and (repeated.startswith("lpp_later") or _changes_sign(node.left, node.right)):
            return _like(left, right)
        return ARITHMETIC[node.operator](left, right)

    def choice(self, node: Choice, active: np.ndarray) -> Any:
        assert isinstance(node.condition, Name), f"{node.condition} is no mark"
        mark = self.writer.marks[node.condition.name]
        self.report_operations(active)
        self.visitor.expression(mark.expression, active, mark.context)
        holds = self.visitor.holds(mark.expression)
        before = self.always, self.again
        own = self.always_loaded(node)
        certain = self.always - own + self.always_loaded(node.condition)
        self.always |= own
        sides = ((node.then, both(active, holds)), (node.otherwise, both(active, neither(holds))))
        is_select = holds.dtype != bool and self.is_cheap(node.then) and self.is_cheap(node.otherwise)
        values = list[Any]()
        for side, there in ((node.then, active), (node.otherwise, active)) if is_select else sides:
            if is_select:
                self.again |= (certain if side is node.then else self.always).keys()
            values.append(self.value(side, there))
            self.report_operations(there)
        self.always, self.again = before
        return _like(*values)

    def always_loaded(self, node: Node) -> Counter[Any]:
        """Return how often expressions are loaded whatever the conditions of choices in *node*."""
        match node:
            case Name(name) if mark := self.writer.marks.get(name):
                if mark.kind == "load":
                    return Counter({mark.expression: 1})
                if mark.kind == "junction":
                    return Counter()
                return self.always_loaded(parsed(self.writer.text(mark.expression, mark.context)))
            case Choice(condition, then, otherwise):
                return self.always_loaded(condition) + (self.always_loaded(then) & self.always_loaded(otherwise))
            case _:
                return sum(map(self.always_loaded, _parts(node)), Counter[Any]())

    def is_cheap(self, node: Node) -> bool:
        """Return whether a compiler computes *node* whatever the condition of the choice around it."""
        match node:
            case Name(name) if mark := self.writer.marks.get(name):
                if mark.kind == "load":
                    is_global = _name_of(mark.expression) in self.writer.kernel.arrays.keys() - self._local_arrays
                    return not is_global or mark.expression in self.always
                if mark.kind == "junction":
                    return False
                return self.is_cheap(parsed(self.writer.text(mark.expression, mark.context)))
            case Binary(sign, _, _) if sign in "/%":
                return False
            case Call(function, _) if not FREE.fullmatch(function):
                return False
            case _:
                return all(map(self.is_cheap, _parts(node)))

    @property
    def _local_arrays(self) -> frozenset[str]:
        arrays = self.writer.kernel.arrays
        return frozenset(name for name, each in arrays.items() if each.address_space == AddressSpace.LOCAL)

    # }}}

    # {{{ functions

    def call(self, function: str, values: list[Any], written: tuple[Node, ...]) -> Any:
        if found := COMPLEX.fullmatch(function):
            parts = [value.converted(TYPES[found[1]]) for value in values]
            return _like(*parts) if _changes_sign(*written) and "mul" in found[2] else _complex(found[2], parts)
        if OF_INTEGERS.fullmatch(function):
            return Real(INTEGER, self.tally)
        if FREE.fullmatch(function):
            return _like(*values)
        is_integer = isinstance(values[0], Real) and values[0].dtype.kind != "f"
        if self.writer.is_plain_c and DOUBLE.fullmatch(function) and not is_integer:
            values = [value.converted(FLOAT64) for value in values]
        if found := POWER.fullmatch(function):
            width = next((FLOAT32 if name == "f" or "32" in name else FLOAT64 for name in found.groups() if name), None)
            base, exponent = (value.converted(width) if width else value for value in values)
            has_integer = function == "pow" and INTEGER.kind in (base.dtype.kind, exponent.dtype.kind)
            return base.converted(FLOAT64) ** exponent if has_integer else base**exponent
        if function.startswith("make_"):
            return Vector(tuple(values))
        if function == "dot":
            products = values[0] * values[1]
            return reduce(operator.add, products.members) if isinstance(products, Vector) else products
        if isinstance(values[0], Complex):  # functions of C such as cabsf
            name = function.removesuffix("f")
            return _complex(name if name == "conj" else name.removeprefix("c"), values)
        return values[0].special() if len(values) == 1 else _like(*values).special()

    # }}}


def _parts(node: Node) -> tuple[Node, ...]:
    match node:
        case Signed(_, operand) | Cast(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return left, right
        case Choice(condition, then, otherwise):
            return condition, then, otherwise
        case Call(_, parameters):
            return parameters
        case _:
            return ()


def _name_of(access: Any) -> str:
    variable = access if isinstance(access, prim.Variable) else access.aggregate
    return str(variable.name)


def _complex(function: str, parts: list[Any]) -> Any:
    if function in COMPLEX_OPERATORS:
        return COMPLEX_OPERATORS[function](*parts)
    match function:
        case "fma":
            return parts[0] * parts[1] + parts[2]
        case "new" | "fromreal":
            return Complex(parts[0], parts[-1])
        case "cast" | "conj":
            return parts[0]
        case "real" | "imag":
            return parts[0].real
        case _:
            return getattr(parts[0], function)()


def _like(first: Any, *others: Any) -> Any:
    """Return a number of the type to which C converts the arguments."""
    if isinstance(first, Real):
        several = [other for other in others if not isinstance(other, Real)]
        return several[0] if several else first.with_others(*others)
    return first


def _changes_sign(*operands: Node) -> bool:
    """Return whether one of the factors only changes the sign."""
    return any(map(_is_sign, operands))


def _is_sign(node: Node) -> bool:
    match node:
        case Signed("-", Literal(text)):
            return float(text.rstrip("flu")) == 1
        case Binary("*", left, right):
            return _is_sign(left) and _is_sign(right)
        case _:
            return False


def _literal_type(text: str) -> np.dtype[Any]:
    if text.endswith("f"):
        return FLOAT32
    return FLOAT64 if re.search(r"[.e]", text) else INTEGER
