"""Kernel arguments for measurements: memory size, checks, generated values and verification of results."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase, get_strides
from loopy.kernel.data import AddressSpace, ArrayArg, ConstantArg, KernelArgument, ValueArg
from pymbolic.mapper.evaluator import UnknownVariableError, evaluate

from loopyperf.errors import MeasurementError, ParameterError
from loopyperf.measurement.environment import Arguments, Array, Sizes

# {{{ global memory of a kernel's arrays, computed before any of them is allocated


def allocated_bytes(kernel: LoopKernel, sizes: Sizes) -> int:
    """Return the total bytes of the global-memory arrays of *kernel* at *sizes*.

    Raises the errors of :func:`array_bytes`.
    """

    return sum(array_bytes(kernel, sizes).values())


def array_bytes(kernel: LoopKernel, sizes: Sizes) -> dict[str, int]:
    """Return the bytes of each array argument and global temporary of *kernel* at *sizes*, by name.

    Raises :class:`MeasurementError` if a shape is unknown or depends on a parameter missing from *sizes*.
    """
    arguments = [argument for argument in kernel.args if isinstance(argument, ArrayBase)]
    temporaries = [
        variable
        for variable in kernel.temporary_variables.values()
        if variable.address_space == AddressSpace.GLOBAL and variable.initializer is None
    ]
    return {
        array.name: prod(evaluated_axes(array, array.shape, sizes)) * numpy_type(array).itemsize
        for array in [*arguments, *temporaries]
    }


def evaluated_axes(array: ArrayBase, axes: Any, sizes: Sizes) -> tuple[int, ...]:
    """Return *axes*, the lengths or strides of *array*, as numbers of elements at *sizes*.

    Raises :class:`MeasurementError` if they are unknown or depend on a parameter missing from *sizes*.
    """
    if not isinstance(axes, tuple):
        raise MeasurementError(f"the shape of {array.name} is unknown; specify it when creating the kernel")
    try:
        return tuple(int(evaluate(axis, dict(sizes))) for axis in cast("tuple[Any, ...]", axes))
    except UnknownVariableError as error:
        raise MeasurementError(
            f"the shape of {array.name} depends on {error}, which is missing from sizes {dict(sizes)}"
        ) from error


def numpy_type(variable: ArrayBase | ValueArg) -> np.dtype[Any]:
    """Return the element type of *variable*; raises :class:`MeasurementError` if it is unknown."""
    if variable.dtype is None:
        raise MeasurementError(f"the type of {variable.name} is unknown; specify it when creating the kernel")
    return variable.dtype.numpy_dtype


# }}}


# {{{ arguments


def checked_arguments(kernel: LoopKernel, arguments: Arguments, sizes: Sizes) -> Arguments:
    """Return *arguments* in the order of *kernel*, with scalars converted to the kernel's types.

    Raises :class:`MeasurementError` unless they match the kernel's arguments at *sizes*. A device would read past the
    end of a short array and misinterpret the bits of a wrong type without an error.
    """
    expected = [argument.name for argument in kernel.args]
    if set(expected) != set(arguments):
        raise MeasurementError(
            f"kernel {kernel.name} requires the arguments {', '.join(expected)}; got {', '.join(arguments)}"
        )
    return {argument.name: _checked(argument, arguments[argument.name], sizes) for argument in kernel.args}


def _checked(argument: KernelArgument, value: object, sizes: Sizes) -> Array | np.generic:
    if isinstance(argument, ArrayArg | ConstantArg):
        return _checked_array(argument, value, sizes)
    if isinstance(argument, ValueArg):
        return _checked_scalar(argument, value)
    raise MeasurementError(
        f"argument {argument.name} has unsupported type {type(argument).__name__}; only arrays and scalars are allowed"
    )


def _checked_array(argument: ArrayArg | ConstantArg, value: object, sizes: Sizes) -> Array:
    if not isinstance(value, np.ndarray):
        raise MeasurementError(f"argument {argument.name} must be an array; got {type(value).__name__}")
    array = cast("Array", value)
    if array.dtype != numpy_type(argument):
        raise MeasurementError(f"argument {argument.name} must have type {argument.dtype}; got {array.dtype}")
    shape = evaluated_axes(argument, argument.shape, sizes)
    if array.shape != shape:
        raise MeasurementError(f"argument {argument.name} must have shape {shape} at {dict(sizes)}; got {array.shape}")
    strides = evaluated_axes(argument, get_strides(argument), sizes)
    received = [stride // array.itemsize for stride in array.strides]
    if _along_long_axes(strides, shape) != _along_long_axes(received, shape):
        raise MeasurementError(
            f"argument {argument.name} must have strides {strides} (elements); got {tuple(received)}; "
            "create the array in the kernel's order, C or Fortran"
        )
    return array


def _along_long_axes(strides: Sequence[int], shape: Sequence[int]) -> list[int]:
    # The stride of an axis of length one is never used, and NumPy leaves it undefined.
    return [stride for stride, length in zip(strides, shape, strict=True) if length > 1]


def _checked_scalar(argument: ValueArg, value: object) -> np.generic:
    kind = numpy_type(argument)
    problem = f"argument {argument.name} must be a scalar of type {argument.dtype}; got {value!r}"
    if isinstance(value, np.ndarray):
        raise MeasurementError(problem)
    try:
        scalar: np.generic = kind.type(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise MeasurementError(problem) from error
    # A float is rounded to the kernel's precision, as NumPy does; an integer must keep its value.
    if kind.kind in "iub" and scalar != value:
        raise MeasurementError(problem)
    return scalar


# }}}


# {{{ generated arguments, for kernels without given ones
#
# The values are harmless in any kernel.


ORDINARY = (0.5, 1.0)
"""range of generated floating-point numbers: none of their products overflows and few are denormal"""
AT_ONCE = 2**20
"""random numbers generated at a time"""


def made_arguments(kernel: LoopKernel, sizes: Sizes, given: Mapping[str, Any], seed: int = 0) -> Arguments:
    """Return arguments for *kernel* at *sizes*: the *given* ones, and generated values for all others.

    Generated floating-point numbers are random and depend only on *seed* and the argument's name, so that all variants
    of a kernel receive the same data. Generated integers are 0: as indices they are valid for every array.

    Raises :class:`ParameterError` for a name in *given* that is not an argument or contradicts *sizes*, and
    :class:`MeasurementError` for an array of unknown shape or type.
    """
    if not isinstance(cast("object", given), Mapping):
        raise ParameterError(f"arguments must be a mapping by name, as in {{'a': array}}; got {given!r:.80}")
    if superfluous := sorted(set(given) - set(kernel.arg_dict)):
        takes = ", ".join(kernel.arg_dict)
        raise ParameterError(f"kernel {kernel.name!r} has no argument {', '.join(superfluous)}; it takes: {takes}")
    for name in sorted(set(given) & set(sizes)):
        if not np.array_equal(given[name], sizes[name]):
            raise ParameterError(
                f"argument {name} is {given[name]!r:.80}, but size {name!r} is {sizes[name]}; pass it as a size only"
            )
    made: Arguments = {}
    for argument in kernel.args:
        if argument.name in given:
            made[argument.name] = given[argument.name]
        elif isinstance(argument, ValueArg):
            made[argument.name] = _scalar(argument, sizes)
        elif isinstance(argument, ArrayArg | ConstantArg):
            made[argument.name] = _array(argument, sizes, np.random.default_rng((seed, *argument.name.encode())))
        else:
            raise ParameterError(
                f"cannot generate argument {argument.name} of type {type(argument).__name__}; pass it in arguments"
            )
    return made


def generated_indices_note(kernel: LoopKernel, given: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return a note on integer arrays that are not *given*, whose generated zeros may be unrealistic; () for none."""
    read = kernel.get_read_variables()
    arrays = [each for each in kernel.args if isinstance(each, ArrayBase) and each.name in read - set(given or {})]
    zeros = [each.name for each in arrays if numpy_type(each).kind in "iub"]
    return (f"no arguments given for {', '.join(zeros)}; assumed 0",) if zeros else ()


