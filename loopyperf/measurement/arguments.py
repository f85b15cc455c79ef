"""Arguments of kernels that are measured: their memory, their values, and whether what they become is right."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase, get_strides
from loopy.kernel.data import AddressSpace, ArrayArg, ConstantArg, KernelArgument, ValueArg
from pymbolic.mapper.evaluator import UnknownVariableError, evaluate

from loopyperf.errors import MeasurementError, ParameterError
from loopyperf.measurement.environment import Arguments, Array, Sizes

# {{{ how much global memory a kernel's arrays take, before any of them is made


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


# }}}


# {{{ arguments


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


# }}}


# {{{ arguments for a kernel that comes without
#
# Numbers that do no harm, whatever the kernel does with them.


ORDINARY = (0.5, 1.0)
"""floating-point numbers are drawn from here: no product of them overflows, few are denormal"""
AT_ONCE = 2**20
"""numbers drawn together"""


def made_arguments(kernel: LoopKernel, sizes: Sizes, given: Mapping[str, Any], seed: int = 0) -> Arguments:
    """Return arguments for *kernel* at *sizes*: those *given*, and others that are made up.

    Floating-point numbers are random, by *seed* and the argument's name: variants of a kernel are given the same.
    Integers are zeros: as indices they lie in every array.

    Raises :class:`ParameterError` for what is given and no argument, or is another size than *sizes* says, and
    :class:`MeasurementError` for an array of unknown shape or type.
    """
    if not isinstance(cast("object", given), Mapping):
        raise ParameterError(f"arguments are by name, as in {{'a': array}}; received {given!r:.80}")
    if superfluous := sorted(set(given) - set(kernel.arg_dict)):
        takes = ", ".join(kernel.arg_dict)
        raise ParameterError(f"kernel {kernel.name!r} has no argument {', '.join(superfluous)}; it takes: {takes}")
    for name in sorted(set(given) & set(sizes)):
        if not np.array_equal(given[name], sizes[name]):
            raise ParameterError(
                f"argument {name} is {given[name]!r:.80}, but the size {name} is {sizes[name]}: state it as a size"
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
            raise ParameterError(f"argument {argument.name} is an {type(argument).__name__}: give it in arguments")
    return made


def indices_made_up(kernel: LoopKernel, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the arrays of integers that are not *given*: zeros may be far from what is usual."""
    arrays = (argument for argument in kernel.args if isinstance(argument, ArrayBase) and argument.name not in given)
    return tuple(each.name for each in arrays if numpy_type(each).kind in "iub")


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
    """Return so many random numbers, with little memory beside them: an array may be most of what there is."""
    numbers = np.empty(elements, kind)
    for begin in range(0, elements, AT_ONCE):
        numbers[begin : begin + AT_ONCE] = rng.uniform(*ORDINARY, min(AT_ONCE, elements - begin))
    return numbers


# }}}


# {{{ whether a kernel computed what NumPy computes: a wrong kernel's time is worth nothing


def verify(results: Mapping[str, Array], reference: Mapping[str, Array], tolerance: float) -> None:
    """Raise :class:`MeasurementError` unless each of the *results* agrees with *reference* within *tolerance*.

    *results* are the arrays that the kernel wrote, by name; each needs its reference, of the same shape. The components
    of vectors are an axis more.
    The error is that of :func:`relative_error`; one that is not a number is never within the tolerance.
    """
    missing = sorted(set(results) ^ set(reference))
    if missing:
        raise MeasurementError(
            f"the kernel writes {', '.join(sorted(results)) or 'nothing'} and the reference computes "
            f"{', '.join(sorted(reference)) or 'nothing'}: they must be the same arrays; only one has "
            f"{', '.join(missing)}"
        )
    for name, result in results.items():
        shape, wanted = _components(result).shape, _components(reference[name]).shape
        if shape != wanted:
            raise MeasurementError(f"array {name} has shape {shape}, its reference {wanted}; mend one of them")
        error = relative_error(result, reference[name])
        if not error <= tolerance:
            raise MeasurementError(
                f"array {name} is wrong: its largest error is {error:.3g} of the reference's largest magnitude, "
                f"more than the tolerance {tolerance:.3g}; mend the kernel or its reference"
            )


def relative_error(result: Array, expected: Array) -> float:
    """Return max |result − expected| / max |expected|, over all elements; the divisor is 1 if *expected* is all zero.

    The scale is that of the whole array: cancellation in one small element is not an error of the kernel. Elements that
    are vectors are compared component by component.
    """
    if not expected.size:
        return 0.0
    result, expected = _components(result), _components(expected)
    wide = np.result_type(result, expected, np.float64)
    exact = expected.astype(wide)
    scale = float(np.abs(exact).max()) or 1.0
    with np.errstate(invalid="ignore"):  # infinity minus infinity is not a number, and so is the error
        return float(np.abs(result.astype(wide) - exact).max()) / scale


def _components(array: Array) -> Array:
    """Return *array* with an axis more for the components of vectors; what fills up one of three is none."""
    if array.dtype.names is None:
        return array
    return np.stack([array[name] for name in array.dtype.names if not name.startswith("padding")], axis=-1)


# }}}
