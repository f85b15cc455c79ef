"""Arithmetic: which nodes of an expression are operations, of what kind, on which type, and how many."""

from collections.abc import Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from pymbolic.mapper import Mapper

from loopyperf.counts.data_types import Link, NumberType
from loopyperf.counts.item import Kind, Operation
from loopyperf.errors import UncountableError

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


class OperationMapper(Mapper[Result, Parameters]):
    """Maps all operations alike, save for those that do not evaluate all of their operands."""

    def map_operation(self, expr: Any, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Return what *expr* is mapped to; subclasses say."""
        raise NotImplementedError

    def map_sum(self, expr: Any, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return self.map_operation(expr, *args, **kwargs)

    map_product = map_sum
    map_min = map_sum
    map_max = map_sum
    map_quotient = map_sum
    map_floor_div = map_sum
    map_remainder = map_sum
    map_power = map_sum
    map_comparison = map_sum
    map_bitwise_and = map_sum
    map_bitwise_or = map_sum
    map_bitwise_xor = map_sum
    map_bitwise_not = map_sum
    map_left_shift = map_sum
    map_right_shift = map_sum
    map_logical_not = map_sum


# {{{ complex operations as the real ones that they are made of
#
# The decompositions are those of the C code that Loopy generates: of ``pyopencl-complex.h`` and of Loopy's expression
# mapper for PyOpenCL, which handles operands from left to right and keeps those real that are.


RealOperations = Mapping[Kind, int]
"""kind -> number"""

ADD_COMPLEX: RealOperations = {"add": 2}
ADD_REAL: RealOperations = {"add": 1}
MULTIPLY_COMPLEX: RealOperations = {"mul": 4, "add": 2}
MULTIPLY_REAL: RealOperations = {"mul": 2}
DIVIDE_COMPLEX: RealOperations = {"div": 3, "mul": 4, "add": 3}
DIVIDE_REAL_BY_COMPLEX: RealOperations = {"div": 3, "mul": 3, "add": 1}
DIVIDE_BY_REAL: RealOperations = {"div": 2}
POWER: RealOperations = {"special": 6, "mul": 6, "add": 2}
"""log, hypot, atan2, exp, sin and cos"""
POWER_TO_REAL: RealOperations = {"special": 6, "mul": 4}
COMPARE: RealOperations = {"compare": 2, "logic": 1}
FUNCTIONS: Mapping[str, RealOperations] = {
    "abs": {"special": 1},
    "sqrt": {"special": 2, "mul": 1, "add": 1, "div": 2},
    "exp": {"special": 3, "mul": 2},
    "log": {"special": 3},
    "sin": {"special": 4, "mul": 2},
    "cos": {"special": 4, "mul": 2},
    "sinh": {"special": 4, "mul": 2},
    "cosh": {"special": 4, "mul": 2},
    "tan": {"special": 4, "mul": 2, "add": 1, "div": 2},
    "tanh": {"special": 4, "add": 1, "div": 2},
    "pow": POWER,
}
REAL_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "abs": ("hypot",),
    "sqrt": ("hypot", "sqrt"),
    "exp": ("exp", "sin", "cos"),
    "log": ("hypot", "log", "atan2"),
    **dict.fromkeys(("sin", "cos"), ("sin", "cosh", "cos", "sinh")),
    **dict.fromkeys(("sinh", "cosh"), ("sinh", "cos", "cosh", "sin")),
    "tan": ("sin", "cos", "sinh", "cosh"),
    "tanh": ("sin", "cos", "sinh", "cosh"),
    "pow": ("log", "hypot", "atan2", "exp", "sin", "cos"),
}
"""the special functions of real numbers among them"""
OPERATIONS: Mapping[tuple[Kind, bool, bool], RealOperations] = {
    ("add", True, True): ADD_COMPLEX,
    ("add", True, False): ADD_REAL,
    ("add", False, True): ADD_REAL,
    ("mul", True, True): MULTIPLY_COMPLEX,
    ("mul", True, False): MULTIPLY_REAL,
    ("mul", False, True): MULTIPLY_REAL,
    ("div", True, True): DIVIDE_COMPLEX,
    ("div", True, False): DIVIDE_BY_REAL,
    ("div", False, True): DIVIDE_REAL_BY_COMPLEX,
    ("pow", True, True): POWER,
    ("pow", True, False): POWER_TO_REAL,
    ("pow", False, True): POWER,
    **{("compare", *sides): COMPARE for sides in ((True, True), (True, False), (False, True))},
}
"""by whether the left and the right operand are complex"""
PARTS = frozenset({"real", "imag", "conj"})
"""free: they choose registers, or change a sign"""


def complex_operation(expression: Any, kind: Kind, left: bool, right: bool) -> RealOperations:
    """Return the real operations of one of *kind* in *expression*; *left* and *right* say which operand is complex.

    Raises :class:`UncountableError` for a kind that has no meaning on complex numbers.
    """
    if (kind, left, right) not in OPERATIONS:
        raise UncountableError(f"no count for {type(expression).__name__} on complex numbers in {expression}")
    return OPERATIONS[kind, left, right]


def complex_function(name: str) -> RealOperations:
    """Return the real operations of a call of *name* on a complex number; raises :class:`UncountableError`."""
    if name in PARTS:
        return {}
    if name not in FUNCTIONS:
        raise UncountableError(f"no count for {name} of a complex number")
    return FUNCTIONS[name]


def real_functions(name: str, *types: NumberType) -> tuple[str, ...]:
    """Return the special functions of real numbers that *name* calls where one of its *types* is complex."""
    return REAL_FUNCTIONS.get(name, ()) if any(each.is_complex for each in types) else ()


# }}}


# {{{ operations by kind and type


POWER_FUNCTIONS = frozenset({"pow", "powf", "pown", "powr"})
MIN_MAX_FUNCTIONS = frozenset({"min", "max", "fmin", "fmax", "fminf", "fmaxf"})
FUSED_FUNCTIONS: Mapping[str, Mapping[Kind, int]] = {
    "fma": {"mul": 1, "add": 1},
    "mad": {"mul": 1, "add": 1},
    "clamp": {"min/max": 2},
}
"""functions that are several plain operations"""
SIGN_FUNCTIONS = frozenset({"abs", "fabs", "fabsf"})
"""an operand modifier of the machine, free like a unary minus"""


def link_operations(link: Link, expression: Any) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that combine the operand of *link*, of *expression*, with what is before it: their numbers.

    A subtraction is one addition; unary minus, and a product with the literal -1, are free; ``x**2`` is one
    exponentiation (Stevens and Klöckner, section 2.2).
    """
    if link.kind is None:
        return
    if link.result.is_complex:
        left = link.left is not None and link.left.is_complex
        yield from _of_kinds(complex_operation(expression, link.kind, left, link.right.is_complex), link.result)
    else:
        yield Operation(link.kind, link.result.scalar), link.result.components


def function_operations(name: str, result: NumberType, argument: NumberType) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that a call of the function *name* performs; signs, and parts of complex numbers, are free.

    *argument* is the type of what it is called with first: what asks something of a real number, as ``isnan`` does, and
    answers with an integer, works in that, and the dot product of two vectors is as many products, and their sum.
    """
    if argument.is_complex or result.is_complex:
        yield from _of_kinds(complex_function(name), argument)
    elif name in FUSED_FUNCTIONS:
        yield from _of_kinds(FUSED_FUNCTIONS[name], result)
    elif name == "dot":
        yield Operation("mul", result.scalar), argument.components
        if argument.components > 1:
            yield Operation("add", result.scalar), argument.components - 1
    elif name not in SIGN_FUNCTIONS | PARTS and not name.startswith("make_"):  # which build vectors
        kind = "pow" if name in POWER_FUNCTIONS else "min/max" if name in MIN_MAX_FUNCTIONS else "special"
        works_in = argument if result.is_integral else result
        yield Operation(kind, works_in.scalar), works_in.components


def _of_kinds(numbers: Mapping[Kind, int], made_of: NumberType) -> Iterator[tuple[Operation, int]]:
    for kind, number in numbers.items():
        yield Operation(kind, made_of.scalar), number * made_of.components


# }}}
