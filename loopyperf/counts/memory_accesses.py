"""Memory references: array, element, size in bits, and the distance between neighboring elements."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.kernel.array import ArrayBase, FixedStrideArrayDimTag, SeparateArrayArrayDimTag, VectorArrayDimTag
from loopy.kernel.data import AddressSpace, ArrayArg, ConstantArg, LocalInameTag, TemporaryVariable
from loopy.kernel.instruction import Assignment
from loopy.symbolic import DependencyMapper, IdentityMapper, SubstitutionMapper, WalkMapper, get_dependencies
from loopy.target.cuda import CudaTarget
from loopy.types import LoopyType
from pymbolic import evaluate

from loopyperf.counts.item import Direction, MemorySpace
from loopyperf.counts.sizes import Typical
from loopyperf.display import Note, NoteKind
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.kernel.launches import SUBJECTS, Assumption
from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, simplified_expression

CASES = (
    *(prim.FloorDiv, prim.Remainder, prim.Min, prim.Max, prim.If, prim.LeftShift, prim.RightShift),
    *(prim.BitwiseAnd, prim.BitwiseOr, prim.BitwiseXor, prim.BitwiseNot),
)
"""operations whose result may not be affine even if their operands are"""


@dataclass(frozen=True, slots=True)
class Update:
    """How the generated code updates an element atomically."""

    is_loop: bool
    """whether it repeats a compare-exchange until that succeeds; otherwise one instruction adds to the element"""
    is_combined: bool = False
    """whether the compiler first adds up the values of a warp's lanes, so that one lane updates the element"""
    distinct: int | None = None
    """typical number of elements that are updated at once, by a warp and by all warps, if data determines them and it
    is given"""


@dataclass(frozen=True, slots=True)
class Reference:
    """One load or store of an array element, as in the source."""

    direction: Direction
    space: MemorySpace
    array: str
    index: tuple[Any, ...]
    """one expression for each axis, or a single one that counts elements in memory"""
    bits: int
    is_whole: bool = False
    """whether it accesses all elements of a vector"""
    is_linear: bool = False
    """whether the index counts elements in memory, regardless of the axes"""
    is_constant: bool = False
    """whether the array is initialized in the program and never written"""
    is_in_constant_memory: bool = False
    """whether the array is in constant memory, whose cache serves one address at a time to all lanes that need it"""
    update: Update | None = None
    """for a store that is an atomic update"""

    def assumption(self, sentence: str) -> Assumption:
        """Return an assumption about this access; see :class:`Assumption`."""
        return Assumption(sentence, self.array, f"{self.array}[{', '.join(map(str, self.index))}]")


def reference(
    kernel: Kernel, name: str, index: tuple[Any, ...], direction: Direction, vector: str | None = None
) -> Reference | None:
    """Return the reference to element *index* of *name*; None if *name* is not in memory.

    *vector* is the loop that the instruction executes at once. Raises :class:`UncountableError` for images.
    """
    array = kernel.arrays.get(name)
    if array is None:
        return None
    if not isinstance(array, (ArrayArg, ConstantArg, TemporaryVariable)):
        raise UncountableError(f"no count for accesses of {name!r}, of class {type(array).__name__}")
    space = MemorySpace.LOCAL if array.address_space == AddressSpace.LOCAL else MemorySpace.GLOBAL
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
    """Replaces absolute values of integers, which are function calls in Loopy, by maxima."""

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
    """Return the reference to the element of *name* that is *index* elements from the first one."""
    found = reference(kernel, name, (index,), direction)
    array = kernel.arrays.get(name)
    if found is None or array is None:
        return found
    tags = array.dim_tags
    if tags is None or (len(tags) == 1 and isinstance(tags[0], FixedStrideArrayDimTag) and tags[0].stride == 1):
        return found  # an index of the axis is also the number of the element in memory
    return replace(found, is_linear=True)


def element_type(array: ArrayBase) -> LoopyType:
    """Return the type of an element of *array*."""
    dtype = array.dtype
    assert isinstance(dtype, LoopyType), f"load_kernel rejects untyped arrays: {array.name}"
    return dtype


# {{{ layout


def known_shape(kernel: Kernel, name: str) -> tuple[Any, ...] | None:
    """Return the lengths of the axes of array *name*; None if one is unknown, as in ``shape=(None, 3)``."""
    array = kernel.arrays.get(name)
    shape: Any = None if array is None else array.shape
    lengths = cast("tuple[Any, ...]", shape) if isinstance(shape, tuple) else (None,)
    return None if None in lengths else lengths


def vector_axis(array: ArrayBase) -> int | None:
    """Return the axis of *array* along which it stores vectors; None if there is none."""
    tags = array.dim_tags or ()
    return next((axis for axis, tag in enumerate(tags) if isinstance(tag, VectorArrayDimTag)), None)


def _vector_length(array: ArrayBase, axis: int) -> int:
    shape = array.shape
    length = shape[axis] if isinstance(shape, tuple) else None
    if not isinstance(length, (int, np.integer)):
        raise UncountableError(f"no count for accesses of {array.name!r}, whose vector length {length} is not constant")
    return int(length)


