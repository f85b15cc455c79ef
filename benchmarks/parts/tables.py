"""Tables as Markdown, so that pages can take them as they are printed."""

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

WIDTH = 400
"""characters of a line, at most: no table is wider"""


def table(*columns: str) -> Table:
    """Return a table with these *columns*."""
    return Table(*columns, box=MARKDOWN)


def show(*what: Table | str) -> None:
    """Print tables and sentences one after the other."""
    console = Console(width=WIDTH, highlight=False, markup=False, emoji=False)
    for each in what:
        console.print(each, soft_wrap=isinstance(each, str))
