"""Types to calculate in, as the scalars that they are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
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

    @property
    def is_integral(self) -> bool:
        """Return whether it is an integer, or a vector of such."""
        return self.scalar[0] in "iu"


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


@cache
def converted(left: NumberType, right: NumberType) -> NumberType:
    """Return the type that C computes in with operands of types *left* and *right*: its usual arithmetic conversions.

    A vector converts what is combined with it to the type of its members.
    """
    is_complex = left.is_complex or right.is_complex
    if left.components != right.components:
        vector = max(left, right, key=lambda each: each.components)
        return NumberType(vector.scalar, vector.components, is_complex)
    floats = [each.scalar for each in (left, right) if not each.is_integral]
    scalars = floats or [left.scalar, right.scalar, *(["i32"] if left.components == 1 else [])]
    return NumberType(max(scalars, key=lambda scalar: (int(scalar[1:]), scalar)), left.components, is_complex)


def _scalar_and_count(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], int]:
    for vectors in (opencl, cuda) if dtype.fields else ():
        types: Any = vectors.vec
        known: Mapping[Any, tuple[Any, int]] = types.type_to_scalar_and_count
        if dtype in known:
            scalar, count = known[dtype]
            return np.dtype(scalar), count
    return dtype, 1