def vector_bits(kernel: Kernel, array: ArrayBase, axis: int) -> int:
    """Return the size in bits of the vectors along *axis* of *array*, including padding."""
    vector: Any = kernel.loopy_kernel.target.vector_dtype(element_type(array), _vector_length(array, axis))
    return 8 * vector.itemsize


def numbers_of_vector(kernel: Kernel, array: ArrayBase, axis: int) -> int:
    """Return the number of elements that fit in a vector along *axis* of *array*: OpenCL stores three as four."""
    return vector_bits(kernel, array, axis) // (8 * element_type(array).itemsize)


def symbolic_strides(kernel: Kernel, ref: Reference, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """Return :func:`element_strides` with symbolic sizes if an access is of one element; otherwise at *sizes*."""
    array = kernel.arrays.get(ref.array)
    tags = None if array is None or ref.is_linear or ref.is_whole else array.dim_tags
    if tags is None or not all(isinstance(tag, FixedStrideArrayDimTag) for tag in tags):
        return element_strides(kernel, ref, sizes)
    return tuple(tag.stride for tag in tags)


def element_strides(kernel: Kernel, ref: Reference, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the distance between neighbors along each index of *ref* at *sizes*, in units of the accessed size.

    The distance is zero along an axis that consists of separate arrays, where elements have no neighbors.
    """
    array = kernel.arrays.get(ref.array)
    assert array is not None
    if ref.is_linear or array.dim_tags is None:  # the index of an array of unknown shape counts elements
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
            raise UncountableError(f"no count for accesses of {ref.array!r}, whose axis layout is {tag}")
    return tuple(strides)


def position(kernel: Kernel, ref: Reference, sizes: Mapping[str, int]) -> Any:
    """Return the distance of the element of *ref* from the first one of its array, in units of the accessed size."""
    strides = element_strides(kernel, ref, sizes)
    return prim.flattened_sum([index * stride for index, stride in zip(ref.index, strides, strict=True) if stride])


def in_elements(kernel: Kernel, ref: Reference, points: isl.Set, sizes: Mapping[str, int]) -> Reference:
    """Return *ref* with one index that counts elements, if only that index is affine at *points* or in their lanes.

    An example is ``x[(3*i + j)//6, (3*i + j) % 6]``, which is element ``3*i + j``. *points* are those of its loops at
    *sizes*. If the indices are affine, or axes are separate arrays, *ref* is returned unchanged.
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
    """Return whether all elements that *ref* can access are at fixed distances in one array."""
    array = kernel.arrays.get(ref.array)
    tags = None if array is None or ref.is_linear else array.dim_tags
    return tags is None or not any(isinstance(tag, SeparateArrayArrayDimTag) for tag in tags)


class _Cases(WalkMapper[[]]):
    """Finds operations, outside of data, that make expressions non-affine."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] | None = None
        """variables in these operations; None if there are none"""

    def visit(self, expr: Any) -> bool:
        if isinstance(expr, CASES):
            self.names = (self.names or set()) | get_dependencies(expr)
        return not isinstance(expr, (prim.Subscript, prim.Call))


def has_cases(*expressions: Any) -> bool:
    """Return whether *expressions* contain operations, outside of data, whose result may not be affine."""
    return _names_in_cases(*expressions) is not None


def _names_in_cases(*expressions: Any) -> frozenset[str] | None:
    """Return the variables in the non-affine parts of *expressions*; None if there are no such parts."""
    finder = _Cases()
    for expression in expressions:
        finder(expression)
    return None if finder.names is None else frozenset(finder.names)


def value_at(expression: Any, sizes: Mapping[str, int], what: str) -> int:
    """Return *expression* at *sizes*; raises :class:`UncountableError` if *what* depends on anything else."""
    if isinstance(expression, int):
        return expression
    unknown = get_dependencies(expression) - sizes.keys()
    if unknown:
        raise UncountableError(f"{what} depends on {', '.join(sorted(unknown))}, which is not a size")
    return int(evaluate(expression, dict(sizes)))


# }}}


# {{{ loaded strides
#
# Data multiplies a loop variable, as in ``x[base[c] + stride[i]*layer]``. The distance between neighbors along that
# loop is unknown unless ``typical`` has a value for the factor.


def resolved(
    kernel: Kernel, typical: Typical, index: tuple[Any, ...], temporaries: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return *index* with data that multiplies loop variables replaced by its value in *typical*, if it has one.

    *temporaries* are replaced by their values.
    """
    write, as_maxima = _TypicalFactors(kernel, typical), _Absolutes(kernel)
    return tuple(as_maxima(with_values(write(each), temporaries)) for each in index)


def scaled_by_data(kernel: Kernel, expressions: tuple[Any, ...]) -> dict[str, list[str]]:
    """Return iname -> names of the data that multiplies or divides it in *expressions*."""
    found = _Scaled(kernel)
    for expression in expressions:
        if _is_data(kernel, expression):
            found(expression)
    return found.found


def check_length(kernel: Kernel, typical: Typical, ref: Reference) -> None:
    """Look up the length of the array of *ref* in *typical* if neither its index nor its shape determines it."""
    if any(_is_data(kernel, index) for index in ref.index) and known_shape(kernel, ref.array) is None:
        typical.length(ref.array)


def _is_data(kernel: Kernel, expression: Any) -> bool:
    return not kernel.is_known(expression)


def _names_of_data(kernel: Kernel, expression: Any) -> Iterator[str]:
    """Yield the names of arrays, functions and variables that provide the data in *expression*."""
    for part in DependencyMapper(include_subscripts=True, include_calls=True)(expression):
        name = getattr(getattr(part, "aggregate", getattr(part, "function", part)), "name", str(part))
        value = kernel.integer_temporaries.get(name)
        if value is not None:
            yield from _names_of_data(kernel, value)
        elif name not in kernel.loopy_kernel.all_inames() | kernel.parameters:
            yield name


class _Scaled(WalkMapper[[]]):
    """Finds inames that are multiplied or divided by data."""

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
        """A loaded value is data, whatever its index."""

    def map_call(self, expr: prim.Call) -> None:
        """The result of a function is data."""

    def _add(self, factor: Any, others: list[Any]) -> None:
        if _is_data(self.kernel, factor):
            for iname in sorted(get_dependencies(tuple(others)) & self.kernel.loopy_kernel.all_inames()):
                self.found.setdefault(iname, []).extend(_names_of_data(self.kernel, factor))


class _TypicalFactors(IdentityMapper[[]]):
    """Replaces data that multiplies inames by its typical value."""

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


# {{{ atomic updates: what the generated code does, and the assumptions about collisions between work-items
#
# Loopy calls ``atomicAdd`` for sums in CUDA, and writes loops around a compare-exchange otherwise
# (``emit_atomic_update`` in ``loopy/target``). nvcc makes one instruction of a call whose result is unused (``RED``, in
# shared memory ``ATOMS``), but a loop of floating-point additions in shared memory. It adds up integers of a warp
# before the update if all lanes provably update the same element (machine code of sm_75 to sm_90:
# tests/machine_code/test_atomic_updates.py).


SLICE = 512
"""bytes of neighboring elements that the shared cache updates one after the other; updates of different elements in a
sector at once. A histogram of uniform bytes on an H100 has 256 bins in 1 KiB and updates 0.7 sectors of every 512 bytes
per cycle; additions to 512 bins in a row by all warps of an RTX 3070 Ti 0.8 (docs/pipeline.md)."""
IN_SLICES = Note(
    NoteKind.ATOMIC_UPDATES, f"atomic updates of {SUBJECTS} within {SLICE} bytes are assumed to follow one another"
)
IN_LOOPS = Note(
    NoteKind.ATOMIC_UPDATES,
    f"atomic updates of {SUBJECTS} repeat a compare-exchange until it succeeds; one success is assumed per element and "
    "round trip to the memory, and repeated instructions are not counted",
)
ON_ANY_MEMORY = Note(
    NoteKind.ATOMIC_UPDATES,
    f"atomic updates of {SUBJECTS} are counted without the cost of collisions between work-items",
)


def is_atomic(instruction: object) -> bool:
    """Return whether *instruction* updates an element atomically."""
    return isinstance(instruction, Assignment) and bool(instruction.atomicity)


def atomically_added(kernel: Kernel, instruction: Assignment) -> Any:
    """Return what *instruction* adds to an element by one machine instruction; None if the code is a loop."""
    expression: Any = instruction.expression
    array = kernel.arrays.get(*instruction.assignee_var_names())
    if not isinstance(kernel.loopy_kernel.target, CudaTarget) or not isinstance(expression, prim.Sum) or array is None:
        return None
    if array.address_space == AddressSpace.LOCAL and not element_type(array).is_integral():
        return None
    added = [child for child in expression.children if child != instruction.assignee]
    return prim.flattened_sum(added) if added else None


def update_of(kernel: Kernel, typical: Typical, ref: Reference, is_loop: bool) -> Update:
    """Return how the store *ref* updates its element."""
    if not all(map(kernel.is_known, ref.index)):
        return Update(is_loop, distinct=typical.distinct(ref.array))
    axes = (kernel.hardware_axes.get(name) for name in get_dependencies(ref.index))
    is_uniform = not any(isinstance(axis, LocalInameTag) for axis in axes)
    is_integer = bool(element_type(kernel.arrays[ref.array]).is_integral())
    return Update(is_loop, is_combined=is_uniform and is_integer and not is_loop)


def on_collisions(instruction: object) -> Iterator[Assumption]:
    """Yield the assumption that collisions cost nothing if *instruction* is an atomic update."""
    if is_atomic(instruction):
        assert isinstance(instruction, Assignment)
        yield from (Assumption(ON_ANY_MEMORY, name, name) for name in sorted(instruction.assignee_var_names()))


# }}}
