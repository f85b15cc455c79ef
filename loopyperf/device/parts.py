"""The parts of a device as plain records: numbers with unit and source, and enumerated properties."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, Self

import msgspec

from loopyperf.errors import MissingNumberError
from loopyperf.units import Word, duration, prefixed

Words = Annotated[str, msgspec.Meta(min_length=1)]


class Quantity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A published number with its unit and its source."""

    value: int | float
    """value in :attr:`unit`"""
    unit: Words
    """one of :data:`UNITS`, or a unit without multiples, e.g. ``"cycles"``"""
    source: Words
    """document and, after a comma, the place in it"""

    def __str__(self) -> str:
        """Return the value with its unit."""
        return f"{self.value:,} {self.unit}"


class Substitute(Quantity, frozen=True):
    """An assumed number; its source states the origin, e.g. ``"as on nvidia-a40"``."""


Of = Literal["launch", "limit", "size", "throughput", "latency of computation", "latency of memory"]
"""kind of an assumed number; models without latencies, or without those of computation, do not need all kinds"""


@dataclass(frozen=True, slots=True)
class Substitution:
    """An assumption for a number that the device file lacks."""

    of: Of
    """kind, which determines the models that need the number"""
    number: str
    """name and value, e.g. ``"barrier 23 cycles"``"""
    as_what: str
    """origin of the value, e.g. ``"as local memory"``"""

    def __str__(self) -> str:
        """Return the number and its origin."""
        return f"{self.number} ({self.as_what})"

    @classmethod
    def made(cls, of: Of, name: str, number: Substitute) -> "Substitution":
        """Return the substitution of *number* for the quantity *name*."""
        if of == "limit":
            value = f"{number.value:,}"
        elif of == "launch":
            value = duration(number.value)
        elif of == "size":
            value = f"{in_base_unit(number) / 2**10:,.0f} KiB"
        else:
            value = prefixed(number.value, "B/s") if number.unit == "B/s" else f"{number.value:.3g} {number.unit}"
        return cls(of, f"{name} {value}", number.source)


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
"""unit -> its base unit and factor; units that are not listed, such as cycles and warps, have no multiples"""


def base_unit(unit: str) -> str:
    """Return the base unit of *unit*, which may be *unit* itself."""
    return UNITS.get(unit, (unit, 1))[0]


def multiples(unit: str) -> tuple[str, ...]:
    """Return the units in which a number in the base unit *unit* may be given, *unit* first."""
    return (unit, *(name for name, (base, _) in UNITS.items() if base == unit and name != unit))


def in_base_unit(quantity: Quantity) -> int | float:
    """Return the value of *quantity* in its base unit, e.g. 4096 for 4 KiB."""
    factor = UNITS.get(quantity.unit, (quantity.unit, 1))[1]
    return quantity.value * factor


# {{{ enumerated properties, some with a source
#
# Members are equal to the strings in device files.


class Policy(Word):
    """Policy that selects among the warps that can issue, as defined in :mod:`loopyperf.pipeline.scenario`."""

    ROUND_ROBIN = "round-robin"
    GREEDY_THEN_OLDEST = "greedy-then-oldest"
    GREEDY_THEN_YOUNGEST = "greedy-then-youngest"
    OLDEST_FIRST = "oldest-first"
    QUANTUM = "quantum"


class RegisterAllocation(Word):
    """Unit to which registers are allocated."""

    WARP = "warp"
    """each warp"""
    GROUP = "group"
    """the whole group"""


class Lanes(Word):
    """How the work-items of a warp execute."""

    TOGETHER = "together"
    """simultaneously, as on GPUs"""
    IN_TURN = "in turn"
    """in loops over the work-items of a group that the compiler generates; a warp then corresponds to one vector
    instruction, where the compiler can vectorize"""


class Pipeline(Word):
    """Pipelines that execute instructions, besides those of memory levels; a device file may define others."""

    ALU = "alu"
    """arithmetic with up to 32 bits"""
    INTEGER = "integer"
    """comparisons, logic, and integer operations other than multiplication; executed by :attr:`ALU` on most devices"""
    FP64 = "fp64"
    """double-precision arithmetic"""
    SFU = "sfu"
    """special functions, divisions and conversions"""
    CONTROL = "control"
    """branches"""
    BARRIER = "barrier"
    ATOMICS = "atomics"
    """atomic updates of neighboring elements of global memory, one after the other"""


class Per(Word):
    """Unit that has one instance of a memory."""

    CORE = "core"
    DEVICE = "device"


class SharedPipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pipeline that executes the instructions of a subsystem."""

    pipeline: Words
    """name of the pipeline"""
    source: Words
    """document and, after a comma, the place in it"""


class Scheduling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduling policy of warps and its source."""

    policy: Policy
    """selection rule"""
    source: Words
    """document and, after a comma, the place in it"""


# }}}


# {{{ rows of the vendors' throughput tables
#
# The rows are those of the CUDA C++ Programming Guide, "Arithmetic Instructions": the same units execute the
# instructions of a row, so their latencies are equal.


Row = Literal[
    "f32", "f64", "f16", "special", "integer_add", "integer_multiply", "shift", "compare", "logic", "convert"
]  # fmt: skip
"""fields of :class:`loopyperf.device.description.Throughput`"""
ARITHMETIC = frozenset({"add", "mul", "fma"})
"""kinds of floating-point arithmetic instructions"""
OF_ANY_TYPE: Mapping[str, Row] = {
    "special": "special",
    "mufu": "special",
    "compare": "compare",
    "min/max": "compare",
    "logic": "logic",
    "bitwise": "logic",
    "shift": "shift",
    "integer": "integer_add",
    "convert": "convert",
}
OF_INTEGERS: Mapping[str, Row] = {"add": "integer_add", "mul": "integer_multiply", "fma": "integer_multiply"}


