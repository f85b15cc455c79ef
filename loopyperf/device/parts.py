"""Parts of a device: named numbers, each declared once with its unit and meaning.

A part states some of the numbers that its class declares. Reading one gives its value in the declared unit; reading one
that is not stated raises :class:`MissingNumberError`, since what nobody has published is not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, overload

from loopyperf.device.quantity import Quantity, in_base_unit
from loopyperf.errors import MissingNumberError


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some numbers of a device."""

    slug: str
    """the device's short name"""
    place: str = ""
    """the table of the description that the numbers stand in, e.g. ``"memory.L2"``; empty for the device's own"""
    numbers: tuple[tuple[str, Quantity], ...] = ()
    """name, and what the description states"""

    @property
    def statements(self) -> "tuple[Stated, ...]":
        """Return the numbers that are stated, in the units in which they are."""
        declared = self.declared()
        return tuple(
            Stated(
                number=".".join(filter(None, (self.place, name))),
                value=quantity.value,
                unit=quantity.unit,
                meaning=declared[name].meaning,
                source=quantity.source,
            )
            for name, quantity in self.numbers
        )

    @classmethod
    def declared(cls) -> dict[str, "Number"]:
        """Return name -> declaration of the numbers that such a part may state."""
        members = {name: member for base in reversed(cls.__mro__) for name, member in vars(base).items()}
        return {name: member for name, member in members.items() if isinstance(member, Number)}

    def stated(self, name: str) -> Quantity | None:
        """Return what the description states of *name*; None where it states nothing."""
        return next((quantity for stated, quantity in self.numbers if stated == name), None)

    def number(self, name: str) -> int | float:
        """Return the number called *name* in its declared unit; raises :class:`MissingNumberError` if not stated."""
        quantity = self.stated(name)
        if quantity is None:
            raise MissingNumberError(_missing(self, [name]))
        return in_base_unit(quantity)

    def check_stated(self, *names: str) -> None:
        """Raise one :class:`MissingNumberError` for all of *names* that are not stated."""
        missing = [name for name in names if self.stated(name) is None]
        if missing:
            raise MissingNumberError(_missing(self, missing))


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


TIMES = ("cycles", "s")


class Number:
    """Declares a number of a part; as an attribute of a part it is the number's value."""

    name: str

    def __init__(self, unit: str, meaning: str, *, may_be_zero: bool = False) -> None:
        """Declare a number in *unit*; times may be 0, others where that is said."""
        self.unit = unit
        self.meaning = meaning
        self.may_be_zero = may_be_zero or unit in TIMES
        # What help() says of the attribute, and the reference.
        self.__doc__ = meaning if unit in meaning.split() else f"{meaning}, in {unit}"

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the name of the attribute."""
        self.name = name

    @overload
    def __get__(self, part: None, owner: type) -> Self: ...
    @overload
    def __get__(self, part: Part, owner: type) -> float: ...
    def __get__(self, part: Part | None, owner: type) -> Self | float:
        """Return the value in :attr:`unit`; raises :class:`MissingNumberError` where it is not stated."""
        return self if part is None else part.number(self.name)


class Count(Number):
    """Declares a number that is a whole one."""

    @overload
    def __get__(self, part: None, owner: type) -> Self: ...
    @overload
    def __get__(self, part: Part, owner: type) -> int: ...
    def __get__(self, part: Part | None, owner: type) -> Self | int:
        """Return the value in :attr:`unit`; raises :class:`MissingNumberError` where it is not stated."""
        return self if part is None else int(part.number(self.name))


def _missing(part: Part, names: Sequence[str]) -> str:
    declared = part.declared()
    table = f"the table [{part.place}]" if part.place else "the top"
    absent = (
        f"{'.'.join(filter(None, (part.place, name)))} ({declared[name].meaning}, in {declared[name].unit})"
        for name in names
    )
    lines = (f'{name} = {{ value = ..., unit = "{declared[name].unit}", source = "..." }}' for name in names)
    it, has = ("it", "it has") if len(names) == 1 else ("them", "they have")
    return (
        f"the description of {part.slug!r} does not state {'; '.join(absent)}: nobody has published {it}, or {has} not "
        f"been entered. To add {it}, give the path of a description of your own (begin with a copy of "
        f"{part.slug}.toml) that has in {table}: {'; '.join(lines)}"
    )
