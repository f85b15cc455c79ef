"""The types that a kernel calculates in, as the scalars that they are made of, and which operation is done in which."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
import pymbolic.primitives as prim
from loopy.target import cuda, opencl
from loopy.type_inference import TypeReader
from loopy.types import LoopyType, NumpyType

from loopyperf.counts.item import Kind
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel


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


def whole(chain: Chain, expression: Any, context: Context) -> Link:
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
        self._alive: dict[int, Any] = {}

    def get_cache_key(self, expr: Any, *args: Any, **kwargs: Any) -> tuple[int, bool]:
        """Return the identity of *expr*, which is kept alive so that it stays its own."""
        self._alive[id(expr)] = expr
        return id(expr), bool(kwargs.get("return_tuple", False))

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
