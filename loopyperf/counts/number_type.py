"""Types to calculate in, as the scalars that they are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from loopy.target import cuda, opencl
from loopy.types import LoopyType, NumpyType

from loopyperf.errors import UncountableError


@dataclass(frozen=True, slots=True)
class NumberType:
    """A real or complex number, or a vector of such."""

    scalar: str
    """e.g. ``"f32"``; of a complex number the type of its parts"""
    components: int = 1
    """of a vector; one otherwise"""
    is_complex: bool = False


def number_type(dtype: LoopyType) -> NumberType:
    """Return what *dtype* is made of; raises :class:`UncountableError` where it is no number."""
    if isinstance(dtype, NumpyType):
        scalar, components = _scalar_and_count(dtype.dtype)
        kind, size = scalar.kind, scalar.itemsize
        if kind == "c":
            return NumberType(f"f{4 * size}", components, is_complex=True)
        if kind in "fiub":
            return NumberType(f"{'u' if kind == 'b' else kind}{8 * size}", components)
    raise UncountableError(f"arithmetic on type {dtype} is not counted")


def _scalar_and_count(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], int]:
    for vectors in (opencl, cuda) if dtype.fields else ():
        types: Any = vectors.vec
        known: Mapping[Any, tuple[Any, int]] = types.type_to_scalar_and_count
        if dtype in known:
            scalar, count = known[dtype]
            return np.dtype(scalar), count
    return dtype, 1
