"""Memory references: which element of which array, of how many bits, and how far apart its neighbours are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.kernel.array import ArrayBase, FixedStrideArrayDimTag, SeparateArrayArrayDimTag, VectorArrayDimTag
from loopy.kernel.data import AddressSpace, ArrayArg, ConstantArg, TemporaryVariable
from loopy.symbolic import DependencyMapper, IdentityMapper, SubstitutionMapper, WalkMapper, get_dependencies
from loopy.types import LoopyType
from pymbolic import evaluate

from loopyperf.counts.item import Direction, MemorySpace
from loopyperf.counts.sizes import Typical
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.kernel.launches import Assumption
from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, simplified_expression

CASES = (
    *(prim.FloorDiv, prim.Remainder, prim.Min, prim.Max, prim.If, prim.LeftShift, prim.RightShift),
    *(prim.BitwiseAnd, prim.BitwiseOr, prim.BitwiseXor, prim.BitwiseNot),
)
"""operations whose results may not be affine where their operands are"""


@dataclass(frozen=True, slots=True)
class Reference:
    """One load or store of an array element, as the source has it."""

    direction: Direction
    space: MemorySpace
    array: str
    index: tuple[Any, ...]
    """one expression for each axis; one alone where it counts elements in memory"""
    bits: int
    is_whole: bool = False
    """it accesses all members of a vector"""
    is_linear: bool = False
    """the index counts elements in memory, whatever the axes"""
    is_constant: bool = False
    """the array stands in the program with its contents, and nothing writes it"""
    is_in_constant_memory: bool = False
    """whose cache serves one address at a time to all lanes that want it"""

    def assumption(self, sentence: str) -> Assumption:
        """Return an assumption on this access; see :class:`Assumption`."""
        return Assumption(sentence, self.array, f"{self.array}[{', '.join(map(str, self.index))}]")


def reference(
    kernel: Kernel, name: str, index: tuple[Any, ...], direction: Direction, vector: str | None = None
) -> Reference | None:
    """Return the reference to element *index* of *name*, None where that does not live in memory.

    *vector* is the loop that the instruction runs all at once. Raises :class:`UncountableError` for images.
    """
    array = kernel.arrays.get(name)
    if array is None:
        return None
    if not isinstance(array, (ArrayArg, ConstantArg, TemporaryVariable)):
        raise UncountableError(f"no count for accesses of {name!r}, of class {type(array).__name__}")
    space = MemorySpace.LOCAL if array.address_space == AddressSpace.LOCAL else MemorySpace.GLOBAL
    index = tuple(_Absolutes(kernel)(expression) for expression in index)
    axis = vector_axis(array)
    if axis is not None and vector is not None and vector in get_dependencies(index[axis]):
        whole = tuple(0 if place == axis else expression for place, expression in enumerate(index))
        return Reference(direction, space, name, whole, vector_bits(kernel, array, axis), is_whole=True)
    is_constant = isinstance(array, TemporaryVariable) and array.read_only and array.initializer is not None
    return Reference(
        direction,
        space,
        name,
        index,
        8 * element_type(array).itemsize,
        is_constant=is_constant,
        is_in_constant_memory=is_constant or isinstance(array, ConstantArg),
    )


class _Absolutes(IdentityMapper[[]]):
    """Writes the absolute values of integers, which Loopy calls functions, as maxima."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def map_call(self, expr: prim.Call) -> Any:
        callee = self.kernel.callables.get(getattr(expr.function, "name", None))
        if getattr(callee, "name", None) != "abs":
            return super().map_call(expr)
        value: Any = self.rec(expr.parameters[0])
        return prim.Max((value, -value))


def linear_reference(kernel: Kernel, name: str, index: Any, direction: Direction) -> Reference | None:
    """Return the reference to the element of *name* that lies *index* elements from its first one."""
    found = reference(kernel, name, (index,), direction)
    array = kernel.arrays.get(name)
    if found is None or array is None or _is_contiguous_axis(array):
        return found
    return replace(found, is_linear=True)


def _is_contiguous_axis(array: ArrayBase) -> bool:
    """Return whether counting elements of *array* and indexing it are the same."""
    tags = array.dim_tags
    return tags is None or (len(tags) == 1 and isinstance(tags[0], FixedStrideArrayDimTag) and tags[0].stride == 1)


def element_type(array: ArrayBase) -> LoopyType:
    """Return the type of an element of *array*."""
    dtype = array.dtype
    assert isinstance(dtype, LoopyType), f"load_kernel lets no untyped array pass: {array.name}"
    return dtype


# {{{ layout


def known_shape(kernel: Kernel, name: str) -> tuple[Any, ...] | None:
    """Return the lengths of the axes of array *name*; None where one is unknown, as in ``shape=(None, 3)``."""
    array = kernel.arrays.get(name)
    shape: Any = None if array is None else array.shape
    lengths = cast("tuple[Any, ...]", shape) if isinstance(shape, tuple) else (None,)
    return None if None in lengths else lengths


