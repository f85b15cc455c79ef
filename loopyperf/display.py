"""Text and HTML for values: report text that prints in a terminal, a list or a notebook.

What an answer shows of itself, said once: a line in a list, a page of a terminal, a small table in a notebook.

An answer that is :class:`Shown` says in a :class:`ReportText` what there is to read; how it looks is the same for all.

Tables as notebooks show them: HTML of escaped text, without colours of its own, so that dark pages stay dark.

What is said here is in which column text stands flush left, since notebooks have everything flush right.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from importlib import import_module
from textwrap import wrap
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import LoopyperfError
from loopyperf.units import UNBROKEN, number_in_words, unbroken

FLUSH = {"text": "left", "number": "right"}


@dataclass(frozen=True, slots=True)
class Formula:
    """A cell that Jupyter typesets; the text stands beside it for whoever points at it."""

    text: str
    """as terminals show it"""
    latex: str
    """without the dollar signs"""


Cell = str | Formula


def html_table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, text: int = 1, last: int = 0) -> str:
    """Return a table, of whose columns the first *text* ones and the *last* ones are text, and the others numbers."""
    numbers = range(text, len(headings) - last)
    kinds = ["number" if place in numbers else "text" for place in range(len(headings))]
    head = "".join(f"<th{_like(kind)}>{escape(word)}</th>" for kind, word in zip(kinds, headings, strict=True))
    body = "\n".join(f"<tr>{_row(kinds, row)}</tr>" for row in rows)
    return f'<table style="margin: 0 0 1em">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'


def html_lines(words: Iterable[str]) -> str:
    """Return a paragraph for each of *words*."""
    return "\n".join(f"<p{_indented(each)}>{escape(each)}</p>" for each in words)


def _indented(line: str) -> str:
    """Return the style of a *line* that begins with spaces, which are lost otherwise."""
    depth = len(line) - len(line.lstrip(" "))
    return f' style="margin-left: {depth}ch"' if depth else ""


def details(summary: str, inside: str) -> str:
    """Return *summary*, which is opened to see what is *inside*."""
    return f"<details><summary>{escape(summary)}</summary>\n{inside}\n</details>"


def html_of(*parts: str) -> str:
    """Return *parts* one below the other, as ``_repr_html_`` gives them."""
    inside = "\n".join(part for part in parts if part)
    return f'<div class="loopyperf">\n{inside}\n</div>'


def _row(kinds: Sequence[str], row: Sequence[Cell]) -> str:
    return "".join(_cell(kind, each) for kind, each in zip(kinds, row, strict=True))


def _cell(kind: str, cell: Cell) -> str:
    if isinstance(cell, Formula):
        return f'<td{_like(kind)} title="{escape(cell.text)}">${escape(cell.latex)}$</td>'
    return f"<td{_like(kind)}>{escape(cell)}</td>"


def _like(kind: str) -> str:
    """Return the attributes of a cell: a style of its own, since notebooks' rules for cells are stronger than ours."""
    return f' class="{kind}" style="text-align: {FLUSH[kind]}"'


