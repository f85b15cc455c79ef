"""Arguments for a kernel that comes without: numbers that do no harm, whatever the kernel does with them."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase, get_strides
from loopy.kernel.data import ArrayArg, ConstantArg, ValueArg

from loopyperf.errors import ParameterError
from loopyperf.measurement.allocation import evaluated_axes, numpy_type
from loopyperf.measurement.configuration import Arguments, Array, Sizes

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
