"""The parts of a device, each a plain record: numbers with a unit and a source, and facts in words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Generic, Literal, Self, TypeVar, overload

import msgspec

from loopyperf.errors import MissingNumberError
from loopyperf.units import Word, prefixed

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


Of = Literal["limit", "throughput", "latency of computation", "latency of memory"]
"""what of a device was assumed: models that know no latencies, or none of computation, need not all of it"""


@dataclass(frozen=True, slots=True)
class Substitution:
    """A number that the description lacks, and what was assumed for it."""

    of: Of
    """whether models that know no latencies, or none of computation, need it"""
    number: str
    """with its name, e.g. ``"barrier 23 cycles"``"""
    as_what: str
    """e.g. ``"as local memory here"``"""

    def __str__(self) -> str:
        """Return the number, and as what it is."""
        return f"{self.number} ({self.as_what})"

    @classmethod
    def made(cls, of: Of, name: str, number: Substitute) -> "Substitution":
        """Return that the number called *name* was assumed."""
        if of == "limit":
            value = f"{number.value:,}"
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


# {{{ facts in words, some with a source
#
# The words are enumerations whose members are equal to the strings that files have.


class Policy(Word):
    """Which warp issues where several could: :mod:`loopyperf.pipeline.scenario` has the rules."""

    ROUND_ROBIN = "round-robin"
    GREEDY_THEN_OLDEST = "greedy-then-oldest"
    GREEDY_THEN_YOUNGEST = "greedy-then-youngest"
    OLDEST_FIRST = "oldest-first"
    QUANTUM = "quantum"


class RegisterAllocation(Word):
    """What registers are allocated to."""

    WARP = "warp"
    """each warp by itself"""
    GROUP = "group"
    """the group as a whole"""


class Lanes(Word):
    """How the work-items of a warp execute."""

    TOGETHER = "together"
    """always at once, as on GPUs"""
    IN_TURN = "in turn"
    """the compiler makes loops over the work-items of a group, in which a warp is what vector instructions do at once,
    where it can use them"""


class Pipeline(Word):
    """What executes instructions, beside memories, whose pipelines are called as they are; others may be described."""

    ALU = "alu"
    """arithmetic of up to 32 bits"""
    INTEGER = "integer"
    """of integers that are not multiplied, comparisons and logic: :attr:`ALU` on most devices"""
    FP64 = "fp64"
    """arithmetic of double precision"""
    SFU = "sfu"
    """special functions, divisions and conversions"""
    CONTROL = "control"
    """branches"""
    BARRIER = "barrier"


class Per(Word):
    """What there is one of a memory for."""

    CORE = "core"
    DEVICE = "device"


class SharedPipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which pipeline executes a subsystem's instructions."""

    pipeline: Words
    """name of the pipeline"""
    source: Words
    """the document, and after a comma where in it"""


