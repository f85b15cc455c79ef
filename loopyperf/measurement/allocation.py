"""How much global memory a kernel's arrays take, before any of them is made."""

from typing import Any, cast

import numpy as np
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase
from loopy.kernel.data import AddressSpace, ValueArg
from pymbolic.mapper.evaluator import UnknownVariableError, evaluate

from loopyperf.errors import MeasurementError
from loopyperf.measurement.configuration import Sizes


def allocated_bytes(kernel: LoopKernel, sizes: Sizes) -> int:
    """Return the bytes that the arrays of *kernel* in global memory take together at *sizes*.

    Raises what :func:`array_bytes` does.
    """
    return sum(array_bytes(kernel, sizes).values())


def array_bytes(kernel: LoopKernel, sizes: Sizes) -> dict[str, int]:
    """Return name -> the bytes of each array argument and global temporary of *kernel* at *sizes*.

    Raises :class:`MeasurementError` if the shape of one is unknown or depends on a parameter that *sizes* lacks.
    """
    arguments = [argument for argument in kernel.args if isinstance(argument, ArrayBase)]
    temporaries = [
        variable
        for variable in kernel.temporary_variables.values()
        if variable.address_space == AddressSpace.GLOBAL and variable.initializer is None
    ]
    return {array.name: _bytes_of(array, sizes) for array in [*arguments, *temporaries]}


def evaluated_axes(array: ArrayBase, axes: Any, sizes: Sizes) -> tuple[int, ...]:
    """Return the lengths or strides *axes* of *array*, in elements, at *sizes*.

    Raises :class:`MeasurementError` if they are unknown or depend on a parameter that *sizes* lacks.
    """
    if not isinstance(axes, tuple):
        raise MeasurementError(f"the shape of {array.name} is not known; give it when building the kernel")
    try:
        return tuple(int(evaluate(axis, dict(sizes))) for axis in cast("tuple[Any, ...]", axes))
    except UnknownVariableError as error:
        raise MeasurementError(
            f"the shape of {array.name} depends on {error}, which is not among {dict(sizes)}"
        ) from error


def numpy_type(variable: ArrayBase | ValueArg) -> np.dtype[Any]:
    """Return the type of *variable*'s elements; raises :class:`MeasurementError` if it is unknown."""
    if variable.dtype is None:
        raise MeasurementError(f"the type of {variable.name} is not known; give it when building the kernel")
    return variable.dtype.numpy_dtype


def _bytes_of(array: ArrayBase, sizes: Sizes) -> int:
    elements = 1
    for length in evaluated_axes(array, array.shape, sizes):
        elements *= length
    return elements * numpy_type(array).itemsize
