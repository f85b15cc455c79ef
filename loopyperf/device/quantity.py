"""Numbers with a unit and a source, and the units there are."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

Words = Annotated[str, msgspec.Meta(min_length=1)]


class Quantity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A published number: its value, its unit, and where it stands."""

    value: int | float
    """in :attr:`unit`"""
    unit: Words
    """one of :data:`UNITS`, or one without multiples, e.g. ``"cycles"``"""
    source: Words
    """the document, and after a comma where in it"""

    def __str__(self) -> str:
        """Return the value with its unit."""
        return f"{self.value:,} {self.unit}"


class Substitute(Quantity, frozen=True):
    """A number that no description states; its source says what it is as, e.g. ``"as on nvidia-a40"``."""


UNITS: Mapping[str, tuple[str, float]] = {
    "B": ("B", 1),
    "KiB": ("B", 2**10),
    "MiB": ("B", 2**20),
    "GiB": ("B", 2**30),
    "Hz": ("Hz", 1),
    "MHz": ("Hz", 1e6),
    "GHz": ("Hz", 1e9),
    "s": ("s", 1),
    "µs": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "B/s": ("B/s", 1),
    "GB/s": ("B/s", 1e9),
    "TB/s": ("B/s", 1e12),
    "flop/s": ("flop/s", 1),
    "Gflop/s": ("flop/s", 1e9),
    "Tflop/s": ("flop/s", 1e12),
}
"""unit -> the unit that it is a multiple of, and how often; what is not here has no multiples: cycles, warps"""


def base_unit(unit: str) -> str:
    """Return the unit that *unit* is a multiple of, or itself."""
    return UNITS.get(unit, (unit, 1))[0]


def multiples(unit: str) -> tuple[str, ...]:
    """Return the units that a number in *unit* may be stated in, *unit* first."""
    return (unit, *(name for name, (base, _) in UNITS.items() if base == unit and name != unit))


def in_base_unit(quantity: Quantity) -> int | float:
    """Return the value of *quantity* in its base unit, e.g. 4096 for 4 KiB."""
    factor = UNITS.get(quantity.unit, (quantity.unit, 1))[1]
    return quantity.value * factor
