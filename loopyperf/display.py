"""Render results as text, Markdown and HTML for terminals, lists and notebooks.

A result class derives from :class:`Shown` and returns a :class:`ReportText`, which is rendered in the same way for all
results. HTML tables are escaped and set no colors, so that they follow a notebook's light or dark theme. They set the
alignment of each column because notebooks align all cells to the right.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from html import escape
from importlib import import_module
from textwrap import wrap
from typing import Any, ClassVar, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import LoopyperfError
from loopyperf.units import UNBROKEN, Word, number_in_words, printable, unbroken

FLUSH = {"text": "left", "number": "right"}


@dataclass(frozen=True, slots=True)
class Formula:
    """A table cell that Jupyter typesets from LaTeX, with plain text as its tooltip."""

    text: str
    """plain text for terminals"""
    latex: str
    """LaTeX without dollar signs"""


Cell = str | Formula


def html_lines(words: Iterable[str]) -> str:
    """Return an HTML paragraph for each line of *words*."""
    depths = [(line, len(_indent(line))) for line in words]  # leading spaces become a margin
    styles = ((line, f' style="margin-left: {depth}ch"' if depth else "") for line, depth in depths)
    return "\n".join(f"<p{style}>{escape(line)}</p>" for line, style in styles)


def details(summary: str, inside: str) -> str:
    """Return a collapsed HTML element that shows *summary* and opens to *inside*."""
    return f"<details><summary>{escape(summary)}</summary>\n{inside}\n</details>"


def html_of(*parts: str) -> str:
    """Return the nonempty *parts* in one ``div``, in the form that ``_repr_html_`` returns."""
    inside = "\n".join(part for part in parts if part)
    return printable(f'<div class="loopyperf">\n{inside}\n</div>')


Item = TypeVar("Item")
WIDTH = 80
"""default terminal width, in characters"""
GAP = "  "
"""separator between columns, and indent of the first"""
MAX_WORD = 30
"""word length in characters; a table that is too wide may break longer words, e.g. of a formula"""
SHOWN_FIRST, SHOWN_LAST = 9, 3
"""number of rows shown from the start and the end of a long table"""
SMALL_SHARE = 0.01
"""share of the whole; a table sums smaller parts in one row"""
OF_DEVICE = re.compile(r" of [\w.-]+")
"""the device name in the first clause of such a note"""
ONE_LINE = 120
"""maximum length of a one-line ``repr``, in characters"""


# {{{ notes


class NoteKind(Word):
    """Subject of a note."""

    NO_FIT = "no fit"
    PARAMETERS = "assumed device parameters"
    LAUNCH_OVERHEAD = "unknown launch overhead"
    EXTRAPOLATED = "extrapolation"
    NO_INTERVAL = "no prediction interval"
    ATOMIC_UPDATES = "atomic updates"
    OTHER = "other"


ON_DEVICE = frozenset(NoteKind) - {NoteKind.ATOMIC_UPDATES, NoteKind.OTHER}
"""kinds of notes about the device rather than the kernel; several such notes are abbreviated to one line"""


class Note(str):
    """A note on a result: a sentence, with its subject, by which reports select notes."""

    kind: NoteKind
    """subject of the note"""

    def __new__(cls, kind: NoteKind, text: str) -> "Note":
        """Return the sentence *text* as a note of *kind*."""
        note = super().__new__(cls, text)
        note.kind = kind
        return note

    def __reduce__(self) -> tuple[type["Note"], tuple[NoteKind, str]]:
        """Return how pickle makes the note again."""
        return Note, (self.kind, str(self))


def kind_of(note: str) -> NoteKind:
    """Return the kind of *note*, a :class:`Note` or any other sentence."""
    return note.kind if isinstance(note, Note) else NoteKind.OTHER


def note_to_json(note: object) -> list[str]:
    """Return kind and text of *note*; raises :class:`TypeError` for other objects, as msgspec's hooks do."""
    if not isinstance(note, Note):
        raise TypeError(f"expected a Note, got {type(note).__name__}")
    return [note.kind, str(note)]


