"""Memory references and how their addresses move from one work-item to the next.

Classes of Stevens and Klöckner, section 2.1: the lane stride of a global access, in elements, with the share of the
data between two lanes that the kernel uses (the amortized stride fraction).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Literal

import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionNotAffineError
from loopy.kernel.array import ArrayBase, FixedStrideArrayDimTag
from loopy.kernel.data import AddressSpace, ArrayArg, TemporaryVariable
from loopy.symbolic import CoefficientCollector, get_dependencies
from loopy.types import LoopyType
from pymbolic import evaluate
from pymbolic.mapper import UnsupportedExpressionError
from pymbolic.mapper.flattener import flatten

from loopyperf.counts.execution import Site
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel

Direction = Literal["load", "store"]
Space = Literal["global", "local"]

EDGE = Fraction(1, 64)
"""of a part: so little more than a half, a third or a quarter is the edge of an array, and tips no class"""


@dataclass(frozen=True, slots=True)
class Reference:
    """One load or store of an array element, as the source has it."""

    direction: Direction
    space: Space
    array: str
    index: tuple[Any, ...] | None
    """one expression for each axis; None for an array without axes"""
    bits: int


@dataclass(frozen=True, slots=True)
class LanePattern:
    """How an access moves from one work-item to the next along ``l.0``."""

    steps: tuple[int, ...]
    """index steps for each axis of the array, at large sizes"""
    stride: int
    """elements from one lane's address to the next one's, without sign, at large sizes"""


def reference(array: ArrayBase, name: str, index: tuple[Any, ...] | None, direction: Direction) -> Reference:
    """Return the reference to element *index* of *array*; raises :class:`UncountableError` for exotic storage."""
    if not isinstance(array, (ArrayArg, TemporaryVariable)):
        raise UncountableError(f"no count for accesses of {name!r}, a {type(array).__name__}")
    space: Space = "local" if array.address_space == AddressSpace.LOCAL else "global"
    return Reference(direction, space, name, index, 8 * element_type(array).itemsize)


def element_type(array: ArrayBase) -> LoopyType:
    """Return the type of an element of *array*."""
    dtype = array.dtype
    assert isinstance(dtype, LoopyType), f"load_kernel lets no untyped array pass: {array.name}"
    return dtype


def stride_class(stride: int, density: Fraction) -> str:
    """Return the amortized stride fraction, e.g. ``"1"``, ``"2/3"``, ``"4/>4"``.

    *density* is the used share of the cells between two lanes; it is rounded up to halves, thirds or quarters, save for
    an EDGE, and is disregarded for strides 0 and 1.
    """
    if stride <= 1:
        return str(stride)
    parts = min(stride, 4)
    used = min(max(ceil(density * parts - EDGE), 1), parts)
    return f"{used}/{stride}" if stride <= 4 else f"{used}/>4"


# {{{ lane patterns


def lane_pattern(kernel: Kernel, site: Site, ref: Reference, sizes: Mapping[str, int]) -> LanePattern:
    """Return how *ref* moves along ``l.0``, evaluated at the (large) *sizes* where it depends on parameters.

    Raises :class:`UncountableError` where the address is not affine in the lane.
    """
    lanes = kernel.lane_inames(site.inames)
    index = ref.index or ()
    for expression in index if 0 in site.launch.local_axes else ():
        others = get_dependencies(expression) - site.inames - kernel.parameters
        private = sorted(others & kernel.lane_variables) if others else ()
        if private:
            raise UncountableError(
                f"the index {expression} depends on {', '.join(private)}, computed by each work-item"
            )
    steps = tuple(_step(expression, lanes, sizes) for expression in index)
    strides = element_strides(kernel, ref.array, sizes)
    return LanePattern(steps, abs(sum(step * stride for step, stride in zip(steps, strides, strict=True))))


def element_strides(kernel: Kernel, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the distance in elements between neighbours along each axis of array *name*, at *sizes*."""
    array = kernel.array(name)
    assert array is not None
    strides: list[int] = []
    for tag in array.dim_tags or ():
        if not isinstance(tag, FixedStrideArrayDimTag):
            raise UncountableError(f"no count for accesses of {name!r}, whose axes are laid out as {tag}")
        strides.append(_at(tag.stride, sizes, f"the stride {tag.stride} of array {name!r}"))
    return tuple(strides)


def _step(expression: Any, lanes: frozenset[str], sizes: Mapping[str, int]) -> int:
    if not lanes & get_dependencies(expression):
        return 0
    try:
        # Flattening drops products with zero, which the collector does not expect.
        coefficients = CoefficientCollector(lanes)(flatten(expression))
    except (ExpressionNotAffineError, UnsupportedExpressionError, RuntimeError) as error:
        raise UncountableError(
            f"the index {expression} is not an affine function of the lane {', '.join(sorted(lanes))}"
        ) from error
    return sum(_at(coefficients.get(prim.Variable(lane), 0), sizes, f"the index {expression}") for lane in lanes)


def _at(expression: Any, sizes: Mapping[str, int], what: str) -> int:
    if isinstance(expression, int):
        return expression
    unknown = get_dependencies(expression) - sizes.keys()
    if unknown:
        raise UncountableError(f"{what} depends on {', '.join(sorted(unknown))}, which is not a size")
    return int(evaluate(expression, dict(sizes)))


# }}}
