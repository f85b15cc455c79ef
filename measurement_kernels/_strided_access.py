"""Loads and stores of every width and amortized stride fraction: what four classes of kernels share.

A work-item handles one column after the other of an array of s rows, of which it uses the first u: in pass k of group
g, lane l has column (l, k, g). The array is column-major, so that lanes are s elements apart and share u of every s
elements: fraction u/s. Fraction 0 is an array with one column for all 256 lanes of a group.

Four classes (``strided_loads.py``, ``strided_stores.py``, ``strided_copies.py``, ``strided_updates.py``) make the same
accesses in other company, because a property that one class alone has can be predicted by no other, and loads that
always come with as many stores have no weight of their own.

Widths are those of the paper (Stevens and Klöckner, section 2.1): float32, float64, and complex128 for 128 bits. The
far strides are 8 elements.

The passes are a loop, as in most kernels that read much, and keep the launching of groups from being what takes the
time. Without a loop a processor's compiler turns work-items into vector instructions, which few larger kernels allow,
and the weights would say how fast these are.

Sizes: three of a ladder of doubles, eight times as much memory each: from caches into memory, on most devices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import loopy as lp
import numpy as np
from loopy.kernel.data import ArrayArg, ValueArg

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

GROUP = 256
"""work-items: the one size that is in all of the paper's 1-D sets"""
TYPES: Mapping[int, type[np.generic]] = {32: np.float32, 64: np.float64, 128: np.complex128}
"""by bits"""
FRACTIONS: Mapping[str, tuple[int, int]] = {
    "0": (1, 0),
    "1": (1, 1),
    **{f"{used}/{stride}": (used, stride) for stride in (2, 3, 4) for used in range(1, stride + 1)},
    "1/>4": (1, 8),
    "2/>4": (4, 8),
    "3/>4": (6, 8),
    "4/>4": (8, 8),
}
"""by the name of the stride class: rows that are used, and rows"""
PASSES = 16
LARGEST = 2**15
"""groups"""


@dataclass(frozen=True, slots=True)
class Access:
    """Which elements of an array each work-item accesses, and of which type they are."""

    bits: int
    used: int
    stride: int

    @property
    def dtype(self) -> type[np.generic]:
        """Return the type of an element."""
        return TYPES[self.bits]

    @property
    def elements(self) -> tuple[str, ...]:
        """Return the indices of a work-item's elements, in loopy's language."""
        column = "l, k, g" if self.stride else "k, g"
        return tuple(f"{row}, {column}" for row in range(self.used))

    @property
    def shape(self) -> str:
        """Return the shape of an array that is accessed so, in loopy's language."""
        return f"{self.stride}, {GROUP}, passes, groups" if self.stride else f"{self.used}, passes, groups"

    def random(self, rng: np.random.Generator, sizes: Sizes) -> Array:
        """Return an array that is accessed so, with random elements from 0 to 1."""
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
    """Return one configuration for each width and fraction, in groups of 256 if the device can hold them."""
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
    """Return the kernel of *statements*, run by 256 work-items (l) of each group (g) in each pass (k)."""
    unit = lp.make_kernel(
        f"{{[g, l, k]: 0 <= g < groups and 0 <= l < {GROUP} and 0 <= k < passes}}",
        "\n".join(statements),
        [*data, lp.ValueArg("groups, passes", np.int32)],
        name=name,
        assumptions="groups >= 1 and passes >= 1",
        lang_version=(2018, 2),
        # All lanes of a group store the same value in the same place, where it has one column for all of them.
        silenced_warnings=["write_race*"],
    )
    return lp.add_inames_for_unused_hw_axes(lp.tag_inames(unit, {"g": "g.0", "l": "l.0"}))


def integers(sizes: Sizes) -> Arguments:
    """Return the numbers of groups and passes as the kernel's arguments."""
    return {name: np.int32(sizes[name]) for name in ("groups", "passes")}
