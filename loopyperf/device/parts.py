"""Parts of a device: plain records of numbers, each declared once with its unit and meaning.

A number is a field in its base unit, None where nobody has published it. What a document states, with its unit and
where it stands, is beside it in :attr:`Part.sources`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Generic, Self, TypeVar, overload

from loopyperf.device.quantity import Quantity, in_base_unit
from loopyperf.errors import MissingNumberError

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


def number(unit: str, meaning: str) -> float | None:
    """Declare a field of a part as a number in *unit*; only times may be 0."""
    return _field(Number(unit, meaning, is_whole=False, may_be_zero=unit in TIMES))


def count(unit: str, meaning: str, *, may_be_zero: bool = False) -> int | None:
    """Declare a field of a part as a whole number of *unit*."""
    return _field(Number(unit, meaning, is_whole=True, may_be_zero=may_be_zero))


def _field(declared: Number) -> None:
    # Sources tell parts apart well enough for a hash.
    return field(default=None, hash=False, metadata={"number": declared})


CountName = TypeVar("CountName", bound=str)
NumberName = TypeVar("NumberName", bound=str)


@dataclass(frozen=True, kw_only=True)
class Part(Generic[CountName, NumberName]):
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
    def statements(self) -> "tuple[Stated, ...]":
        """Return the numbers that are known, in the units in which they are stated."""
        return tuple(
            Stated(
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
class Stated:
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
