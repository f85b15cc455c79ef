"""Loads and stores of each width and amortized stride fraction, shared by four classes of kernels.

A work-item processes several columns of an array of s rows, of which it uses the first u: in iteration k of group g,
lane l has column (l, k, g). The array is column-major, so lanes are s elements apart and together use u of every s
elements: fraction u/s. Fraction 0 is an array with one column for all 256 lanes of a group.

Four classes (``strided_loads.py``, ``strided_stores.py``, ``strided_copies.py``, ``strided_updates.py``) make the same
accesses in different combinations, because a property that only one class has cannot be predicted from other classes,
and loads that are always accompanied by as many stores have no separate weight.

Widths are those of the paper (Stevens and Klöckner, section 2.1): float32, float64, and complex128 for 128 bits.
Strides beyond 4 are 8 elements.

The iterations are a loop, as in most memory-intensive kernels, so that launching groups does not dominate the time.
Without a loop, a processor's compiler vectorizes over work-items, which is impossible in most larger kernels, and the
weights would be those of vector instructions.

Sizes: three of a schedule of powers of two, each with eight times the memory of the previous one: from caches into
memory on most devices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import loopy as lp
import numpy as np
from loopy.kernel.data import ArrayArg, ValueArg

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

GROUP = 256
"""work-items; the only size in all of the paper's 1-D sets"""
TYPES: Mapping[int, type[np.generic]] = {32: np.float32, 64: np.float64, 128: np.complex128}
"""element type by bits"""
FRACTIONS: Mapping[str, tuple[int, int]] = {
    "0": (1, 0),
    "1": (1, 1),
    **{f"{used}/{stride}": (used, stride) for stride in (2, 3, 4) for used in range(1, stride + 1)},
    "1/>4": (1, 8),
    "2/>4": (4, 8),
    "3/>4": (6, 8),
    "4/>4": (8, 8),
}
"""used rows and total rows, by the name of the stride class"""
PASSES = 16
LARGEST = 2**15
"""maximum number of groups"""


@dataclass(frozen=True, slots=True)
class Access:
    """The elements of an array that each work-item accesses, and their type."""

    bits: int
    used: int
    stride: int

    @property
    def dtype(self) -> type[np.generic]:
        """Return the element type."""
        return TYPES[self.bits]

    @property
    def elements(self) -> tuple[str, ...]:
        """Return the indices of a work-item's elements as Loopy code."""
        column = "l, k, g" if self.stride else "k, g"
        return tuple(f"{row}, {column}" for row in range(self.used))

    @property
    def shape(self) -> str:
        """Return the shape of the accessed array as Loopy code."""
        return f"{self.stride}, {GROUP}, passes, groups" if self.stride else f"{self.used}, passes, groups"

    def random(self, rng: np.random.Generator, sizes: Sizes) -> Array:
        """Return an array for this access with random elements from 0 to 1."""
        columns = (sizes["groups"], sizes["passes"])
        shape = (*columns, GROUP, self.stride) if self.stride else (*columns, self.used)
        return rng.random(shape).astype(self.dtype).T


def configurations_of_accesses(
    limits: DeviceLimits,
    build: Callable[[Access], lp.TranslationUnit],
    arguments: Callable[[Access, np.random.Generator, Sizes], Arguments],
    reference: Callable[[Access, Arguments], dict[str, Array]],
    fractions: Mapping[str, tuple[int, int]] = FRACTIONS,
) -> list[Configuration]:
    """Return one configuration for each width and fraction in groups of 256, if the device supports them."""
    if limits.group_size < GROUP:
        return []
    sizes = tuple({"groups": n, "passes": PASSES} for n in doubling(at_least=1, multiple_of=1, at_most=LARGEST))
    accesses = {(bits, name): Access(bits, *rows) for bits in TYPES for name, rows in fractions.items()}
    return [
        Configuration(
            label=f"{bits}-bit, stride {name}, group {GROUP}",
            build=partial(build, access),
            sizes=sizes,
            arguments=partial(arguments, access),
            reference=partial(reference, access),
            steps=3,
            stride=3,
        )
        for (bits, name), access in accesses.items()
    ]


def in_passes(name: str, statements: list[str], data: Sequence[ArrayArg | ValueArg]) -> lp.TranslationUnit:
    """Return the kernel that executes *statements* for 256 work-items (l) of each group (g) in each iteration (k)."""
    unit = lp.make_kernel(
        f"{{[g, l, k]: 0 <= g < groups and 0 <= l < {GROUP} and 0 <= k < passes}}",
        "\n".join(statements),
        [*data, lp.ValueArg("groups, passes", np.int32)],
        name=name,
        assumptions="groups >= 1 and passes >= 1",
        lang_version=(2018, 2),
        # With one column for a whole group, all of its lanes store the same value in the same place.
        silenced_warnings=["write_race*"],
    )
    return lp.add_inames_for_unused_hw_axes(lp.tag_inames(unit, {"g": "g.0", "l": "l.0"}))


def integers(sizes: Sizes) -> Arguments:
    """Return the kernel's integer arguments: the numbers of groups and iterations."""
    return {name: np.int32(sizes[name]) for name in ("groups", "passes")}
