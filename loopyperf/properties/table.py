"""Counts as a table to read: of each property its formula, and its numbers at given sizes.

A terminal shows plain text, a notebook HTML with the formulas in LaTeX, which Jupyter typesets between dollar signs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from loopyperf.hypertext import Formula
from loopyperf.polyhedral.closed_forms.evaluation import IntegerArray, broadcast
from loopyperf.sheet import Sheet, Shown, Table

Sizes = Mapping[str, int]


class Count(Protocol):
    """A count that can be read."""

    def __str__(self) -> str:
        """Return the formula as plain text."""
        ...

    def latex(self) -> str:
        """Return the formula as LaTeX, without delimiters."""
        ...


@dataclass(frozen=True, slots=True)
class Column:
    """The numbers of all properties at one size."""

    sizes: Sizes
    """by name"""
    numbers: Sequence[int]
    """of each property, in the order of the formulas"""

    @property
    def heading(self) -> str:
        """Return the sizes, e.g. ``"n=1024, m=16"``."""
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


@dataclass(frozen=True, slots=True, repr=False)
class CountTable(Shown):
    """Properties with their counts; ``str`` gives it as text, a notebook shows it as HTML."""

    title: str
    """what there is, in words"""
    formulas: Mapping[str, Count]
    """property -> count as a function of the sizes"""
    columns: Sequence[Column]
    """numbers at sizes that were asked for"""

    def sheet(self) -> Sheet:
        """Return the formulas, and the numbers beside them."""
        headings = ("property", "count", *(column.heading for column in self.columns))
        rows = [(name, Formula(str(count), count.latex()), *numbers) for name, count, numbers in self._rows()]
        return Sheet(self.title, tables=[Table(headings, rows, text=2)])

    def __repr__(self) -> str:
        return str(self)

    def _rows(self) -> Iterator[tuple[str, Count, tuple[str, ...]]]:
        for place, (name, formula) in enumerate(self.formulas.items()):
            yield name, formula, tuple(f"{column.numbers[place]:,}" for column in self.columns)


def each_size(several: Sequence[Sizes], named: Mapping[str, int | IntegerArray]) -> Iterator[Sizes]:
    """Yield the sizes that a table is asked for: *several*, each with those *named*, of which any may be an array.

    Raises :class:`ParameterError` where the arrays have shapes that do not broadcast together.
    """
    arrays = broadcast(named)
    points = zip(*(array.ravel() for array in arrays), strict=True) if arrays else [()]
    for point in points:
        sizes = dict(zip(named, point, strict=True))
        yield from ({**one, **sizes} for one in several or ([{}] if sizes else []))
