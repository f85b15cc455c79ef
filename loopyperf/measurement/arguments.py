"""Whether the arguments that a configuration makes are those that its kernel takes."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from loopy.kernel import LoopKernel
from loopy.kernel.array import get_strides
from loopy.kernel.data import ArrayArg, ConstantArg, KernelArgument, ValueArg

from loopyperf.errors import MeasurementError
from loopyperf.measurement.allocation import evaluated_axes, numpy_type
from loopyperf.measurement.configuration import Arguments, Array, Sizes


def checked_arguments(kernel: LoopKernel, arguments: Arguments, sizes: Sizes) -> Arguments:
    """Return *arguments* in the order of *kernel*, scalars in exactly the kernel's types.

    Raises :class:`MeasurementError` unless they are what the kernel takes at *sizes*: a device would read beyond a
    short array, and take the bits of a wrong type, without a word.
    """
    expected = [argument.name for argument in kernel.args]
    if set(expected) != set(arguments):
        raise MeasurementError(
            f"kernel {kernel.name} takes the arguments {', '.join(expected)}; received {', '.join(arguments)}"
        )
    return {argument.name: _checked(argument, arguments[argument.name], sizes) for argument in kernel.args}


def _checked(argument: KernelArgument, value: object, sizes: Sizes) -> Array | np.generic:
    if isinstance(argument, ArrayArg | ConstantArg):
        return _checked_array(argument, value, sizes)
    if isinstance(argument, ValueArg):
        return _checked_scalar(argument, value)
    raise MeasurementError(f"argument {argument.name} is an {type(argument).__name__}; only arrays can be measured")


def _checked_array(argument: ArrayArg | ConstantArg, value: object, sizes: Sizes) -> Array:
    if not isinstance(value, np.ndarray):
        raise MeasurementError(f"argument {argument.name} is an array; received {type(value).__name__}")
    array = cast("Array", value)
    if array.dtype != numpy_type(argument):
        raise MeasurementError(f"argument {argument.name} has type {argument.dtype}; received {array.dtype}")
    shape = evaluated_axes(argument, argument.shape, sizes)
    if array.shape != shape:
        raise MeasurementError(f"argument {argument.name} has shape {shape} at {dict(sizes)}; received {array.shape}")
    strides = evaluated_axes(argument, get_strides(argument), sizes)
    received = [stride // array.itemsize for stride in array.strides]
    if _along_long_axes(strides, shape) != _along_long_axes(received, shape):
        raise MeasurementError(
            f"argument {argument.name} has strides {strides} (elements); received {tuple(received)}: "
            "make the array in the kernel's order, C or Fortran"
        )
    return array


def _along_long_axes(strides: Sequence[int], shape: Sequence[int]) -> list[int]:
    # Nobody steps along an axis of length one, and NumPy leaves its stride undefined.
    return [stride for stride, length in zip(strides, shape, strict=True) if length > 1]


def _checked_scalar(argument: ValueArg, value: object) -> np.generic:
    kind = numpy_type(argument)
    problem = f"argument {argument.name} is a scalar of type {argument.dtype}; received {value!r}"
    if isinstance(value, np.ndarray):
        raise MeasurementError(problem)
    try:
        scalar: np.generic = kind.type(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise MeasurementError(problem) from error
    # A float is rounded to the kernel's precision, as NumPy would; an integer must stay what it is.
    if kind.kind in "iub" and scalar != value:
        raise MeasurementError(problem)
    return scalar