def throughput_row(kind: str, dtype: str) -> Row | None:
    """Return the field of :class:`loopyperf.device.description.Throughput` for an instruction; None if it has none.

    Divisions, powers and double-precision functions are sequences of instructions, and have no row.
    """
    if dtype in ("f32", "f64", "f16") and kind in ARITHMETIC:
        return dtype
    if dtype in ("i32", "u32") and kind in OF_INTEGERS:
        return OF_INTEGERS[kind]
    return OF_ANY_TYPE.get(kind) if dtype in ("f32", "i32", "u32") else None


# }}}


# {{{ numbers, each declared once with unit and meaning
#
# A number is a field in its base unit, None if unpublished. The published value, with its unit and source, is in
# :attr:`DescriptionTable.sources`.


TIMES = ("cycles", "s")
NO_SOURCE = "no source given"
"""source of a number that was set in Python without one"""


@dataclass(frozen=True, slots=True)
class Number:
    """Declaration of a numeric field of a part."""

    unit: str
    """base unit, e.g. ``"B"``"""
    meaning: str
    """description of the number"""
    is_whole: bool
    may_be_zero: bool

    def value(self, quantity: Quantity) -> int | float:
        """Return the value of *quantity* in the base unit."""
        value = in_base_unit(quantity)
        return int(value) if self.is_whole else value

    def __str__(self) -> str:
        """Return the meaning and the unit."""
        return self.meaning if self.unit in self.meaning.split() else f"{self.meaning}, in {self.unit}"


def number_field(unit: str, meaning: str) -> float | None:
    """Declare a field with a number in *unit*; only times may be 0."""
    return _field(Number(unit, meaning, is_whole=False, may_be_zero=unit in TIMES))


def count_field(unit: str, meaning: str, *, may_be_zero: bool = False) -> int | None:
    """Declare a field with a whole number of *unit*."""
    return _field(Number(unit, meaning, is_whole=True, may_be_zero=may_be_zero))


def _field(declared: Number) -> None:
    # The sources are sufficient for the hash of a part.
    return field(default=None, hash=False, metadata={"number": declared})


@dataclass(frozen=True, kw_only=True)
class DescriptionTable:
    """A group of numbers of a device, a table of its device file."""

    slug: str
    """short name of the device"""
    place: str = ""
    """table of the device file, e.g. ``"memory.L2"``; empty for the device's own numbers"""
    sources: tuple[tuple[str, Quantity], ...] = field(default=(), repr=False)
    """pairs of the name of a number and its published quantity"""

    @classmethod
    @cache
    def declared(cls) -> Mapping[str, Number]:
        """Return name -> declaration of the numeric fields."""
        return {each.name: each.metadata["number"] for each in fields(cls) if "number" in each.metadata}

    def stating(self, **numbers: Quantity) -> Self:
        """Return a copy with the given numbers replaced by these published quantities."""
        values = {name: self.declared()[name].value(quantity) for name, quantity in numbers.items()}
        return replace(self, **values, sources=tuple((dict(self.sources) | numbers).items()))

    def source(self, name: str) -> Quantity | None:
        """Return the number *name* as published; None if it is not known."""
        known = getattr(self, name)
        if known is None:
            return None
        number = self.declared()[name]
        stated = next((quantity for each, quantity in self.sources if each == name), None)
        return stated if stated and number.value(stated) == known else Quantity(known, number.unit, NO_SOURCE)

    def known(self) -> Iterator[tuple[str, Quantity]]:
        """Yield the name and the published quantity of each known number."""
        for name in dict.fromkeys((*dict(self.sources), *self.declared())):
            if (quantity := self.source(name)) is not None:
                yield name, quantity

    @property
    def statements(self) -> "tuple[PublishedNumber, ...]":
        """Return the known numbers in the units in which they were published."""
        return tuple(
            PublishedNumber(
                number=".".join(filter(None, (self.place, name))),
                value=quantity.value,
                unit=quantity.unit,
                meaning=self.declared()[name].meaning,
                source=quantity.source,
            )
            for name, quantity in self.known()
        )

    def needed(self, name: str) -> Any:
        """Return the number *name*, an integer if it is whole; raises :class:`MissingNumberError` if it is unknown."""
        if (known := getattr(self, name)) is None:
            self.check_known([name])
        return known

    def check_known(self, names: Iterable[str]) -> None:
        """Raise one :class:`MissingNumberError` for all *names* that are not known."""
        missing = {name: self.declared()[name] for name in names if getattr(self, name) is None}
        if not missing:
            return
        table = f"in [{self.place}]" if self.place else "at the top"
        full = {".".join(filter(None, (self.place, name))): number for name, number in missing.items()}
        absent = (f"{name} ({number.meaning}, in {number.unit})" for name, number in full.items())
        lines = (f'{name} = {{ value = ..., unit = "{each.unit}", source = "..." }}' for name, each in missing.items())
        it = "it" if len(missing) == 1 else "them"
        raise MissingNumberError(
            f"device {self.slug!r} lacks {'; '.join(absent)}; add {it} {table} of your own copy of {self.slug}.toml, "
            f"and use device=PATH: {'; '.join(lines)}"
        )


@dataclass(frozen=True, slots=True)
class PublishedNumber:
    """A published number with name, unit, meaning and source."""

    number: str
    """full name, e.g. ``"memory.L2.size"``"""
    value: int | float
    """value in :attr:`unit`"""
    unit: str
    """e.g. ``"KiB"``"""
    meaning: str
    """description of the number"""
    source: str
    """document and, after a comma, the place in it"""


# }}}
