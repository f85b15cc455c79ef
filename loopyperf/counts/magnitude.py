"""How large sizes may be: counts are exact at any, while passes of loops and addresses are numbered in 64 bits."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from sys import float_info
from typing import Any, cast

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
