"""A list of small Loopy kernels with sizes to count them at, and helper functions that build kernels.

The kernels are in ``small_accesses``, ``small_calls``, ``small_loops``, ``small_schedules`` and ``small_vectors``: one
function for each construct that counts must handle. Its docstring describes the construct.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import loopy as lp
import numpy as np

Sizes = Mapping[str, int]
KernelBuilder = Callable[[], lp.TranslationUnit]


@dataclass(frozen=True)
class SmallKernel:
    """A kernel, the sizes to count it at, and larger sizes for its stride classes."""

    build: KernelBuilder
    sizes: Sequence[Sizes]
    class_sizes: Sizes

    @property
    def name(self) -> str:
        """Return the name of the function that builds it."""
        return self.build.__name__


SMALL_KERNELS: list[SmallKernel] = []


def at(*sizes: Sizes, classes: Sizes) -> Callable[[KernelBuilder], KernelBuilder]:
    """Add a kernel to the list, with *sizes* to count it at and larger sizes *classes* for its stride classes."""

    def add(build: KernelBuilder) -> KernelBuilder:
        SMALL_KERNELS.append(SmallKernel(build, sizes, classes))
        return build

    return add


def sizes_of_n(*values: int) -> Iterator[Sizes]:
    """Yield each of *values* as the size n."""
    return ({"n": value} for value in values)


FROM_ZERO = tuple(sizes_of_n(0, 1, 2, 3, 15, 16, 17, 40))
"""sizes around the tile of 16"""
LARGE = {"n": 320}


def kernel(
    domains: str | Sequence[str], code: str, *arguments: object, assumptions: str = "", **dtypes: type
) -> lp.TranslationUnit:
    """Return a kernel with *arguments*, with arrays of these *dtypes*, and with the arguments that Loopy infers."""
    unit = lp.make_kernel(
        domains,
        code,
        [*arguments, ...],
        assumptions=assumptions or None,
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
        seq_dependencies=True,
        name="small",
    )
    return lp.add_and_infer_dtypes(unit, dict(dtypes)) if dtypes else unit


def array(name: str, shape: str, dtype: type = np.float32, **layout: object) -> lp.GlobalArg:
    """Return a global array argument."""
    return lp.GlobalArg(name, dtype, shape=shape, **layout)


def sizes(names: str) -> lp.ValueArg:
    """Return integer arguments."""
    return lp.ValueArg(names, np.int32)


def lanes(unit: lp.TranslationUnit, iname: str = "i", width: int = 16, axis: int = 0) -> lp.TranslationUnit:
    """Return *unit* with *iname* split into groups of *width* work-items."""
    return lp.split_iname(unit, iname, width, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