def vector_axis(array: ArrayBase) -> int | None:
    """Return the axis of *array* whose elements are the members of a vector, if there is one."""
    tags = array.dim_tags or ()
    return next((axis for axis, tag in enumerate(tags) if isinstance(tag, VectorArrayDimTag)), None)


def _vector_length(array: ArrayBase, axis: int) -> int:
    shape = array.shape
    length = shape[axis] if isinstance(shape, tuple) else None
    if not isinstance(length, (int, np.integer)):
        raise UncountableError(f"no count for accesses of {array.name!r}, vectors of {length} elements")
    return int(length)


def vector_bits(kernel: Kernel, array: ArrayBase, axis: int) -> int:
    """Return how many bits the vectors along *axis* of *array* take, padding included."""
    vector: Any = kernel.loopy_kernel.target.vector_dtype(element_type(array), _vector_length(array, axis))
    return 8 * vector.itemsize


def numbers_of_vector(kernel: Kernel, array: ArrayBase, axis: int) -> int:
    """Return how many numbers have room in a vector along *axis* of *array*: OpenCL stores three as four."""
    return vector_bits(kernel, array, axis) // (8 * element_type(array).itemsize)


def symbolic_strides(kernel: Kernel, ref: Reference, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """Return :func:`element_strides` with sizes by name, where an access is of one number; otherwise at *sizes*."""
    array = kernel.arrays.get(ref.array)
    tags = None if array is None or ref.is_linear or ref.is_whole else array.dim_tags
    if tags is None or not all(isinstance(tag, FixedStrideArrayDimTag) for tag in tags):
        return element_strides(kernel, ref, sizes)
    return tuple(tag.stride for tag in tags)


def element_strides(kernel: Kernel, ref: Reference, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the distance between neighbours along each index of *ref*, at *sizes*, in units of what it accesses.

    An axis along which the array is made of separate arrays has distance zero: nothing is a neighbour there.
    """
    array = kernel.arrays.get(ref.array)
    assert array is not None
    if ref.is_linear or array.dim_tags is None:  # of an array of unknown shape, elements are counted
        return (1,) * len(ref.index)
    axis = vector_axis(array)
    members = 1 if axis is None or not ref.is_whole else numbers_of_vector(kernel, array, axis)
    strides: list[int] = []
    for tag in array.dim_tags:
        if isinstance(tag, FixedStrideArrayDimTag):
            strides.append(value_at(tag.stride, sizes, f"the stride {tag.stride} of array {ref.array!r}") // members)
        elif isinstance(tag, (VectorArrayDimTag, SeparateArrayArrayDimTag)):
            strides.append(1 if isinstance(tag, VectorArrayDimTag) and not ref.is_whole else 0)
        else:
            raise UncountableError(f"no count for accesses of {ref.array!r}, whose axes are laid out as {tag}")
    return tuple(strides)


def position(kernel: Kernel, ref: Reference, sizes: Mapping[str, int]) -> Any:
    """Return how far the element of *ref* lies from the first one of its array, in units of what it accesses."""
    strides = element_strides(kernel, ref, sizes)
    return prim.flattened_sum([index * stride for index, stride in zip(ref.index, strides, strict=True) if stride])


def in_elements(kernel: Kernel, ref: Reference, points: isl.Set, sizes: Mapping[str, int]) -> Reference:
    """Return *ref* by one index that counts elements, where that is affine at *points*, or in their lanes, as none is.

    So ``x[(3*i + j)//6, (3*i + j) % 6]`` is element ``3*i + j``. *points* are those of its loops at *sizes*. Where the
    indices are affine, and where axes are separate arrays, *ref* is returned as it is.
    """
    in_cases = _names_in_cases(*ref.index)
    if in_cases is None or not is_one_array(kernel, ref) or points.is_empty():
        return ref
    lanes = kernel.lane_inames(frozenset(points.get_var_names_not_none(isl.dim_type.set)))
    element = with_values(position(kernel, ref, sizes), sizes)
    try:
        element = simplified_expression(element, points, lambda part: lanes.isdisjoint(get_dependencies(part)))
    except NotQuasiAffineError:
        return ref
    left = _names_in_cases(element)
    is_affine = left is None or (not lanes.isdisjoint(in_cases) and lanes.isdisjoint(left))
    return replace(ref, index=(element,), is_linear=True) if is_affine else ref


def is_one_array(kernel: Kernel, ref: Reference) -> bool:
    """Return whether all elements that the indices of *ref* may tell are at fixed distances in one array."""
    array = kernel.arrays.get(ref.array)
    tags = None if array is None or ref.is_linear else array.dim_tags
    return tags is None or not any(isinstance(tag, SeparateArrayArrayDimTag) for tag in tags)


class _Cases(WalkMapper[[]]):
    """Finds what makes expressions other than affine, data apart."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] | None = None
        """in what is found; None where nothing is"""

    def visit(self, expr: Any) -> bool:
        if isinstance(expr, CASES):
            self.names = (self.names or set()) | get_dependencies(expr)
        return not isinstance(expr, (prim.Subscript, prim.Call))


def _names_in_cases(*expressions: Any) -> frozenset[str] | None:
    """Return the variables in those parts of *expressions* that are not affine; None where there are none."""
    finder = _Cases()
    for expression in expressions:
        finder(expression)
    return None if finder.names is None else frozenset(finder.names)


def value_at(expression: Any, sizes: Mapping[str, int], what: str) -> int:
    """Return *expression* at *sizes*; raises :class:`UncountableError` where *what* depends on something else."""
    if isinstance(expression, int):
        return expression
    unknown = get_dependencies(expression) - sizes.keys()
    if unknown:
        raise UncountableError(f"{what} depends on {', '.join(sorted(unknown))}, which is not a size")
    return int(evaluate(expression, dict(sizes)))


# }}}


# {{{ strides that are loaded
#
# Data multiplies a loop variable, as in ``x[base[c] + stride[i]*layer]``.
# Neighbours along that loop are an unknown number of elements apart, unless ``typical`` states what the factor is.


def resolved(
    kernel: Kernel, typical: Typical, index: tuple[Any, ...], temporaries: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return *index* where data that multiplies loop variables has the value that is *typical*, if that is stated.

    *temporaries* are written as what they stand for.
    """
    write = _StatedFactors(kernel, typical)
    return tuple(with_values(write(each), temporaries) for each in index)


def scaled_by_data(kernel: Kernel, expressions: tuple[Any, ...]) -> dict[str, list[str]]:
    """Return iname -> the names of the data that multiplies or divides it in *expressions*."""
    found = _Scaled(kernel)
    for each in expressions:
        if _is_data(kernel, each):
            found(each)
    return found.found


def check_length(kernel: Kernel, typical: Typical, ref: Reference) -> None:
    """Ask *typical* how many elements the array of *ref* has, where neither its index nor its shape tells."""
    if any(_is_data(kernel, index) for index in ref.index) and known_shape(kernel, ref.array) is None:
        typical.length(ref.array)


def _is_data(kernel: Kernel, expression: Any) -> bool:
    return not kernel.is_known(expression)


def _names_of_data(kernel: Kernel, expression: Any) -> Iterator[str]:
    """Yield the names of arrays, functions and variables that *expression* takes its data from."""
    for part in DependencyMapper(include_subscripts=True, include_calls=True)(expression):
        name = getattr(getattr(part, "aggregate", getattr(part, "function", part)), "name", str(part))
        value = kernel.integer_temporaries.get(name)
        if value is not None:
            yield from _names_of_data(kernel, value)
        elif name not in kernel.loopy_kernel.all_inames() | kernel.parameters:
            yield name


class _Scaled(WalkMapper[[]]):
    """Finds inames that data multiplies or divides."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.found: dict[str, list[str]] = {}

    def map_product(self, expr: prim.Product) -> None:
        for factor in expr.children:
            self._add(factor, [child for child in expr.children if child is not factor])
        super().map_product(expr)

    def map_floor_div(self, expr: prim.FloorDiv | prim.Remainder) -> None:
        self._add(expr.denominator, [expr.numerator])
        self.rec(expr.numerator)

    map_remainder = map_floor_div

    def map_subscript(self, expr: prim.Subscript) -> None:
        """What is looked up is data, however its index is made."""

    def map_call(self, expr: prim.Call) -> None:
        """So is what a function returns."""

    def _add(self, factor: Any, others: list[Any]) -> None:
        if _is_data(self.kernel, factor):
            for iname in sorted(get_dependencies(tuple(others)) & self.kernel.loopy_kernel.all_inames()):
                self.found.setdefault(iname, []).extend(_names_of_data(self.kernel, factor))


class _StatedFactors(IdentityMapper[[]]):
    """Writes the stated value of data that multiplies inames."""

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        super().__init__()
        self.kernel, self.typical = kernel, typical
        self._inames = kernel.loopy_kernel.all_inames()

    def map_product(self, expr: prim.Product) -> Any:
        is_data = [_is_data(self.kernel, child) for child in expr.children]
        if all(is_data) or not self._inames & get_dependencies(expr):
            return super().map_product(expr)
        valued = SubstitutionMapper(self._value)
        factors: list[Any] = [
            valued(child) if is_looked_up else self.rec(child)
            for child, is_looked_up in zip(expr.children, is_data, strict=True)
        ]
        return prim.Product(tuple(factors))

    def _value(self, leaf: Any) -> Any:
        name = getattr(getattr(leaf, "aggregate", leaf), "name", "")
        if name in self._inames or name in self.kernel.parameters:
            return None
        value = self.kernel.integer_temporaries.get(name)
        if value is not None:
            return SubstitutionMapper(self._value)(value)
        return self.typical.factor(name)


# }}}
