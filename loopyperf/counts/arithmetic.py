"""Arithmetic operations in expressions: their kinds, operand types and numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
import pymbolic.primitives as prim
from loopy.target import cuda, opencl
from loopy.type_inference import TypeReader
from loopy.types import LoopyType, NumpyType
from pymbolic.mapper import Mapper

from loopyperf.counts.item import Kind, Operation
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.polyhedral.expressions import Same


@dataclass(frozen=True, slots=True)
class NumberType:
    """A real or complex number type, or a vector of them."""

    scalar: str
    """scalar type, e.g. ``"f32"``; of a complex number, the type of its real and imaginary parts"""
    components: int = 1
    """vector length; 1 for a scalar"""
    is_complex: bool = False

    @property
    def is_integral(self) -> bool:
        """Return whether this is an integer or a vector of integers."""
        return self.scalar[0] in "iu"


def number_type(dtype: LoopyType) -> NumberType:
    """Return *dtype* as a :class:`NumberType`; raises :class:`UncountableError` if it is not a number."""
    if isinstance(dtype, NumpyType):
        scalar, components = _scalar_and_count(dtype.dtype)
        kind, size = scalar.kind, scalar.itemsize
        if kind == "c":
            return NumberType(f"f{4 * size}", components, is_complex=True)
        if kind in "fiub":
            return NumberType(f"{'u' if kind == 'b' else kind}{8 * size}", components)
    raise UncountableError(f"no count for arithmetic on type {dtype}; use integer, real or complex numbers")


@cache
def converted(left: NumberType, right: NumberType) -> NumberType:
    """Return the type in which C evaluates an operation on *left* and *right* (usual arithmetic conversions).

    A vector operand converts the other operand to its element type.
    """
    is_complex = left.is_complex or right.is_complex
    if left.components != right.components:
        vector = max(left, right, key=lambda each: each.components)
        return NumberType(vector.scalar, vector.components, is_complex)
    floats = [each.scalar for each in (left, right) if not each.is_integral]
    scalars = floats or [left.scalar, right.scalar, *(["i32"] if left.components == 1 else [])]
    return NumberType(max(scalars, key=lambda scalar: (int(scalar[1:]), scalar)), left.components, is_complex)


def _scalar_and_count(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], int]:
    for vectors in (opencl, cuda) if dtype.fields else ():
        types: Any = vectors.vec
        known: Mapping[Any, tuple[Any, int]] = types.type_to_scalar_and_count
        if dtype in known:
            scalar, count = known[dtype]
            return np.dtype(scalar), count
    return dtype, 1


# {{{ type contexts of literals


Context = str | None
"""type context of a literal: ``"f"`` or ``"d"`` for floats, ``"i"`` or ``"b"`` for integers"""
INDEX = "index"
"""type context of an array index: an integer, like ``"i"``, but Loopy rewrites the index, so only its value matters"""
INTEGERS = ("i", "b", INDEX)
FLOATS = {"f": NumberType("f32"), "d": NumberType("f64")}
INT = NumberType("i32")


def literal_type(number: Any, context: Context) -> NumberType | None:
    """Return the type of *number* in generated code; None if it is the type that Loopy infers.

    Python numbers take the type of the context; NumPy numbers and complex numbers keep their own type. See
    ``map_constant`` of ``ExpressionToCExpressionMapper`` in ``loopy/target/c/codegen/expression.py``.
    """
    if isinstance(number, (complex, np.complexfloating)):
        return None
    if isinstance(number, (float, np.floating)) and not np.isfinite(cast("float", number)):
        return FLOATS["f"]
    return _type_of_numpys(number) if isinstance(number, np.generic) else _wanted(number, context)


def _type_of_numpys(number: Any) -> NumberType:
    if isinstance(number, np.floating):
        return NumberType(f"f{8 * number.itemsize}")
    if isinstance(number, np.bool_):
        return INT
    bounds: Any = np.iinfo(cast("type[Any]", type(number)))
    return NumberType(f"{'i' if bounds.min else 'u'}{64 if bounds.max >= 2**31 else 32}")


def _wanted(number: Any, context: Context) -> NumberType | None:
    if context in FLOATS:
        return FLOATS[context]
    is_integer = context in INTEGERS or number == int(number)
    return (INT if abs(int(number)) < 2**31 else NumberType("i64")) if is_integer else None


# }}}


# {{{ chains: operands combined from left to right, each step in the type that C gives


class Link(NamedTuple):
    """An operand of a chain, and the operation that combines it with the operands before it."""

    operand: Any
    """the operand; None if an earlier operand is used again, as in a square"""
    context: Context
    """type context in which the operand is written"""
    right: NumberType
    """type of the operand"""
    result: NumberType
    """type in which the operation is evaluated; for the first operand, its own type"""
    kind: Kind | None = None
    """kind of the operation; None for the first operand and for a factor of -1"""
    left: NumberType | None = None
    """type of the value accumulated before this operand"""


@dataclass(frozen=True, slots=True)
class Chain:
    """The evaluation of an expression in generated code: operands combined from left to right."""

    links: tuple[Link, ...]
    result: NumberType
    operator: str | None = None
    """operator between the operands, if the chain gets no parentheses inside a chain of the same operator"""


def as_operand(chain: Chain, expression: Any, context: Context) -> Link:
    """Return *expression*, which is evaluated as *chain*, as a single operand."""
    first = chain.links[0]
    return first if first.operand is expression else Link(expression, context, chain.result, chain.result)


def joined(before: Sequence[Link], link: Link, kind: Kind, functions: NumberType | None) -> Link:
    """Return *link* as it follows the links *before* it.

    *functions* is the result type if complex operations are function calls, None if they are C operators.
    """
    if not before:
        return link
    left = before[-1].result
    result = converted(left, link.right)
    result = functions if functions and result.is_complex else result
    changes_sign = kind == "mul" and (
        is_minus_one(link.operand) or all(is_minus_one(earlier.operand) for earlier in before)
    )
    joint = "pow" if link.kind == "pow" else None if changes_sign else kind
    return Link(link.operand, link.context, link.right, result, joint, left)


def is_minus_one(expression: Any) -> bool:
    """Return whether *expression* is the literal -1; multiplying by it only changes the sign."""
    return isinstance(expression, (int, float, np.number)) and prim.is_zero(expression + 1)


# }}}


# {{{ types of expressions, read once per node


class ExpressionTypes(TypeReader):
    """Loopy's type reader with a cache keyed by the identity of nodes.

    Loopy's own cache compares nodes by equality and confuses ``x*numpy.float32(1)`` with ``x*numpy.float64(1)``.
    Hashing an expression and its keywords also takes longer than reading its type.
    """

    def __init__(self, kernel: Kernel) -> None:
        """Read types of expressions in *kernel*."""
        super().__init__(kernel.loopy_kernel, kernel.callables)

    def get_cache_key(self, expr: Any, *args: Any, **kwargs: Any) -> tuple[Same[Any], bool]:
        """Return a cache key that only the node *expr* has."""
        return Same(expr), bool(kwargs.get("return_tuple", False))

    def combine(self, values: Iterable[Sequence[LoopyType]]) -> Sequence[LoopyType]:
        """Return the result type of an operation on *values*: their common type if they agree."""
        known = list(values)
        types = [dtype for found in known for dtype in found]
        if types and all(dtype == types[0] for dtype in types):
            return [types[0]]
        return super().combine(known)

    def number(self, expression: Any) -> NumberType:
        """Return the type in which *expression* is evaluated; raises :class:`UncountableError` if not a number."""
        return number_type(self(expression))


# }}}


# {{{ operation nodes


Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


OPERATION_NODES = (
    *("sum", "product", "min", "max", "quotient", "floor_div", "remainder", "power", "comparison", "bitwise_and"),
    *("bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift", "logical_not"),
)
"""pymbolic's names of operation nodes, except for the ones that short-circuit"""


