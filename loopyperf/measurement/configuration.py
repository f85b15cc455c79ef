"""What a file of measurement or test kernels offers: configurations, each one kernel to build, check and time.

A kernel file holds ``NAME``, a docstring with the mathematics and why the kernel is there, and
``configurations(limits) -> list[Configuration]``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from types import MappingProxyType
from typing import Any, Literal

import loopy as lp
import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import KernelFileError

Array = NDArray[Any]
Sizes = Mapping[str, int]
"""The values of a kernel's size parameters, by name."""
Arguments = dict[str, "Array | np.generic"]
"""Arrays and scalars by argument name; arrays that the kernel writes are there too, with their initial contents."""
Group = tuple[int, int]
"""The extents of a 2-D work-group, in work-items: along l.0, along l.1."""
GroupSet = Literal["small", "medium", "large"]

GROUPS_1D: Mapping[GroupSet, tuple[int, ...]] = MappingProxyType(
    {"small": (192, 224, 256), "medium": (128, 256, 384), "large": (256, 384, 512)}
)
"""The 1-D group sizes of Stevens and Klöckner (section 4.1), in work-items."""
GROUPS_2D: Mapping[GroupSet, tuple[Group, ...]] = MappingProxyType(
    {
        "small": ((16, 12), (16, 14), (16, 16)),
        "medium": ((16, 12), (16, 16), (32, 16)),
        "large": ((16, 16), (24, 16), (32, 16)),
    }
)
"""The 2-D group sizes of Stevens and Klöckner (section 4.1)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device allows a kernel to use, and what else its driver reports of it."""

    group_size: int
    """most work-items in one work-group"""
    local_memory: int
    """bytes of local memory of one work-group"""
    global_memory: int
    """bytes that all arguments of one kernel may take together"""
    cores: int = 1
    """compute units, as OpenCL calls them"""
    warp_size: int = 1
    """work-items that are executed together; 1 where the driver states none, as on a processor"""
    clock: float | None = None
    """Hz, the highest; None where the driver states none, as in archives from before it was recorded"""
    memory: int | None = None
    """bytes of the device's global memory"""
    cache: int | None = None
    """bytes of the cache of global memory, whichever the driver means"""
    cache_line: int | None = None
    """bytes of its lines"""

    @property
    def group_set(self) -> GroupSet:
        """Which of the group-size sets of Stevens and Klöckner (section 4.1) the device gets."""
        if self.group_size < 384:
            return "small"
        return "medium" if self.group_size < 1024 else "large"

    def groups_1d(self, unless_small: GroupSet | None = None) -> tuple[int, ...]:
        """Return the 1-D group sizes of the device's set, in work-items, as far as it can hold them.

        *unless_small* is for a class that has one set in the paper on every device but those of the small set.
        """
        return tuple(size for size in GROUPS_1D[self._set(unless_small)] if size <= self.group_size)

    def groups_2d(self, unless_small: GroupSet | None = None) -> tuple[Group, ...]:
        """Return the 2-D group sizes of the device's set, as far as it can hold them.

        *unless_small* is for a class that has one set in the paper on every device but those of the small set.
        """
        return tuple((x, y) for x, y in GROUPS_2D[self._set(unless_small)] if x * y <= self.group_size)

    def _set(self, unless_small: GroupSet | None) -> GroupSet:
        return "small" if self.group_set == "small" else unless_small or self.group_set


@dataclass(frozen=True, slots=True)
class Configuration:
    """One kernel at a ladder of sizes.

    The harness times ``steps`` sizes of the ladder, ``stride`` apart, from the first one that runs long enough beside
    an empty kernel (the protocol's ``overhead_factor``; Stevens and Klöckner, section 4.2). It ends the ladder before
    the first size whose arrays take more than :attr:`Limits.global_memory`: a kernel file need not look at that.
    A kernel may have further ladders, on which another of its parameters has another value.
    """

    label: str
    """unique within the file, e.g. ``"n=m=l, group 16x16"``"""
    build: Callable[[], lp.TranslationUnit]
    """builds the kernel, fully transformed, with all types known"""
    sizes: tuple[Sizes, ...]
    """the ladder, smallest first"""
    arguments: Callable[[np.random.Generator, Sizes], Arguments]
    """makes the arguments for one of the sizes, the size parameters among them"""
    reference: Callable[[Arguments], dict[str, Array]]
    """the expected contents of every array that the kernel writes, computed by NumPy from the same arguments"""
    steps: int = 4
    stride: int = 1
    tolerance: float = 1e-4
    """largest relative error against the reference that is due to rounding alone"""
    further: tuple[tuple[Sizes, ...], ...] = ()
    """ladders that the kernel is measured on after ``sizes``, in the same way"""
    beyond: str = ""
    """what its time hangs on and the unified model has no property for, e.g. ``"bank conflicts"``: it is measured for
    models to come, and the linear model is not fitted to it"""

    check: Callable[[Mapping[str, Array]], None] | None = None
    """is called with what the kernel wrote, in place of a comparison with :attr:`reference`; raises
    :class:`MeasurementError` for what is wrong"""

    @property
    def ladders(self) -> tuple[tuple[Sizes, ...], ...]:
        """Return all ladders, ``sizes`` first."""
        return (self.sizes, *self.further)


def doubling(at_least: int, multiple_of: int, at_most: int) -> tuple[int, ...]:
    """Return the smallest multiple of *multiple_of* that is at least *at_least*, and its doubles up to *at_most*.

    On a ladder of them, groups of *multiple_of* work-items always divide the work, which at powers of two they do not.
    Raises :class:`KernelFileError` unless *at_least* and *multiple_of* are positive.
    """
    if at_least < 1 or multiple_of < 1:
        raise KernelFileError(
            f"a ladder that doubles begins at a positive size; received at_least={at_least}, multiple_of={multiple_of}"
        )
    smallest = -(-at_least // multiple_of) * multiple_of
    return tuple(takewhile(lambda size: size <= at_most, (smallest << step for step in count())))
