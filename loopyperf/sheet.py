"""What an answer shows of itself, said once: a line in a list, a page of a terminal, a small table in a notebook.

An answer that is :class:`Shown` says in a :class:`Sheet` what there is to read; how it looks is the same for all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from textwrap import wrap
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from loopyperf import hypertext
from loopyperf.hypertext import Cell

WIDTH = 80
"""columns of a terminal that nobody has made wider"""
GAP = "  "
"""between columns, and before the first"""
LONGEST = 30
"""columns: longer words, as those of a formula, may be broken in a table"""
ONE_LINE = 120
"""letters of an answer in a list, at most"""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below headings. Of the columns, the first *text* ones and the *last* ones are text, the others numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text: int = 1
    last: int = 0

    def lines(self, width: int) -> Iterator[str]:
        """Yield the lines of the table, none longer than *width*, without breaking numbers and words.

        The widest columns go on in the next line, as far in as they began; where not even the longest words have room
        beside each other, each row is some lines that say what they are.
        """
        heads, *rows = ([_plain(cell) for cell in row] for row in (self.headings, *self.rows))
        widths = self._widths(heads, rows, width)
        if widths is None:
            for row in rows:
                yield from _named(heads, row, width)
            return
        for row in (heads, *rows):
            folded = [_folded(cell, each, "") or [""] for cell, each in zip(row, widths, strict=True)]
            for place in range(max(map(len, folded))):
                parts = [cell[place] if place < len(cell) else "" for cell in folded]
                yield "".join(GAP + self._placed(*each) for each in enumerate(zip(parts, widths, strict=True))).rstrip()

    def _widths(self, heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
        """Return how wide each column is, the widest made narrower until all have room; None where they have none."""
        columns = list(zip(heads, *rows, strict=True))
        found = [max(map(len, cells)) for cells in columns]
        least = [self._least(number, cells) for number, cells in enumerate(columns)]
        while sum(found) + len(GAP) * len(found) > width:
            wider = [number for number, each in enumerate(found) if each > least[number]]
            if not wider:
                return None
            found[max(wider, key=found.__getitem__)] -= 1
        return found

    def _least(self, column: int, cells: Sequence[str]) -> int:
        """Return how wide a column is at least: as its longest word, or as its longest number."""
        head, *others = cells
        if self._is_text(column):
            return min(LONGEST, max(map(_longest_word, cells)))
        return max(_longest_word(head), *map(len, others), 1)

    def _is_text(self, column: int) -> bool:
        return column < self.text or column >= len(self.headings) - self.last

    def _placed(self, column: int, cell: tuple[str, int]) -> str:
        text, width = cell
        return f"{text:<{width}}" if self._is_text(column) else f"{text:>{width}}"

    def html(self) -> str:
        """Return the table as HTML."""
        return hypertext.table(self.headings, self.rows, text=self.text, last=self.last)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What there is to read of an answer."""

    asked: str
    """what it is an answer to, e.g. ``"matmul(n=4096) on nvidia-v100"``"""
    answer: str = ""
    """in some words"""
    tables: Sequence[Table] = ()
    remarks: Sequence[str] = ()
    """sentences below the tables; one that begins with spaces belongs to one before"""

    @property
    def head(self) -> str:
        """Return what was asked, and the answer to it."""
        return ": ".join(filter(None, [self.asked, self.answer]))

    @property
    def line(self) -> str:
        """Return all that one line has room for."""
        return self.head if len(self.head) <= ONE_LINE else f"{self.head[: ONE_LINE - 2]} …"

    def text(self, width: int = WIDTH, *, prose: int | None = None) -> str:
        """Return the sheet as lines of a terminal, none longer than *width* but for single words.

        Sentences may be as long as *prose* says, where that is another length.
        """
        lines = _folded(self.head, prose or width, breaks=False)
        for number, table in enumerate(self.tables):
            lines += [*([""] if number else []), *table.lines(width)]
        for remark in self.remarks:
            lines += _folded(GAP + remark, prose or width, breaks=False)
        return "\n".join(lines)

    def html(self) -> str:
        """Return the sheet as HTML, escaped, as ``_repr_html_`` gives it."""
        tables = (table.html() for table in self.tables)
        return hypertext.shown(hypertext.lines([self.head]), *tables, hypertext.lines(self.remarks))


class Shown:
    """An answer that shows its sheet: in a list, printed, and in a notebook. A mixin: records have metaclasses."""

    __slots__ = ()

    def sheet(self) -> Sheet:
        """Return what there is to read."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.sheet().line}>"

    def __str__(self) -> str:
        return self.sheet().text()

    def _repr_html_(self) -> str:
        return self.sheet().html()


def called(name: str, sizes: Mapping[str, Any], typical: Mapping[str, Any] | None = None) -> str:
    """Return what was asked about: ``"matmul(n=4096)"``, ``"rows(n=4, typically j=27)"``.

    An array of sizes is its ends.
    """
    words = [f"{size}={_in_words(value)}" for size, value in sizes.items()]
    stated = ", ".join(f"{key}={_in_words(value)}" for key, value in (typical or {}).items())
    return f"{name}({', '.join([*words, *([f'typically {stated}'] if stated else [])])})"


def plain(value: Any) -> Any:
    """Return *value* as JSON can hold it: numbers of NumPy's and fractions as Python's, arrays as lists."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, np.ndarray | np.generic):
        return cast("np.generic", value).tolist()
    return float(value) if isinstance(value, Fraction) else value


def _in_words(size: Any) -> str:
    if not isinstance(size, np.ndarray):
        return str(size)
    sizes = cast("NDArray[Any]", size)
    return f"{sizes.min()}..{sizes.max()}" if sizes.size else "none"


def _plain(cell: Cell) -> str:
    return cell.text if isinstance(cell, hypertext.Formula) else cell


def _longest_word(cell: str) -> int:
    indent = len(cell) - len(cell.lstrip())
    return indent + max(map(len, cell.split()), default=0)


def _named(heads: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    """Yield the lines of a row without columns: what is first, and below it what else there is, with its heading."""
    first, *others = row
    yield from _folded(GAP + first, width)
    for head, words in zip(heads[1:], others, strict=True):
        if words:
            yield from _folded(GAP * 3 + (f"{head}: {words.lstrip()}" if head else words.lstrip()), width)


def _folded(sentence: str, width: int, hanging: str = GAP, *, breaks: bool = True) -> list[str]:
    """Return *sentence* in lines that are as far in as it begins, and *hanging* more after the first.

    A word that is longer than a line *breaks* there, or is left whole.
    """
    words = sentence.lstrip()
    indent = " " * (len(sentence) - len(words))
    return wrap(
        words,
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=breaks,
        break_on_hyphens=False,
    )
