"""What an answer shows of itself, said once: a line in a list, a page of a terminal, a small table in a notebook.

An answer that is :class:`Shown` says in a :class:`Sheet` what there is to read; how it looks is the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from loopyperf import hypertext
from loopyperf.hypertext import Cell

WIDTH = 80
"""columns of a terminal that nobody has made wider"""
GAP = "  "
"""between columns, and before the first"""
NARROWEST = 12
"""columns that a cell has at least before it goes on in the next line"""
ONE_LINE = 120
"""letters of an answer in a list, at most"""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below headings, of whose columns so many, the first *text* ones, are text, and the others numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text: int = 1

    def lines(self, width: int) -> Iterator[str]:
        """Yield the lines of the table, none longer than *width*: the widest columns go on in the next line."""
        rows = [[_plain(cell) for cell in row] for row in (self.headings, *self.rows)]
        widths = _fitting([max(map(len, cells)) for cells in zip(*rows, strict=True)], width)
        for row in rows:
            folded = [wrap(cell, each, break_on_hyphens=False) or [""] for cell, each in zip(row, widths, strict=True)]
            for place in range(max(map(len, folded))):
                parts = [cell[place] if place < len(cell) else "" for cell in folded]
                yield "".join(GAP + self._placed(*each) for each in enumerate(zip(parts, widths, strict=True))).rstrip()

    def _placed(self, column: int, cell: tuple[str, int]) -> str:
        text, width = cell
        return f"{text:<{width}}" if column < self.text else f"{text:>{width}}"

    def html(self) -> str:
        """Return the table as HTML."""
        return hypertext.table(self.headings, self.rows, text=self.text)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What there is to read of an answer."""

    asked: str
    """what it is an answer to, e.g. ``"matmul(n=4096) on nvidia-v100"``"""
    answer: str
    """in some words"""
    tables: Sequence[Table] = ()
    remarks: Sequence[str] = ()
    """sentences below the tables; one that begins with spaces belongs to one before"""

    @property
    def line(self) -> str:
        """Return all that one line has room for."""
        line = f"{self.asked}: {self.answer}"
        return line if len(line) <= ONE_LINE else f"{line[: ONE_LINE - 2]} …"

    def text(self, width: int = WIDTH) -> str:
        """Return the sheet as lines of a terminal, none longer than *width* but for single words."""
        lines = _folded(f"{self.asked}: {self.answer}", "", width)
        for number, table in enumerate(self.tables):
            lines += [*([""] if number else []), *table.lines(width)]
        for remark in self.remarks:
            words = remark.lstrip()
            lines += _folded(words, GAP + " " * (len(remark) - len(words)), width)
        return "\n".join(lines)

    def html(self) -> str:
        """Return the sheet as HTML, escaped, as ``_repr_html_`` gives it."""
        head = hypertext.lines([f"{self.asked}: {self.answer}"])
        return hypertext.shown(head, *(table.html() for table in self.tables), hypertext.lines(self.remarks))


class Shown(ABC):
    """An answer that shows its sheet: in a list, printed, and in a notebook."""

    __slots__ = ()

    @abstractmethod
    def sheet(self) -> Sheet:
        """Return what there is to read."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.sheet().line}>"

    def __str__(self) -> str:
        return self.sheet().text()

    def _repr_html_(self) -> str:
        return self.sheet().html()


def called(name: str, sizes: Mapping[str, Any]) -> str:
    """Return what was asked about, e.g. ``"matmul(n=4096)"``."""
    return f"{name}({', '.join(f'{size}={value}' for size, value in sizes.items())})"


def _plain(cell: Cell) -> str:
    return cell.text if isinstance(cell, hypertext.Formula) else cell


def _fitting(widths: Sequence[int], width: int) -> list[int]:
    """Return *widths* of columns, of which the widest were made narrower until all have room."""
    found = list(widths)
    while sum(found) + len(GAP) * len(found) > width and max(found) > NARROWEST:
        found[found.index(max(found))] -= 1
    return found


def _folded(sentence: str, indent: str, width: int) -> list[str]:
    further = indent + GAP
    return wrap(
        sentence,
        width,
        initial_indent=indent,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