def note_from_json(_: type, written: object) -> Note:
    """Return the note that :func:`note_to_json` wrote, or a sentence as a note; raises :class:`ValueError` for others.

    It is the hook with which msgspec reads fields of type :class:`Note`.
    """
    match written:
        case str():
            return Note(kind_of(written), written)
        case [str(kind), str(text)]:
            return Note(NoteKind(kind), text)
        case _:
            raise ValueError(f"expected a note, got {written!r:.80}")


def without(notes: Iterable[str], *kinds: NoteKind) -> list[str]:
    """Return *notes* except those of *kinds*."""
    return [note for note in notes if kind_of(note) not in kinds]


# }}}


@dataclass(frozen=True, slots=True)
class Table:
    """A table with text columns at its start and end, and number columns between them."""

    headings: Sequence[str]
    """column headings"""
    rows: Sequence[Sequence[Cell]]
    """rows with one cell per column"""
    text: int = 1
    """number of text columns at the start"""
    last: int = 0
    """number of text columns at the end"""

    def lines(self, width: int) -> Iterator[str]:
        """Yield the lines of the table, at most *width* characters long.

        Cells of the widest columns wrap at spaces. If the longest words do not fit side by side, long words of text
        columns are broken. If the table is still too wide, each row is printed as a list of "heading: cell".
        """
        heads, *rows = ([_plain(cell) for cell in row] for row in (self.headings, *self.rows))
        widths = self._widths(heads, rows, width, width) or self._widths(heads, rows, width, MAX_WORD)
        if widths is None:
            for row in rows:
                yield from _named(heads, row, width)
            return
        for row in (heads, *rows):
            cells = [folded(cell, each, "") or [""] for cell, each in zip(row, widths, strict=True)]
            for line in range(max(map(len, cells))):
                parts = [cell[line] if line < len(cell) else "" for cell in cells]
                yield "".join(GAP + self._placed(*each) for each in enumerate(zip(parts, widths, strict=True))).rstrip()

    def _widths(self, heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, word: int) -> list[int] | None:
        """Return the column widths, with the widest columns narrowed until the table fits; None if it cannot fit.

        Words of text columns that are longer than *word* characters may be broken.
        """
        columns = list(zip(heads, *rows, strict=True))
        found = [max(1, *map(len, cells)) for cells in columns]
        least = [
            max(1, *(_longest_word(cell, word if self._is_text(column) else width) for cell in cells))
            for column, cells in enumerate(columns)
        ]
        while sum(found) + len(GAP) * len(found) > width:
            wider = [column for column, each in enumerate(found) if each > least[column]]
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
        """Return the table as HTML. Its inline styles have precedence over the style sheets of notebooks."""
        kinds = ["text" if self._is_text(column) else "number" for column in range(len(self.headings))]
        looks = [f' class="{kind}" style="text-align: {FLUSH[kind]}"' for kind in kinds]
        head = "".join(f"<th{look}>{escape(word)}</th>" for look, word in zip(looks, self.headings, strict=True))
        cells = ([_html_cell(cell, look) for cell, look in zip(row, looks, strict=True)] for row in self.rows)
        body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        return f'<table style="margin: 0 0 1em">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'