Item = TypeVar("Item")
WIDTH = 80
"""columns of a terminal that nobody has made wider"""
GAP = "  "
"""between columns, and before the first"""
LONGEST = 30
"""columns: longer words, as those of a formula, may be broken in a table that is too wide otherwise"""
SHOWN_FIRST, SHOWN_LAST = 9, 3
"""rows of a long table that are shown"""
SMALL = 0.01
"""share of a whole: where several parts are smaller, a table has one row for all of them"""
REPEATED = ("no fit for ", "assumed ", "extrapolated: ", "launch overhead of ", "no prediction interval: ")
"""how notes begin that stand with each answer for a device, whatever the kernel: of several, one line is shown"""
OF_DEVICE = re.compile(r" of [\w.-]+")
"""in the first clause of such a note: the device"""
ONE_LINE = 120
"""letters of an answer in a list, at most"""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below headings. Of the columns, the first *text* ones and the *last* ones are text, the others numbers."""

    headings: Sequence[str]
    """of the columns"""
    rows: Sequence[Sequence[Cell]]
    """a cell for each column"""
    text: int = 1
    """how many columns are text, the first ones"""
    last: int = 0
    """how many columns are text, the last ones"""

    def lines(self, width: int) -> Iterator[str]:
        """Yield the lines of the table, none longer than *width*, without breaking numbers and words.

        The widest columns go on in the next line, as far in as they began. Where the longest words have no room beside
        each other, those of text are broken, and where that does not do, each row is some lines that say what they are.
        """
        heads, *rows = ([_plain(cell) for cell in row] for row in (self.headings, *self.rows))
        widths = self._widths(heads, rows, width, width) or self._widths(heads, rows, width, LONGEST)
        if widths is None:
            for row in rows:
                yield from _named(heads, row, width)
            return
        for row in (heads, *rows):
            cells = [folded(cell, each, "") or [""] for cell, each in zip(row, widths, strict=True)]
            for place in range(max(map(len, cells))):
                parts = [cell[place] if place < len(cell) else "" for cell in cells]
                yield "".join(GAP + self._placed(*each) for each in enumerate(zip(parts, widths, strict=True))).rstrip()

    def _widths(self, heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, word: int) -> list[int] | None:
        """Return how wide each column is, the widest made narrower until all have room; None where they have none.

        Words of text that are longer than *word* may be broken.
        """
        columns = list(zip(heads, *rows, strict=True))
        found = [max(1, *map(len, cells)) for cells in columns]
        least = [
            max(1, *(_longest_word(cell, word if self._is_text(number) else width) for cell in cells))
            for number, cells in enumerate(columns)
        ]
        while sum(found) + len(GAP) * len(found) > width:
            wider = [number for number, each in enumerate(found) if each > least[number]]
            if not wider:
                return None
            found[max(wider, key=found.__getitem__)] -= 1
        return found

    def _is_text(self, column: int) -> bool:
        return column < self.text or column >= len(self.headings) - self.last

    def _placed(self, column: int, cell: tuple[str, int]) -> str:
        text, width = cell
        return f"{text:<{width}}" if self._is_text(column) else f"{text:>{width}}"

    def markdown(self) -> str:
        """Return the table as Markdown."""
        edges = [":--" if self._is_text(column) else "--:" for column in range(len(self.headings))]
        rows = ([_plain(cell).strip().replace("|", r"\|") for cell in row] for row in (self.headings, *self.rows))
        head, *body = (f"| {' | '.join(row)} |" for row in rows)
        return "\n".join([head, f"| {' | '.join(edges)} |", *body])

    def html(self) -> str:
        """Return the table as HTML."""
        return html_table(self.headings, self.rows, text=self.text, last=self.last)


@dataclass(frozen=True, slots=True)
class ReportText:
    """What there is to read of an answer."""

    question: str
    """what it is an answer to, e.g. ``"matmul(n=4096) on nvidia-v100"``"""
    answer: str = ""
    """in some words"""
    tables: Sequence[Table] = ()
    remarks: Sequence[str] = ()
    """sentences below the tables; one that begins with spaces belongs to one before"""
    notes: Sequence[str] = ()
    """what was assumed or left out, in sentences: the last remarks. Several that begin as :data:`REPEATED` says are one
    line, which has the first clause of each."""
    alone: str = ""
    """the answer without anything else, as ``--quiet`` prints it, e.g. ``"47.4 ms"``; if empty, that is the tables"""

    @property
    def head(self) -> str:
        """Return what was asked, and the answer to it."""
        return ": ".join(filter(None, [self.question, self.answer]))

    @property
    def line(self) -> str:
        """Return all that one line has room for."""
        return self.head if len(self.head) <= ONE_LINE else f"{self.head[: ONE_LINE - 2]} …"

    def text(self, width: int = WIDTH, *, prose: int | None = None, lists: str = ".notes") -> str:
        """Return the report text as lines of a terminal, none longer than *width* but for single words.

        Sentences may be as long as *prose* says, where that is another length. *lists* names what has all notes in
        full; where it is empty, the text has them.
        """
        lines = folded(self.head, prose or width, breaks=False)
        for number, table in enumerate(self.tables):
            lines += [*([""] if number else []), *table.lines(width)]
        for remark in self.sentences(lists):
            lines += folded(GAP + remark, prose or width, breaks=False)
        return "\n".join(lines)

    def html(self) -> str:
        """Return the report text as HTML, escaped, as ``_repr_html_`` gives it."""
        tables = (table.html() for table in self.tables)
        head = [html_lines([self.head])] if self.head else []
        in_short, own, repeated = self._notes()
        unfolded = html_lines(map(_as_note, repeated))
        return html_of(
            *head,
            *tables,
            html_lines([*self.remarks, *map(_as_note, own)]),
            details(in_short, unfolded) if in_short else unfolded,
        )

    def markdown(self, lists: str = ".notes") -> str:
        """Return the report text as Markdown: head, tables, and a list of remarks and notes, as in :meth:`text`."""
        remarks = "\n".join(f"{_indent(each)}- {each.lstrip()}" for each in self.sentences(lists))
        return "\n\n".join(filter(None, [self.head, *(table.markdown() for table in self.tables), remarks]))

    def sentences(self, lists: str) -> list[str]:
        """Return remarks and notes, of which those of :data:`REPEATED` are one line if *lists* names what has all."""
        in_short, own, repeated = self._notes()
        if in_short and lists:
            return [*self.remarks, *map(_as_note, own), f"{in_short} ({lists} has them in full)"]
        return [*self.remarks, *map(_as_note, (*own, *repeated))]

    def _notes(self) -> tuple[str, list[str], list[str]]:
        """Return the notes that repeat in a line, empty if there are fewer than two; the others; and those in full."""
        own = [note for note in self.notes if not note.startswith(REPEATED)]
        repeated = [note for note in self.notes if note.startswith(REPEATED)]
        if len(repeated) < 2:
            return "", own, repeated
        clauses = dict.fromkeys(OF_DEVICE.sub("", re.split("[;:] ", note)[0]) for note in repeated)
        return f"{len(repeated)} notes in short: {', '.join(clauses)}", own, repeated


class Shown:
    """An answer that shows its report text in a list, printed and in a notebook. A mixin: records have metaclasses."""

    __slots__ = ()

    def report_text(self) -> ReportText:
        """Return what there is to read."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.report_text().line}>"

    def __str__(self) -> str:
        return self.report_text().text()

    def _repr_html_(self) -> str:
        return self.report_text().html()


