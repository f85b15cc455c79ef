"""What a file of measurement or test kernels offers: configurations, each one kernel to build, check and time.

A kernel file holds ``NAME``, a docstring with the mathematics and why the kernel is there, and
``configurations(limits) -> list[Configuration]``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import loopy as lp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Sizes = Mapping[str, int]
"""The values of a kernel's size parameters, by name."""
Arguments = dict[str, "Array | np.generic"]
"""Arrays and scalars by argument name; arrays that the kernel writes are there too, with their initial contents."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device allows a kernel to use."""

    group_size: int
    """most work-items in one work-group"""
    local_memory: int
    """bytes of local memory of one work-group"""
    global_memory: int
    """bytes that all arguments of one kernel may take together"""

    @property
    def group_set(self) -> Literal["small", "medium", "large"]:
        """Which of the group-size sets of Stevens and Klöckner (section 4.1) the device gets."""
        if self.group_size < 384:
            return "small"
        return "medium" if self.group_size < 1024 else "large"

    def groups_1d(self) -> tuple[int, ...]:
        """Return the three 1-D group sizes, in work-items (Stevens and Klöckner, section 4.1)."""
        return {"small": (192, 224, 256), "medium": (128, 256, 384), "large": (256, 384, 512)}[self.group_set]

    def groups_2d(self) -> tuple[tuple[int, int], ...]:
        """Return the three 2-D group sizes as (extent of l.0, extent of l.1) (Stevens and Klöckner, section 4.1)."""
        return {
            "small": ((16, 12), (16, 14), (16, 16)),
            "medium": ((16, 12), (16, 16), (32, 16)),
            "large": ((16, 16), (24, 16), (32, 16)),
        }[self.group_set]


@dataclass(frozen=True, slots=True)
class Configuration:
    """One kernel at a ladder of sizes.

    The harness times ``steps`` sizes of the ladder, ``stride`` apart, from the first one that runs at least as long as
    an empty kernel's launch (Stevens and Klöckner, section 4.2).
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