@dataclass(frozen=True, slots=True)
class ReportText:
    """The readable form of a result: headline, tables, remarks and notes.

    Its text may come from files of others, so control characters are escaped.
    """

    question: str
    """the input, e.g. ``"matmul(n=4096) on nvidia-v100"``"""
    answer: str = ""
    """the result in a few words"""
    tables: Sequence[Table] = ()
    code: Sequence[str] = ()
    """Python source below the tables, which starts at the left margin so that it can be pasted"""
    remarks: Sequence[str] = ()
    """lines below them; a line with leading spaces continues the remark before it"""
    notes: Sequence[str] = ()
    """assumptions and omissions, shown after the remarks. Two or more of a kind in :data:`ON_DEVICE` are
    abbreviated to one line with the first clause of each."""
    alone: str = ""
    """the output of ``--quiet``, e.g. ``"47.4 ms"``; if empty, ``--quiet`` prints the tables"""

    @property
    def head(self) -> str:
        """Return the headline: the input and the result, joined by a colon."""
        return ": ".join(filter(None, [self.question, self.answer]))

    @property
    def line(self) -> str:
        """Return the headline, truncated to :data:`ONE_LINE` characters."""
        return printable(self.head if len(self.head) <= ONE_LINE else f"{self.head[: ONE_LINE - 2]} …")

    def text(self, width: int = WIDTH, *, prose: int | None = None, lists: str = ".notes") -> str:
        """Return the report as terminal text, wrapped to *width* characters.

        *prose* is another width for sentences. *lists* names the attribute or option that lists all notes in full; if
        it is empty, the text lists them itself.
        """
        lines = folded(self.head, prose or width, breaks=False)
        for number, table in enumerate(self.tables):
            lines += [*([""] if number else []), *table.lines(width)]
        for source in self.code:
            lines += ["", *source.splitlines(), ""]
        for remark in self.sentences(lists):
            lines += folded(GAP + remark, prose or width, breaks=False)
        return printable("\n".join(lines))

    def html(self) -> str:
        """Return the report as escaped HTML, in the form that ``_repr_html_`` returns."""
        tables = (table.html() for table in self.tables)
        head = [html_lines([self.head])] if self.head else []
        in_short, own, repeated = self._notes()
        unfolded = html_lines(map(_as_note, repeated))
        return html_of(
            *head,
            *tables,
            *(f"<pre>{escape(source)}</pre>" for source in self.code),
            html_lines([*self.remarks, *map(_as_note, own)]),
            details(in_short, unfolded) if in_short else unfolded,
        )

    def markdown(self, lists: str = ".notes") -> str:
        """Return the report as Markdown: headline, tables, and a list of remarks and notes as in :meth:`text`."""
        remarks = "\n".join(f"{_indent(sentence)}- {sentence.lstrip()}" for sentence in self.sentences(lists))
        code = [f"```python\n{source}```" for source in self.code]
        parts = [self.head, *(table.markdown() for table in self.tables), *code, remarks]
        return printable("\n\n".join(filter(None, parts)))

    def sentences(self, lists: str) -> list[str]:
        """Return the remarks and notes; repeated notes are abbreviated if *lists* names where to find them in full."""
        in_short, own, repeated = self._notes()
        notes = [*own, *repeated]
        last = [f"{in_short} (full text: {lists})"] if in_short and lists else []
        return [printable(each) for each in (*self.remarks, *map(_as_note, own if last else notes), *last)]

    def _notes(self) -> tuple[str, list[str], list[str]]:
        """Return the repeated notes in one line (empty if fewer than two), the other notes, and the repeated ones."""
        own, repeated = without(self.notes, *ON_DEVICE), [note for note in self.notes if kind_of(note) in ON_DEVICE]
        if len(repeated) < 2:
            return "", own, repeated
        clauses = dict.fromkeys(OF_DEVICE.sub("", re.split("[;:] ", note)[0]) for note in repeated)
        return f"{len(repeated)} notes, abbreviated: {', '.join(clauses)}", own, repeated


class Shown:
    """A mixin that renders ``report_text()`` in ``repr``, ``print`` and notebooks.

    It is not a base class with fields, because some records have metaclasses.
    """

    __slots__ = ()

    def report_text(self) -> ReportText:
        """Return the readable form of the result."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.report_text().line}>"

    def __str__(self) -> str:
        return self.report_text().text()

    def _repr_html_(self) -> str:
        return self.report_text().html()


class Tabular(Shown):
    """A result that can also be exported as plain values, and as rows of numbers, e.g. to a data frame."""

    __slots__ = ()
    _ROWS: ClassVar[str] = ""
    """name of the attribute that has the rows; empty if the whole result is one row"""
    _DERIVED: ClassVar[tuple[str, ...]] = ()
    """names of attributes that are exported besides the fields"""
    _OMITTED: ClassVar[tuple[str, ...]] = ()
    """names of fields that are not exported"""

    def records(self) -> list[dict[str, Any]]:
        """Return one mapping from column name to value per row, in base SI units."""
        return list(map(plain, getattr(self, self._ROWS))) if self._ROWS else [self.to_dict()]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-serializable values, by name."""
        return fields_of(self)

    def to_dataframe(self) -> Any:
        """Return the rows as a ``pandas.DataFrame``, in base SI units.

        Raises :class:`LoopyperfError` if pandas cannot be imported.
        """
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise LoopyperfError(
                f"data frames need pandas, which cannot be imported ({error}): pip install 'loopyperf[dataframe]'"
            ) from error
        return pandas.DataFrame(self.records())