class Scheduling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which warp issues where several could."""

    policy: Policy
    """its rule"""
    source: Words
    """the document, and after a comma where in it"""


# }}}


# {{{ rows of the vendors' throughput tables
#
# The rows are those of the CUDA C++ Programming Guide, "Arithmetic Instructions": the instructions of a row are
# executed by the same units, so that they take as long as each other.


Row = Literal[
    "f32", "f64", "special", "integer_add", "integer_multiply", "shift", "compare", "logic", "convert"
]  # fmt: skip
"""of :class:`loopyperf.device.description.Throughput`"""
ARITHMETIC = frozenset({"add", "mul", "fma"})
"""kinds of instructions that do the arithmetic a kernel is for, of floating-point types"""
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
    """Return the name in :class:`loopyperf.device.description.Throughput`; None for instructions of no row.

    Divisions, powers and double-precision functions are sequences of instructions, and have no row.
    """
    if dtype in ("f32", "f64") and kind in ARITHMETIC:
        return dtype
    if dtype in ("i32", "u32") and kind in OF_INTEGERS:
        return OF_INTEGERS[kind]
    return OF_ANY_TYPE.get(kind) if dtype in ("f32", "i32", "u32") else None


# }}}


# {{{ numbers, each declared once with its unit and meaning
#
# A number is a field in its base unit, None where nobody has published it. What a document states, with its unit and
# where it stands, is beside it in :attr:`Part.sources`.


TIMES = ("cycles", "s")
NO_SOURCE = "no source given"
"""the source of a number that was given in Python without one"""


@dataclass(frozen=True, slots=True)
class Number:
    """What is declared of a number of a part."""

    unit: str
    """the base unit, e.g. ``"B"``"""
    meaning: str
    """what the number is of"""
    is_whole: bool
    may_be_zero: bool

    def value(self, quantity: Quantity) -> int | float:
        """Return the value of *quantity* in the base unit."""
        value = in_base_unit(quantity)
        return int(value) if self.is_whole else value

    def __str__(self) -> str:
        """Return the meaning with the unit."""
        return self.meaning if self.unit in self.meaning.split() else f"{self.meaning}, in {self.unit}"


def number_field(unit: str, meaning: str) -> float | None:
    """Declare a field of a part as a number in *unit*; only times may be 0."""
    return _field(Number(unit, meaning, is_whole=False, may_be_zero=unit in TIMES))


def count_field(unit: str, meaning: str, *, may_be_zero: bool = False) -> int | None:
    """Declare a field of a part as a whole number of *unit*."""
    return _field(Number(unit, meaning, is_whole=True, may_be_zero=may_be_zero))


def _field(declared: Number) -> None:
    # Sources tell parts apart well enough for a hash.
    return field(default=None, hash=False, metadata={"number": declared})


CountName = TypeVar("CountName", bound=str)
NumberName = TypeVar("NumberName", bound=str)


@dataclass(frozen=True, kw_only=True)
class DescriptionTable(Generic[CountName, NumberName]):
    """Some numbers of a device. *CountName* are the names of the whole ones, *NumberName* those of the others."""

    slug: str
    """the device's short name"""
    place: str = ""
    """the table of the description that the numbers stand in, e.g. ``"memory.L2"``; empty for the device's own"""
    sources: tuple[tuple[str, Quantity], ...] = field(default=(), repr=False)
    """name of a number, and what a document states of it, where one does"""

    @classmethod
    @cache
    def declared(cls) -> Mapping[str, Number]:
        """Return name -> declaration of the numbers that such a part may have."""
        return {each.name: each.metadata["number"] for each in fields(cls) if "number" in each.metadata}

    def stating(self, **numbers: Quantity) -> Self:
        """Return the part with these numbers, as documents state them, in place of those that it has."""
        values = {name: self.declared()[name].value(quantity) for name, quantity in numbers.items()}
        return replace(self, **values, sources=tuple((dict(self.sources) | numbers).items()))

    def source(self, name: str) -> Quantity | None:
        """Return the number called *name* as a document states it; None where it is not known."""
        known = getattr(self, name)
        if known is None:
            return None
        number = self.declared()[name]
        stated = next((quantity for each, quantity in self.sources if each == name), None)
        return stated if stated and number.value(stated) == known else Quantity(known, number.unit, NO_SOURCE)

    def known(self) -> Iterator[tuple[str, Quantity]]:
        """Yield the numbers that are known, with their names, as documents state them."""
        for name in dict.fromkeys((*dict(self.sources), *self.declared())):
            if (quantity := self.source(name)) is not None:
                yield name, quantity

    @property
    def statements(self) -> "tuple[PublishedNumber, ...]":
        """Return the numbers that are known, in the units in which they are stated."""
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

    @overload
    def needed(self, name: CountName) -> int: ...
    @overload
    def needed(self, name: NumberName) -> float: ...
    def needed(self, name: str) -> float:
        """Return the number called *name*; raises :class:`MissingNumberError` where it is not known."""
        known = getattr(self, name)
        if known is None:
            raise MissingNumberError(_missing(self.slug, self.place, {name: self.declared()[name]}))
        return known

    def check_known(self, names: Sequence[CountName | NumberName]) -> None:
        """Raise one :class:`MissingNumberError` for all of *names* that are not known."""
        missing = {str(name): self.declared()[name] for name in names if getattr(self, name) is None}
        if missing:
            raise MissingNumberError(_missing(self.slug, self.place, missing))


@dataclass(frozen=True, slots=True)
class PublishedNumber:
    """A number that a description states, with all that is said of it."""

    number: str
    """what it is called, with the part that it is of, e.g. ``"memory.L2.size"``"""
    value: int | float
    """as it is stated, in :attr:`unit`"""
    unit: str
    """e.g. ``"KiB"``"""
    meaning: str
    """what the number is of"""
    source: str
    """the document, and after a comma where in it"""


def _missing(slug: str, place: str, numbers: Mapping[str, Number]) -> str:
    table = f"the table [{place}]" if place else "the top"
    absent = (
        f"{'.'.join(filter(None, (place, name)))} ({number.meaning}, in {number.unit})"
        for name, number in numbers.items()
    )
    lines = (f'{name} = {{ value = ..., unit = "{number.unit}", source = "..." }}' for name, number in numbers.items())
    it, has = ("it", "it has") if len(numbers) == 1 else ("them", "they have")
    return (
        f"the description of {slug!r} does not state {'; '.join(absent)}: nobody has published {it}, or {has} not "
        f"been entered. To add {it}, give the path of a description of your own (begin with a copy of "
        f"{slug}.toml) that has in {table}: {'; '.join(lines)}"
    )


# }}}