def _scalar(argument: ValueArg, sizes: Sizes) -> np.generic:
    kind = numpy_type(argument)
    return kind.type(sizes.get(argument.name, 0 if kind.kind in "iub" else ORDINARY[0]))


def _array(argument: ArrayArg | ConstantArg, sizes: Sizes, rng: np.random.Generator) -> Array:
    kind = numpy_type(argument)
    shape = evaluated_axes(argument, argument.shape, sizes)
    strides = evaluated_axes(argument, get_strides(argument), sizes)
    last = sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    elements = last + 1 if all(shape) else 0
    contents = _random(elements, kind, rng) if kind.kind in "fc" else np.zeros(elements, kind)
    return np.ndarray(shape, kind, contents, strides=tuple(stride * kind.itemsize for stride in strides))


def _random(elements: int, kind: np.dtype[Any], rng: np.random.Generator) -> Array:
    """Return *elements* random numbers; in chunks, because the array may take most of the memory."""
    numbers = np.empty(elements, kind)
    for begin in range(0, elements, AT_ONCE):
        numbers[begin : begin + AT_ONCE] = rng.uniform(*ORDINARY, min(AT_ONCE, elements - begin))
    return numbers


# }}}


# {{{ comparison of a kernel's results with NumPy's: the time of a wrong kernel is useless