class OperationMapper(Mapper[Result, Parameters]):
    """A mapper that handles all :data:`OPERATION_NODES` in one method, ``map_operation``, of its subclasses."""

    def __init_subclass__(cls) -> None:
        """Register ``map_operation`` of *cls* as pymbolic's method for each operation."""
        super().__init_subclass__()
        for name in OPERATION_NODES if "map_operation" in vars(cls) else ():
            setattr(cls, f"map_{name}", vars(cls)["map_operation"])


# {{{ complex operations as real operations
#
# The decompositions follow the C code that Loopy generates: ``pyopencl-complex.h``, and Loopy's expression mapper for
# PyOpenCL, which processes operands from left to right and keeps real operands real.


RealOperations = Mapping[Kind, int]
"""operation kind -> number of operations"""

MULTIPLY_COMPLEX: RealOperations = {"mul": 4, "add": 2}
POWER: RealOperations = {"special": 6, "mul": 6, "add": 2}
"""log, hypot, atan2, exp, sin and cos"""
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
"""complex function -> special functions of real numbers that it calls"""
OPERATIONS: Mapping[tuple[Kind, bool, bool], RealOperations] = {
    ("add", True, True): {"add": 2},
    ("add", True, False): {"add": 1},
    ("add", False, True): {"add": 1},
    ("mul", True, True): MULTIPLY_COMPLEX,
    ("mul", True, False): {"mul": 2},
    ("mul", False, True): {"mul": 2},
    ("div", True, True): {"div": 3, "mul": 4, "add": 3},
    ("div", True, False): {"div": 2},
    ("div", False, True): {"div": 3, "mul": 3, "add": 1},
    ("pow", True, True): POWER,
    ("pow", True, False): {"special": 6, "mul": 4},
    ("pow", False, True): POWER,
    **{("compare", *sides): {"compare": 2, "logic": 1} for sides in ((True, True), (True, False), (False, True))},
}
"""(kind, left operand is complex, right operand is complex) -> real operations"""
PARTS = frozenset({"real", "imag", "conj"})
"""free functions: they select a register or change a sign"""


