"""Refusing numbers outside the range of a model's parameter, by its name."""

from math import inf, isfinite

import numpy as np
from numpy.typing import ArrayLike

from loopyperf.errors import ModelInputError


def check_range(name: str, value: ArrayLike, least: float, most: float = inf, *, above: bool = False) -> None:
    """Raise :class:`ModelInputError` unless *value*, one number or an array of them, lies from *least* to *most*.

    With *above*, it is to be greater than *least*.
    """
    values = np.asarray(value)
    if values.dtype.kind not in "iufb":
        raise ModelInputError(f"{name} must be a number; received {value!r}")
    for number in values.ravel().tolist():
        is_in_range = isfinite(number) and (number > least if above else number >= least) and number <= most
        if not is_in_range:
            lower = f"greater than {least:g}" if above else f"{least:g} or more"
            upper = "" if most == inf else f", and at most {most:g}"
            raise ModelInputError(f"{name} is {number:g}: it must be {lower}{upper}")


def check_number(name: str, value: object) -> None:
    """Raise :class:`ModelInputError` unless *value* is a single number."""
    if np.ndim(np.asarray(value)):
        raise ModelInputError(f"{name} must be one number, received {value!r}; arrays are for occupancies")