class Tabular(Shown):
    """An answer that is rows of numbers as well: for data frames, and for files that other programs read."""

    __slots__ = ()

    def records(self) -> list[dict[str, Any]]:
        """Return a mapping from column to value for each row; numbers are in base SI units."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the whole answer as plain values that JSON can hold."""
        raise NotImplementedError

    def to_dataframe(self) -> Any:
        """Return the rows as a ``pandas.DataFrame``; numbers are in base SI units.

        Raises :class:`LoopyperfError` where pandas cannot be imported.
        """
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise LoopyperfError(
                f"data frames need pandas, which cannot be imported ({error}): pip install 'loopyperf[dataframe]'"
            ) from error
        return pandas.DataFrame(self.records())


def apart(parts: Sequence[Item], share: Callable[[Item], float]) -> tuple[list[Item], list[Item]]:
    """Return the *parts* of a whole that a table shows, and those that it adds up in a last row, in their order.

    These are parts whose *share* of the whole is less than :data:`SMALL` in magnitude, where there are several.
    """
    small = [each for each in parts if abs(share(each)) < SMALL]
    if len(small) < 2:
        return list(parts), []
    return [each for each in parts if not abs(share(each)) < SMALL], small


def called(name: str, sizes: Mapping[str, Any], typical: Mapping[str, Any] | None = None) -> str:
    """Return what was asked about: ``"matmul(n=4096)"``, ``"rows(n=4, typically j=27)"``.

    An array of sizes is its ends.
    """
    return f"{name}({', '.join(_stated(sizes, typical))})"


