"""Sizes: which a kernel admits, and how large they may be.

Counts are exact at any size, while passes of loops and addresses are numbered in 64 bits.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from sys import float_info
from typing import Any, cast

import islpy as isl
import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import ParameterError
from loopyperf.units import number_in_words

BITS = 62
BOUND = 2**BITS
"""what is numbered lies below: a sum of two has room in 64 bits"""


def check_numbered(sizes: Mapping[str, int]) -> None:
    """Raise :class:`ParameterError` for a size that is too large for passes of loops to be numbered."""
    for name, size in sizes.items():
        if abs(size) >= BOUND:
            raise ParameterError(
                f"size {name} is {number_in_words(size)}, and what looks at passes of loops and at addresses takes "
                f"sizes below 2^{BITS} = {float(BOUND):.3g}: take a smaller one"
            )


@contextmanager
def numbered(sizes: Mapping[str, Any]) -> Generator[None]:
    """Raise :class:`ParameterError` where something at *sizes* has more than the numbers of 64 bits."""
    try:
        yield
    except OverflowError as error:
        raise ParameterError(
            f"at {sizes_in_words(sizes)} there are more passes of a loop, or groups, than 2^{BITS} = "
            f"{float(BOUND):.3g}: take smaller sizes"
        ) from error


@contextmanager
def priced(sizes: Mapping[str, Any]) -> Generator[None]:
    """Raise :class:`ParameterError` where counts at *sizes* are too large for the floating-point numbers of a time."""
    try:
        yield
    except OverflowError as error:
        raise beyond_floats(sizes) from error


def beyond_floats(sizes: Mapping[str, Any]) -> ParameterError:
    """Return the error that there is more of something at *sizes* than a time can tell."""
    return ParameterError(
        f"at {sizes_in_words(sizes)} the kernel does more than a floating-point time can tell, {float_info.max:.2g} of "
        "something: take smaller sizes"
    )


def sizes_in_words(sizes: Mapping[str, Any]) -> str:
    """Return *sizes* as a message names them, e.g. ``"n = 4096, m = about 10^400"``; of arrays, their largest."""
    return ", ".join(f"{name} = {_in_words(size)}" for name, size in sizes.items())


def _in_words(size: Any) -> str:
    if isinstance(size, np.ndarray):
        sizes = cast("NDArray[Any]", size)
        return f"up to {number_in_words(sizes.max())}" if sizes.size else "none"
    return number_in_words(size)


# {{{ which values of one size a kernel's assumptions admit


PARAM = isl.dim_type.param
SET = isl.dim_type.set


def admitted_values(
    assumptions: isl.BasicSet, size: str, at_least: int, at_most: int, others: Mapping[str, int]
) -> range:
    """Return the values of *size*, from *at_least* to *at_most*, that a kernel admits, given its *others*.

    Assumptions that admit some values in between and others not, beyond remainders, are taken to admit all. Raises
    :class:`ParameterError` for a size that the kernel does not have, others that are missing, and where there is none.
    """
    stated: dict[str, Any] = {"at_least": at_least, "at_most": at_most, **others}
    for name, value in stated.items():
        is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not is_integer or abs(int(cast("int", value))) >= BOUND:
            raise ParameterError(f"{name} is to be an integer below 2^{BITS}, received {number_in_words(value)}")
    if size in others:
        raise ParameterError(f"{size} is the size that varies: leave its value out")
    takes = isl.Set.from_basic_set(assumptions)
    names = takes.get_var_names_not_none(PARAM)
    unknown = sorted(map(str, {size, *others} - {*names}))
    if unknown:
        raise ParameterError(
            f"the kernel has no size {', '.join(unknown)}; its sizes are: {', '.join(names) or 'none'}"
        )
    missing = sorted({*names} - {size, *others})
    if missing:
        raise ParameterError(f"missing size {', '.join(missing)}: state them beside {size}")
    for name, value in others.items():
        takes = takes.fix_val(PARAM, takes.get_var_dict(PARAM)[name][1], isl.Val(int(value)))
    line = takes.move_dims(SET, 0, PARAM, takes.get_var_dict(PARAM)[size][1], 1)
    line = line.project_out(PARAM, 0, line.dim(PARAM))
    line = line.lower_bound_val(SET, 0, isl.Val(int(at_least))).upper_bound_val(SET, 0, isl.Val(int(at_most)))
    if line.is_empty():
        raise ParameterError(f"the kernel admits no {size} from {at_least} to {at_most}")
    step = line.get_stride_info(0).get_stride().to_python()
    return range(line.dim_min_val(0).to_python(), line.dim_max_val(0).to_python() + 1, step)


# }}}