TOLERANCE = 1e-4
"""largest relative difference between results of two variants, which may add in different order"""


def verify(results: Mapping[str, Array], reference: Mapping[str, Array], tolerance: float) -> None:
    """Raise :class:`MeasurementError` unless each of the *results* agrees with *reference* within *tolerance*.

    *results* and *reference* are arrays by name and must have the same names and shapes. The components of vector
    types form an additional axis. The error is that of :func:`relative_error`; NaN always fails.
    """
    missing = sorted(set(results) ^ set(reference))
    if missing:
        raise MeasurementError(
            f"the kernel writes {', '.join(sorted(results)) or 'nothing'} but the reference computes "
            f"{', '.join(sorted(reference)) or 'nothing'}; mismatch: {', '.join(missing)}"
        )
    for name, result in results.items():
        shape, wanted = _components(result).shape, _components(reference[name]).shape
        if shape != wanted:
            raise MeasurementError(f"array {name} has shape {shape} but its reference has {wanted}; fix one of them")
        error = relative_error(result, reference[name])
        if not error <= tolerance:
            raise MeasurementError(
                f"array {name} is wrong: maximum error {error:.3g} relative to the reference's largest magnitude, "
                f"tolerance {tolerance:.3g}; fix the kernel or its reference"
            )


def relative_error(result: Array, expected: Array) -> float:
    """Return max |result − expected| / max |expected| over all elements; the divisor is 1 if *expected* is all zero.

    The scale is that of the whole array, because cancellation in one small element is not an error of the kernel.
    Elements of vector types are compared component by component.
    """
    if not expected.size:
        return 0.0
    result, expected = _components(result), _components(expected)
    wide = np.result_type(result, expected, np.float64)
    exact = expected.astype(wide)
    scale = float(np.abs(exact).max()) or 1.0
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, and so is the error
        return float(np.abs(result.astype(wide) - exact).max()) / scale


def _components(array: Array) -> Array:
    """Return *array* with an additional axis for vector components, without the padding of 3-vectors."""
    if array.dtype.names is None:
        return array
    return np.stack([array[name] for name in array.dtype.names if not name.startswith("padding")], axis=-1)


# }}}