def tagged(what: str, sizes: Mapping[str, Any], typical: Mapping[str, Any] | None = None) -> str:
    """Return *what* was asked about, and at which sizes, if there are any: ``"6 variants (n=4, typically j=27)"``."""
    words = ", ".join(_stated(sizes, typical))
    return f"{what} ({words})" if words else what


def abridged(items: Sequence[Item], row: Callable[[Item], tuple[str, ...]], called: int = 0) -> list[tuple[str, ...]]:
    """Return a *row* for each of *items*; of many, for the first and the last ones, and how many there are between.

    That stands in the column of what they are *called*.
    """
    between = len(items) - SHOWN_FIRST - SHOWN_LAST
    if between <= 0:
        return [row(each) for each in items]
    first, last = ([row(each) for each in part] for part in (items[:SHOWN_FIRST], items[-SHOWN_LAST:]))
    gap = tuple(f"{between:,} more between" if place == called else "" for place in range(len(first[0])))
    return [*first, gap, *last]


def plain(value: Any) -> Any:
    """Return *value* as JSON can hold it: numbers of NumPy's and fractions as Python's, arrays as lists."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, np.ndarray | np.generic):
        return cast("np.generic", value).tolist()
    return float(value) if isinstance(value, Fraction) else value


def _stated(sizes: Mapping[str, Any], typical: Mapping[str, Any] | None) -> list[str]:
    words = [f"{size}={_in_words(value)}" for size, value in sizes.items()]
    stated = ", ".join(f"{key}={_in_words(value)}" for key, value in (typical or {}).items())
    return [*words, *([f"typically {stated}"] if stated else [])]


def _in_words(size: Any) -> str:
    if not isinstance(size, np.ndarray):
        return number_in_words(size)
    sizes = cast("NDArray[Any]", size)
    return "..".join(dict.fromkeys(map(number_in_words, (sizes.min(), sizes.max())))) if sizes.size else "none"


def _as_note(note: str) -> str:
    return f"note: {note}"


def _plain(cell: Cell) -> str:
    return cell.text if isinstance(cell, Formula) else cell


def folded(sentence: str, width: int, hanging: str = GAP, *, breaks: bool = True) -> list[str]:
    """Return *sentence* in lines that are as far in as it begins, and *hanging* more after the first.

    A word that is longer than a line *breaks* there, or is left whole. A number stays beside its unit.
    """
    indent = _indent(sentence)
    lines = wrap(
        unbroken(sentence.lstrip()),
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=breaks,
        break_on_hyphens=False,
    )
    return [line.replace(UNBROKEN, " ") for line in lines]


def _indent(words: str) -> str:
    return " " * (len(words) - len(words.lstrip()))


def _longest_word(cell: str, most: int) -> int:
    """Return the columns of the longest word in *cell*, or *most* if that is less, and of what is before it."""
    longest = max(map(len, unbroken(cell).split(" ")), default=0)
    return len(_indent(cell)) + min(longest, most)


def _named(heads: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    """Yield the lines of a row without columns: what is first, and below it what else there is, with its heading."""
    first, *others = row
    yield from folded(GAP + first, width)
    said = [
        ": ".join(filter(None, [head, words.lstrip()])) for head, words in zip(heads[1:], others, strict=True) if words
    ]
    yield from folded(GAP * 3 + _indent(first) + "; ".join(said), width)
