"""Counts as a table to read: of each property its formula, and its numbers at given sizes.

A terminal shows plain text, a notebook HTML with the formulas in LaTeX, which Jupyter typesets between dollar signs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from loopyperf.counts.evaluation import IntegerArray, broadcast

Sizes = Mapping[str, int]


class Formula(Protocol):
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
    numbers: Sequence[int]

    @property
    def heading(self) -> str:
        """Return the sizes, e.g. ``"n=1024, m=16"``."""
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


@dataclass(frozen=True, slots=True)
class Table:
    """Properties with their counts; ``str`` gives it as text, a notebook shows it as HTML."""

    title: str
    formulas: Mapping[str, Formula]
    columns: Sequence[Column]

    def __str__(self) -> str:
        headings = ("property", "count", *(column.heading for column in self.columns))
        rows = [headings, *((name, str(formula), *numbers) for name, formula, numbers in self._rows())]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        return "\n".join([*filter(None, [self.title]), *(_line(row, widths) for row in rows)])

    def html(self) -> str:
        """Return the table as HTML, with formulas in LaTeX between dollar signs."""
        headings = "".join(_cell("th", column.heading, "right") for column in self.columns)
        rows = "\n".join(f"<tr>{_html_row(*row)}</tr>" for row in self._rows())
        caption = f"<caption>{escape(self.title)}</caption>\n" if self.title else ""
        head = _cell("th", "property", "left") + _cell("th", "count", "left") + headings
        return f"<table>\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"

    def _repr_html_(self) -> str:
        return self.html()

    def _rows(self) -> Iterator[tuple[str, Formula, tuple[str, ...]]]:
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


# {{{ text


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return *cells* in columns, the first two flush left, numbers flush right."""
    left = [f"{cell:{width}}" for cell, width in zip(cells[:2], widths[:2], strict=True)]
    right = [f"{cell:>{width}}" for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return ("  " + "  ".join([*left, *right])).rstrip()


# }}}


# {{{ HTML


def _html_row(name: str, formula: Formula, numbers: Iterable[str]) -> str:
    # The text stands beside the formula for whoever points at it, or reads where nothing is typeset.
    typeset = f'<td style="text-align: left" title="{escape(str(formula))}">${escape(formula.latex())}$</td>'
    return _cell("td", name, "left") + typeset + "".join(_cell("td", number, "right") for number in numbers)


def _cell(tag: str, text: str, side: str) -> str:
    return f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>'


# }}}
