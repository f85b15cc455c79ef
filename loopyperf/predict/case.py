"""The input of a predictor: a kernel at given sizes, which are numbers or arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopyperf.errors import ParameterError
from loopyperf.kernel import Program


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A kernel at given sizes, with what its source does not tell."""

    kernel: Program
    """a Loopy program"""
    sizes: Mapping[str, Any]
    """values of the kernel's integer parameters, by name; arrays for a batch"""
    typical: Mapping[str, Any] | None = None
    """what the source does not tell (see :func:`loopyperf.count`)"""


def merged_sizes(parameters: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sizes given as keywords and in *parameters*.

    Raises :class:`ParameterError` for one given twice, and if *parameters* is not a mapping.
    """
    if parameters is None:
        return sizes
    _check_is_mapping(parameters)
    twice = sorted(set(parameters) & set(sizes))
    if twice:
        raise ParameterError(f"size {', '.join(twice)} is given twice, as a keyword and in parameters")
    return {**parameters, **sizes}


def one_size(parameters: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes given as keywords and in *parameters*; raises :class:`ParameterError` for an array."""
    merged = dict(merged_sizes(parameters, sizes))
    arrays = [name for name, size in merged.items() if isinstance(size, np.ndarray)]
    if arrays:
        raise ParameterError(
            f"models are compared at one size at a time, got an array for {arrays[0]}; estimate takes arrays"
        )
    return merged


def _check_is_mapping(parameters: object) -> None:
    if not isinstance(parameters, Mapping):
        raise ParameterError(f"parameters is a mapping from sizes to values, received {parameters!r:.80}")


def has_arrays(sizes: Mapping[str, Any]) -> bool:
    """Return whether any of *sizes* is an array."""
    return any(isinstance(size, np.ndarray) for size in sizes.values())


def common_shape(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that arrays of these *shapes* broadcast to; raises :class:`ParameterError` if there is none."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        received = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ParameterError(f"arrays of sizes must broadcast together, received the shapes {received}") from error
