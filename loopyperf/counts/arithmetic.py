"""Arithmetic: which nodes of an expression are operations, of what kind, on which type, and how many."""

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
from loopyperf.polyhedral.sets import Same


@dataclass(frozen=True, slots=True)
class NumberType:
    """A real or complex number, or a vector of such."""

    scalar: str
    """e.g. ``"f32"``; of a complex number the type of its parts"""
    components: int = 1
    """of a vector; one otherwise"""
    is_complex: bool = False

    @property
    def is_integral(self) -> bool:
        """Return whether it is an integer, or a vector of such."""
        return self.scalar[0] in "iu"


def number_type(dtype: LoopyType) -> NumberType:
    """Return what *dtype* is made of; raises :class:`UncountableError` where it is no number."""
    if isinstance(dtype, NumpyType):
        scalar, components = _scalar_and_count(dtype.dtype)
        kind, size = scalar.kind, scalar.itemsize
        if kind == "c":
            return NumberType(f"f{4 * size}", components, is_complex=True)
        if kind in "fiub":
            return NumberType(f"{'u' if kind == 'b' else kind}{8 * size}", components)
    raise UncountableError(f"arithmetic on type {dtype} is not counted")


@cache
def converted(left: NumberType, right: NumberType) -> NumberType:
    """Return the type that C computes in with operands of types *left* and *right*: its usual arithmetic conversions.

    A vector converts what is combined with it to the type of its members.
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


# {{{ literals have the types that are wanted where they stand


Context = str | None
"""the type that is wanted of a literal: ``"f"`` and ``"d"`` for floats, ``"i"`` and ``"b"`` for integers"""
INDEX = "index"
"""an integer, like ``"i"``, in an index, of which only the value matters: Loopy writes it anew"""
INTEGERS = ("i", "b", INDEX)
FLOATS = {"f": NumberType("f32"), "d": NumberType("f64")}
INT = NumberType("i32")


def literal_type(number: Any, context: Context) -> NumberType | None:
    """Return the type of *number* as it is written; None if that is the one that Loopy infers.

    A number of Python's has the type that is wanted; one of NumPy's, or a complex one, its own. See ``map_constant`` of
    ``ExpressionToCExpressionMapper`` in ``loopy/target/c/codegen/expression.py``.
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


# {{{ operands combined from left to right, each time in the type that C gives


class Link(NamedTuple):
    """An operand, and the operation that combines it with those before it."""

    operand: Any
    """None if it is one of those before it again, as in a square"""
    context: Context
    """in which the operand is written"""
    right: NumberType
    """the type of the operand"""
    result: NumberType
    """the type that the operation works in; of the first operand its own"""
    kind: Kind | None = None
    """None if there is no operation: for the first operand, and for a factor of -1"""
    left: NumberType | None = None
    """the type of what is before it"""


@dataclass(frozen=True, slots=True)
class Chain:
    """An expression as generated code evaluates it: operands that are combined from left to right."""

    links: tuple[Link, ...]
    result: NumberType
    operator: str | None = None
    """what is written between the operands, if no parentheses will be written around them in a chain of the same"""


def as_operand(chain: Chain, expression: Any, context: Context) -> Link:
    """Return *expression*, which is evaluated as *chain*, as one operand."""
    first = chain.links[0]
    return first if first.operand is expression else Link(expression, context, chain.result, chain.result)


def joined(before: Sequence[Link], link: Link, kind: Kind, functions: NumberType | None) -> Link:
    """Return *link* behind those *before* it, for which there are complex *functions* or operators of C."""
    if not before:
        return link
    left = before[-1].result
    result = converted(left, link.right)
    result = functions if functions and result.is_complex else result
    joint = "pow" if link.kind == "pow" else None if kind == "mul" and _changes_sign(before, link) else kind
    return Link(link.operand, link.context, link.right, result, joint, left)


def _changes_sign(before: Sequence[Link], link: Link) -> bool:
    """Return whether a product of *link* and those *before* it does nothing else."""
    return is_minus_one(link.operand) or all(is_minus_one(earlier.operand) for earlier in before)


def is_minus_one(expression: Any) -> bool:
    """Return whether *expression* is the literal -1, with which a product only changes its sign."""
    return isinstance(expression, (int, float, np.number)) and prim.is_zero(expression + 1)


# }}}


# {{{ the types of expressions, each read once


class ExpressionTypes(TypeReader):
    """Loopy's type reader, each node read once and told apart by identity.

    By equality, as Loopy's does, ``x*numpy.float32(1)`` would pass for ``x*numpy.float64(1)``, and hashing an
    expression with its keywords takes longer than reading its type.
    """

    def __init__(self, kernel: Kernel) -> None:
        """Read types in *kernel*."""
        super().__init__(kernel.loopy_kernel, kernel.callables)

    def get_cache_key(self, expr: Any, *args: Any, **kwargs: Any) -> tuple[Same[Any], bool]:
        """Return a key of *expr* that no other expression has."""
        return Same(expr), bool(kwargs.get("return_tuple", False))

    def combine(self, values: Iterable[Sequence[LoopyType]]) -> Sequence[LoopyType]:
        """Return the type of an operation on *values*; where all are the same, that is it."""
        known = list(values)
        types = [dtype for found in known for dtype in found]
        if types and all(dtype == types[0] for dtype in types):
            return [types[0]]
        return super().combine(known)

    def number(self, expression: Any) -> NumberType:
        """Return the type that *expression* works in; raises :class:`UncountableError` where it is no number."""
        return number_type(self(expression))


# }}}


# {{{ which nodes of an expression are operations


Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


ALIKE = (
    *("sum", "product", "min", "max", "quotient", "floor_div", "remainder", "power", "comparison", "bitwise_and"),
    *("bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift", "logical_not"),
)
"""pymbolic's names of all operations, save for those that do not evaluate all of their operands"""


class OperationMapper(Mapper[Result, Parameters]):
    """Maps all of :data:`ALIKE` alike: subclasses have one method for them, ``map_operation``."""

    def __init_subclass__(cls) -> None:
        """Let pymbolic call ``map_operation`` of *cls* for each operation."""
        super().__init_subclass__()
        for name in ALIKE if "map_operation" in vars(cls) else ():
            setattr(cls, f"map_{name}", vars(cls)["map_operation"])


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


# }}}