def apart(parts: Sequence[Item], share: Callable[[Item], float]) -> tuple[list[Item], list[Item]]:
    """Return the *parts* to show one by one and the small parts to sum in a last row, each in their original order.

    A part is small if its *share* of the whole is below :data:`SMALL_SHARE` in magnitude. A single small part is shown.
    """
    small = [item for item in parts if abs(share(item)) < SMALL_SHARE]
    if len(small) < 2:
        return list(parts), []
    return [item for item in parts if not abs(share(item)) < SMALL_SHARE], small


def called(name: str, sizes: Mapping[str, Any], typical: Mapping[str, Any] | None = None) -> str:
    """Return a kernel's name with its sizes: ``"matmul(n=4096)"``, ``"rows(n=4, typically j=27)"``.

    An array of sizes is shown as ``min..max``.
    """
    return f"{name}({', '.join(_stated(sizes, typical))})"


def tagged(what: str, sizes: Mapping[str, Any], typical: Mapping[str, Any] | None = None) -> str:
    """Return *what* with the sizes in parentheses, if any: ``"6 variants (n=4, typically j=27)"``."""
    words = ", ".join(_stated(sizes, typical))
    return f"{what} ({words})" if words else what


def abridged(items: Sequence[Item], row: Callable[[Item], tuple[str, ...]], called: int = 0) -> list[tuple[str, ...]]:
    """Return a *row* for each of *items*; a long list keeps its first and last rows and counts the omitted ones.

    The count is in column *called*.
    """
    between = len(items) - SHOWN_FIRST - SHOWN_LAST
    if between <= 0:
        return [row(item) for item in items]
    first, last = ([row(item) for item in part] for part in (items[:SHOWN_FIRST], items[-SHOWN_LAST:]))
    gap = tuple(f"{between:,} rows omitted" if column == called else "" for column in range(len(first[0])))
    return [*first, gap, *last]


def plain(value: Any) -> Any:
    """Return *value* as JSON-serializable values.

    Records become mappings of their fields, NumPy numbers and fractions Python numbers, arrays and sequences lists, and
    other objects text.
    """
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, msgspec.Struct) or is_dataclass(value):
        return fields_of(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple | frozenset):
        return [plain(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, np.ndarray | np.generic):
        return cast("np.generic", value).tolist()
    if isinstance(value, Fraction):
        return float(value)
    return value if value is None or isinstance(value, int | float) else str(value)


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of *record*, without ``_OMITTED`` ones, and its ``_DERIVED`` attributes, as plain values."""
    kind = cast("type[Any]", type(record))
    names = kind.__struct_fields__ if isinstance(record, msgspec.Struct) else [field.name for field in fields(record)]
    omitted = getattr(kind, "_OMITTED", ())
    exported = (*names, *getattr(kind, "_DERIVED", ()))
    return {name: plain(getattr(record, name)) for name in exported if name not in omitted}


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


def _html_cell(cell: Cell, look: str) -> str:
    if isinstance(cell, Formula):
        return f'<td{look} title="{escape(cell.text)}">${escape(cell.latex)}$</td>'
    return f"<td{look}>{escape(cell)}</td>"


def _plain(cell: Cell) -> str:
    return cell.text if isinstance(cell, Formula) else cell


def folded(sentence: str, width: int, hanging: str = GAP, *, breaks: bool = True) -> list[str]:
    """Return *sentence* wrapped to *width*, with its own indent, and *hanging* added from the second line on.

    With *breaks*, a word longer than a line is broken. A number and its unit stay on one line.
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
    """Return the indent of *cell* plus the length of its longest word, the latter limited to *most*."""
    longest = max(map(len, unbroken(cell).split(" ")), default=0)
    return len(_indent(cell)) + min(longest, most)


def _named(heads: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    """Yield a table row as lines: the first cell, and below it "heading: cell" for the other nonempty cells."""
    first, *others = row
    yield from folded(GAP + first, width)
    cells = [
        ": ".join(filter(None, [head, words.lstrip()])) for head, words in zip(heads[1:], others, strict=True) if words
    ]
    yield from folded(GAP * 3 + _indent(first) + "; ".join(cells), width)
