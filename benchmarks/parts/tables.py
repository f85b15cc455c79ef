"""Markdown tables, which pages of the documentation include unchanged."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

Evaluated = TypeVar("Evaluated")
WIDTH = 400
"""characters of a line; all tables are narrower"""


def table(*columns: str) -> Table:
    """Return a table with these *columns*."""
    return Table(*columns, box=MARKDOWN)


def show(*content: Table | str) -> None:
    """Print tables and sentences in order."""
    console = Console(width=WIDTH, highlight=False, markup=False, emoji=False)
    for each in content:
        console.print(each, soft_wrap=isinstance(each, str))


def gather_or_show(
    description: str | None,
    every: int,
    gather: Callable[[Path, int], None],
    gathered: Callable[[], Sequence[Evaluated]],
    tables: Mapping[str, Callable[[Sequence[Evaluated]], Table]],
) -> None:
    """Run the command line of a script that evaluates predictions: *gather* them in a file, or print *tables*.

    The tables show the kernels that *gathered* returns. All tables are printed unless the command line names one.
    """
    parser = argparse.ArgumentParser(description=description)
    text = "gather predictions or print one table; by default all tables are printed"
    parser.add_argument("action", nargs="?", choices=["gather", *tables], help=text)
    parser.add_argument("file", nargs="?", type=Path, help="output file of gather")
    parser.add_argument("--every", type=int, default=every, help="gather only every N-th kernel")
    options = parser.parse_args()
    if options.action == "gather":
        if options.file is None:
            parser.error("gather requires FILE")
        gather(options.file, options.every)
        return
    evaluated = gathered()
    show(*(make(evaluated) for name, make in tables.items() if options.action in (None, name)))
