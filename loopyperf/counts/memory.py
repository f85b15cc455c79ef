"""Memory references: which element of which array, of how many bits, and how far apart its neighbours are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from loopy.kernel.array import ArrayBase, FixedStrideArrayDimTag, SeparateArrayArrayDimTag, VectorArrayDimTag
from loopy.kernel.data import AddressSpace, ArrayArg, ConstantArg, TemporaryVariable
from loopy.symbolic import get_dependencies
from loopy.types import LoopyType
from pymbolic import evaluate

from loopyperf.assumptions import Assumption
from loopyperf.counts.item import Direction, Space
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Reference:
    """One load or store of an array element, as the source has it."""

    direction: Direction
    space: Space
    array: str
    index: tuple[Any, ...]
    """one expression for each axis; one alone where it counts elements in memory"""
    bits: int
    is_whole: bool = False
    """it accesses all members of a vector"""
    is_linear: bool = False
    """the index counts elements in memory, whatever the axes"""

    def assumption(self, sentence: str) -> Assumption:
        """Return an assumption on this access; see :class:`Assumption`."""
        return Assumption(sentence, self.array, f"{self.array}[{', '.join(map(str, self.index))}]")


def reference(
    kernel: Kernel, name: str, index: tuple[Any, ...], direction: Direction, vector: str | None = None
) -> Reference | None:
    """Return the reference to element *index* of *name*, None where that does not live in memory.

    *vector* is the loop that the instruction runs all at once. Raises :class:`UncountableError` for images.
    """
    array = kernel.array(name)
    if array is None:
        return None
    if not isinstance(array, (ArrayArg, ConstantArg, TemporaryVariable)):
        raise UncountableError(f"no count for accesses of {name!r}, of class {type(array).__name__}")
    space: Space = "local" if array.address_space == AddressSpace.LOCAL else "global"
    axis = vector_axis(array)
    if axis is not None and vector is not None and vector in get_dependencies(index[axis]):
        whole = tuple(0 if place == axis else expression for place, expression in enumerate(index))
        return Reference(direction, space, name, whole, vector_bits(kernel, array, axis), is_whole=True)
    return Reference(direction, space, name, index, 8 * element_type(array).itemsize)


def linear_reference(kernel: Kernel, name: str, index: Any, direction: Direction) -> Reference | None:
    """Return the reference to the element of *name* that lies *index* elements from its first one."""
    found = reference(kernel, name, (index,), direction)
    array = kernel.array(name)
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
    array = kernel.array(ref.array)
    tags = None if array is None or ref.is_linear or ref.is_whole else array.dim_tags
    if tags is None or not all(isinstance(tag, FixedStrideArrayDimTag) for tag in tags):
        return element_strides(kernel, ref, sizes)
    return tuple(tag.stride for tag in tags)


def element_strides(kernel: Kernel, ref: Reference, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the distance between neighbours along each index of *ref*, at *sizes*, in units of what it accesses.

    An axis along which the array is made of separate arrays has distance zero: nothing is a neighbour there.
    """
    array = kernel.array(ref.array)
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


def value_at(expression: Any, sizes: Mapping[str, int], what: str) -> int:
    """Return *expression* at *sizes*; raises :class:`UncountableError` where *what* depends on something else."""
    if isinstance(expression, int):
        return expression
    unknown = get_dependencies(expression) - sizes.keys()
    if unknown:
        raise UncountableError(f"{what} depends on {', '.join(sorted(unknown))}, which is not a size")
    return int(evaluate(expression, dict(sizes)))


# }}}
