"""Loads and stores of every width and amortized stride fraction: what four classes of kernels share.

A group of 256 work-items handles 256 columns of an s × columns array, of which it uses the first u rows. The array is
column-major, so that lanes are s elements apart and share u of every s elements: fraction u/s. Fraction 0 is an array
with one column for each group. Four classes (``strided_loads.py``, ``strided_stores.py``, ``strided_copies.py``,
``strided_updates.py``) make the same accesses in other company, because a property that one class alone has can be
predicted by no other, and loads that always come with as many stores have no weight of their own.

Widths are those of the paper (Stevens and Klöckner, section 2.1): float32, float64, and complex128 for 128 bits.
The far strides are 8 elements. Sizes: every eighth of a ladder of doubles, three of them, which is 64 times as much
memory at the end as at the beginning: from caches into memory, on most devices.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.configuration import Arguments, Array, Configuration, Limits, Sizes, doubling

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
LARGEST = 2**18
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
        column = f"{GROUP}*g + l" if self.stride else "g"
        return tuple(f"{row}, {column}" for row in range(self.used))

    @property
    def shape(self) -> str:
        """Return the shape of an array that is accessed so, in loopy's language."""
        return f"{self.stride}, {GROUP}*groups" if self.stride else f"{self.used}, groups"

    def random(self, rng: np.random.Generator, groups: int) -> Array:
        """Return an array that is accessed so, for *groups* groups, with random elements from 0 to 1."""
        columns, rows = (GROUP * groups, self.stride) if self.stride else (groups, self.used)
        return rng.random((columns, rows)).astype(self.dtype).T

    def row(self, array: Array, row: int) -> Array:
        """Return the elements in one row of *array*, (work-items)."""
        return array[row] if self.stride else np.repeat(array[row], GROUP)


def configurations_of_accesses(
    limits: Limits,
    build: Callable[[Access], lp.TranslationUnit],
    arguments: Callable[[Access, np.random.Generator, Sizes], Arguments],
    reference: Callable[[Access, Arguments], dict[str, Array]],
) -> list[Configuration]:
    """Return one configuration for each width and fraction, in groups of 256 if the device can hold them."""
    if limits.group_size < GROUP:
        return []
    sizes = tuple({"groups": groups} for groups in doubling(at_least=4, multiple_of=1, at_most=LARGEST))
    accesses = {(bits, name): Access(bits, *rows) for bits in TYPES for name, rows in FRACTIONS.items()}
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


def in_groups(name: str, statements: list[str], data: list[object]) -> lp.TranslationUnit:
    """Return the kernel of *statements*, run by 256 work-items (l) of each group (g)."""
    unit = lp.make_kernel(
        f"{{[g, l]: 0 <= g < groups and 0 <= l < {GROUP}}}",
        "\n".join(statements),
        [*data, lp.ValueArg("groups", np.int32)],
        name=name,
        assumptions="groups >= 1",
        lang_version=(2018, 2),
        # All lanes of a group store the same value in the same place, where it has one column for all of them.
        silenced_warnings=["write_race*"],
    )
    return lp.add_inames_for_unused_hw_axes(lp.tag_inames(unit, {"g": "g.0", "l": "l.0"}))