def real_functions(name: str, *types: NumberType) -> tuple[str, ...]:
    """Return the special functions of real numbers that *name* calls if any of *types* is complex."""
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
"""functions that perform several basic operations"""
SIGN_FUNCTIONS = frozenset({"abs", "fabs", "fabsf"})
"""functions that are operand modifiers in machine code: free, like unary minus"""


def link_operations(link: Link, expression: Any) -> Iterator[tuple[Operation, int]]:
    """Yield (operation, number) pairs for the step of *expression* that combines *link* with the operands before it.

    A subtraction is one addition. Unary minus and products with the literal -1 are free. ``x**2`` is one exponentiation
    (Stevens and Klöckner, section 2.2). Raises :class:`UncountableError` for an operation that is not defined for
    complex numbers.
    """
    if link.kind is None:
        return
    if link.result.is_complex:
        operation = link.kind, link.left is not None and link.left.is_complex, link.right.is_complex
        if operation not in OPERATIONS:
            raise UncountableError(f"no count for {type(expression).__name__} on complex numbers in {expression}")
        yield from _of_kinds(OPERATIONS[operation], link.result)
    else:
        yield Operation(link.kind, link.result.scalar), link.result.components


def function_operations(name: str, result: NumberType, argument: NumberType) -> Iterator[tuple[Operation, int]]:
    """Yield (operation, number) pairs for a call of the function *name*; *argument* is the type of its first argument.

    Sign functions and parts of complex numbers are free. A function from real numbers to integers, such as ``isnan``,
    works in the type of its argument. The dot product of vectors of length n is n multiplications and n - 1 additions.
    Raises :class:`UncountableError` for an unknown function of complex numbers.
    """
    if argument.is_complex or result.is_complex:
        if name not in FUNCTIONS and name not in PARTS:
            raise UncountableError(f"no count for {name} of a complex number")
        yield from _of_kinds(FUNCTIONS.get(name, {}), argument)
    elif name in FUSED_FUNCTIONS:
        yield from _of_kinds(FUSED_FUNCTIONS[name], result)
    elif name == "dot":
        yield Operation("mul", result.scalar), argument.components
        if argument.components > 1:
            yield Operation("add", result.scalar), argument.components - 1
    elif name not in SIGN_FUNCTIONS | PARTS and not name.startswith("make_"):  # make_* builds a vector
        kind = "pow" if name in POWER_FUNCTIONS else "min/max" if name in MIN_MAX_FUNCTIONS else "special"
        works_in = argument if result.is_integral else result
        yield Operation(kind, works_in.scalar), works_in.components


def _of_kinds(numbers: Mapping[Kind, int], made_of: NumberType) -> Iterator[tuple[Operation, int]]:
    for kind, number in numbers.items():
        yield Operation(kind, made_of.scalar), number * made_of.components


# }}}


# }}}
