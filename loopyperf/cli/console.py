"""Where the commands print: results on standard output, progress and warnings on standard error.

What is printed is text, never markup: messages hold brackets, as in ``pip install 'loopyperf[opencl]'``. On a terminal
nothing is wider than it is; what does not fit goes on in the next line, and nothing is cut off.
"""

import json
import os
import sys
import textwrap
from dataclasses import replace
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loopyperf.cli.shell_terms import in_shell_terms
from loopyperf.cli.table import WholeWords
from loopyperf.sheet import Shown

PLAIN_WIDTH = 120
"""columns of a file or a pipe, which have no width of their own; the environment variable COLUMNS overrides it"""
HANGING = 4
"""columns by which what goes on in the next line is further right"""


def standard_output() -> Console:
    """Return the console for results."""
    width = None if _has_width() else PLAIN_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


def standard_error() -> Console:
    """Return the console for progress and warnings."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)


def show(text: str, console: Console | None = None, *, mark: str = "", colour: str = "") -> None:
    """Print *text*, whose lines go on in the next one where the terminal ends; a word is never broken.

    In a file or a pipe lines stay as they are, so that each can be searched for. A *mark* of some *colour* stands
    before it. What it says to write in Python is in the words of the shell.
    """
    console = console or standard_output()
    for line in f"{mark}{in_shell_terms(text)}".splitlines() or [""]:
        printed = Text(_wrapped(line, console.width) if _has_width() else line)
        if line.startswith(mark):
            printed.stylize(colour, 0, len(mark))
        console.print(printed)


def show_answer(answer: Shown) -> None:
    """Print *answer* as Python does, in the width of the terminal, and in the words of the shell.

    In a file or a pipe sentences are a line each, as those of :func:`show`.
    """
    console, sheet = standard_output(), answer.sheet()
    sheet = replace(sheet, remarks=[in_shell_terms(each) for each in sheet.remarks])
    for line in sheet.text(console.width, prose=None if _has_width() else sys.maxsize).splitlines():
        console.print(Text(line))


def table_of(*columns: str, left: int = 1, whole: int = 0, title: str | None = None) -> Table:
    """Return an empty table, of whose *columns* so many *left* ones are flush left, and the others flush right.

    Of so many *whole* ones, cells stand on one line, whatever happens to the others.
    """
    table = WholeWords(title=title)
    for place, column in enumerate(columns):
        side = "left" if place < left else "right"
        table.add_column(column, justify=side, overflow="fold", no_wrap=place < whole)
    return table


def print_json(answer: Any) -> None:
    """Print plain values as JSON."""
    click.echo(json.dumps(answer, indent=2))


def _has_width() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def _wrapped(line: str, width: int) -> str:
    indentation = " " * (len(line) - len(line.lstrip()) + HANGING)
    return textwrap.fill(
        line,
        width,
        subsequent_indent=indentation,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
