"""Where the commands print: results on standard output, progress and warnings on standard error.

What is printed is text, never markup: messages hold brackets, as in ``pip install 'loopyperf[opencl]'``. On a terminal
nothing is wider than it is; what does not fit goes on in the next line, and nothing is cut off.
"""

import json
import sys
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from loopyperf.cli.shell_terms import in_shell_terms
from loopyperf.cli.streams import has_width, standard_output
from loopyperf.sheet import Sheet, Shown, folded

HANGING = " " * 4
"""by which what goes on in the next line is further right"""


def show(
    text: str, console: Console | None = None, *, mark: str = "", colour: str = "", hanging: str = HANGING
) -> None:
    """Print *text*, whose lines go on in the next one where the terminal ends; a word is never broken.

    In a file or a pipe lines stay as they are, so that each can be searched for. A *mark* of some *colour* stands
    before it. What it says to write in Python is in the words of the shell.
    """
    console = console or standard_output()
    for line in f"{mark}{in_shell_terms(text)}".splitlines() or [""]:
        lines = folded(line, console.width, hanging, breaks=False) if has_width() else [line]
        printed = Text("\n".join(lines))
        if line.startswith(mark):
            printed.stylize(colour, 0, len(mark))
        console.print(printed)


def show_answer(answer: Shown) -> None:
    """Print *answer* as Python does, in the width of the terminal, and in the words of the shell."""
    show_sheet(answer.sheet())


def show_sheet(sheet: Sheet) -> None:
    """Print *sheet* in the words of the shell; in a file or a pipe sentences are a line each, as those of :func:`show`.

    Its head is bold, on a terminal that can do that.
    """
    console = standard_output()
    prose = None if has_width() else sys.maxsize
    head = Sheet(sheet.asked, sheet.answer)
    remarks, notes = ([in_shell_terms(each) for each in said] for said in (sheet.remarks, sheet.notes))
    for part, style in ((head, "bold"), (Sheet("", tables=sheet.tables, remarks=remarks, notes=notes), "")):
        for line in part.text(console.width, prose=prose).splitlines():
            console.print(Text(line, style))


def print_json(answer: Any) -> None:
    """Print plain values as JSON."""
    click.echo(json.dumps(answer, indent=2))
