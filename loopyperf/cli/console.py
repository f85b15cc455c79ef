"""Where the commands print: results on standard output, progress and warnings on standard error.

What is printed is text, never markup: messages hold brackets, as in ``pip install 'loopyperf[opencl]'``. On a terminal
nothing is wider than it is; what does not fit goes on in the next line, and nothing is cut off.
"""

import csv
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from loopyperf.cli.streams import Form, Records, has_width, in_shell_terms, is_quiet, is_verbose, standard_output
from loopyperf.display import GAP, ReportText, Shown, Tabular, folded

NOTE = re.compile(r"note: |\d+ notes in short: ")
SHARE = re.compile(r"[<>]? ?-?\d+(\.\d+)? %")

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


def show_beside(text: str) -> None:
    """Print *text* as :func:`show` does, but for ``--quiet``, since it is not the answer."""
    if not is_quiet():
        show(text)


def show_answer(answer: Shown) -> None:
    """Print *answer* as Python does, in the width of the terminal, and in the words of the shell."""
    show_whole_or_alone(answer.report_text())


def show_whole_or_alone(report_text: ReportText) -> None:
    """Print *report_text*; with ``--quiet`` the answer alone, which is its tables where it names none.

    Where it has neither, there is no answer, and all of it says why.
    """
    if is_quiet() and report_text.alone:
        click.echo(report_text.alone)
    elif is_quiet() and report_text.tables:
        _show_tables(report_text, standard_output())
    else:
        show_report_text(report_text)


def show_report_text(report_text: ReportText) -> None:
    """Print *report_text* in shell terms; in a file or a pipe each sentence is a line, as those of :func:`show`.

    On a terminal that can do that its head is bold, its notes are dim, and shares have a colour.
    """
    console = standard_output()
    prose = None if has_width() else sys.maxsize
    for line in ReportText(report_text.question, report_text.answer).text(console.width, prose=prose).splitlines():
        console.print(Text(line, "bold"))
    _show_tables(report_text, console)
    for sentence in _of_shell(report_text).sentences(_all_notes()):
        style = "dim" if NOTE.match(sentence) else ""
        for line in folded(GAP + sentence, prose or console.width, breaks=False):
            console.print(Text(line, style))


def print_answer(answer: Tabular, form: Form) -> None:
    """Print *answer* in this *form*."""
    print_in(form, answer.report_text, answer.records, answer.to_dict)


def print_in(
    form: Form, report_text: Callable[[], ReportText], records: Callable[[], Records], to_dict: Callable[[], Any]
) -> None:
    """Print what *form* needs of an answer: text, plain or as Markdown, its records as CSV, or all of it as JSON."""
    if form == "json":
        print_json(to_dict())
    elif form == "csv":
        click.echo(_as_csv(records()), nl=False)
    elif form == "md":
        click.echo(_of_shell(report_text()).markdown(_all_notes()))
    else:
        show_whole_or_alone(report_text())


def print_json(answer: Any) -> None:
    """Print plain values as JSON."""
    click.echo(json.dumps(answer, indent=2))


def _show_tables(report_text: ReportText, console: Console) -> None:
    for line in ReportText("", tables=report_text.tables).text(console.width).splitlines():
        printed = Text(line)
        printed.highlight_regex(SHARE, "cyan")
        console.print(printed)


def _of_shell(report_text: ReportText) -> ReportText:
    """Return *report_text* with its sentences in the words of the shell."""
    remarks, notes = ([in_shell_terms(each) for each in said] for said in (report_text.remarks, report_text.notes))
    return replace(report_text, remarks=remarks, notes=notes)


def _all_notes() -> str:
    """Return which option has all notes in full; empty where it is given."""
    return "" if is_verbose() else "--verbose"


def _as_csv(records: Records) -> str:
    """Return *records* as CSV with a line of headings; what a record does not have is empty."""
    written = StringIO()
    columns = dict.fromkeys(name for record in records for name in record)
    writer = csv.DictWriter(written, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return written.getvalue() if records else ""
