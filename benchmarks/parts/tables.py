"""Tables as Markdown, so that pages can take them as they are printed."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

Judged = TypeVar("Judged")
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


def gather_or_show(
    description: str | None,
    every: int,
    gather: Callable[[Path, int], None],
    gathered: Callable[[], Sequence[Judged]],
    tables: Mapping[str, Callable[[Sequence[Judged]], Table]],
) -> None:
    """Do what a command line asks of a script that judges predictions: *gather* them in a file, or show *tables*.

    Of what *gathered* returns, all tables are shown unless one is named.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("what", nargs="?", choices=["gather", *tables], help="by default all tables")
    parser.add_argument("file", nargs="?", type=Path, help="where what is gathered goes")
    parser.add_argument("--every", type=int, default=every, help="only each that comes every so many")
    asked = parser.parse_args()
    if asked.what == "gather":
        if asked.file is None:
            parser.error("gather needs a FILE")
        gather(asked.file, asked.every)
        return
    judged = gathered()
    show(*(made(judged) for name, made in tables.items() if asked.what in (None, name)))
