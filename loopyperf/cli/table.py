"""Tables whose words and numbers stay whole: where there is no room for these side by side, each row is a few lines."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

LONGEST = 24
"""columns: longer words, as those of a formula, may be broken"""
BESIDE = 3
"""columns that borders and the space beside them take for each column, and one more"""
INDENT = 4


class WholeWords(Table):
    """A table in which no column is narrower than its longest word."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or where it is too narrow for its words, each row in lines that say what they are."""
        room = options.max_width - BESIDE * len(self.columns) - 1
        widths = _fitting([_measured(each, console, options) for each in self.columns], room)
        if widths is None:
            yield from self._in_lines(console, options.max_width)
            return
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        yield from super().__rich_console__(console, options)

    def _in_lines(self, console: Console, width: int) -> Iterator[Text]:
        if self.title is not None:
            yield from _folded(Text(str(self.title), "italic"), console, width)
        columns = [list(column.cells) for column in self.columns]
        for row, cells in zip(self.rows, zip(*columns, strict=True), strict=True):
            first, *others = map(_words, cells)
            yield from _folded(Text(first, row.style or ""), console, width)
            for column, words in zip(self.columns[1:], others, strict=True):
                if words:
                    said = Text(f"{_words(column.header)}: {words.lstrip()}", row.style or "")
                    yield from _folded(said, console, width, INDENT)


def _measured(column: Column, console: Console, options: ConsoleOptions) -> Measurement:
    """Return how wide *column* is at least, that its words stay whole, and at most; what is flush right are numbers."""
    cells = [Measurement.get(console, options, each) for each in (column.header, *column.cells)]
    most = max(each.maximum for each in cells)
    if column.max_width is not None:
        most = min(most, column.max_width)
    is_whole = column.no_wrap or column.justify == "right"
    least = most if is_whole else min(LONGEST, max(each.minimum for each in cells))
    return Measurement(min(least, most), most)


def _fitting(columns: list[Measurement], room: int) -> list[int] | None:
    """Return the widths of *columns* in so much *room*, the widest made narrower first; None where they do not fit."""
    widths = [each.maximum for each in columns]
    while sum(widths) > room:
        narrower = [place for place, each in enumerate(columns) if widths[place] > each.minimum]
        if not narrower:
            return None
        widths[max(narrower, key=widths.__getitem__)] -= 1
    return widths


def _folded(said: Text, console: Console, width: int, indent: int = 0) -> Iterator[Text]:
    """Yield *said* in lines no longer than *width*, so far to the right."""
    for line in said.wrap(console, width - indent, overflow="fold", no_wrap=False):
        line.rstrip()
        line.pad_left(indent)
        yield line


def _words(cell: RenderableType) -> str:
    """Return the words of *cell*: a string, a text, or one of these further right."""
    if isinstance(cell, Padding):
        return " " * cell.left + _words(cell.renderable)
    return cell.plain if isinstance(cell, Text) else str(cell)
