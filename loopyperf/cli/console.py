"""Printing of answers: results go to standard output, progress and warnings to standard error.

All output is plain text, not Rich markup, since messages contain brackets (``pip install 'loopyperf[opencl]'``). On a
terminal, long lines are folded at its width; nothing is truncated.
"""

import csv
import json
import re
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from loopyperf.cli.options import Form, Records, has_width, is_quiet, is_verbose, standard_output
from loopyperf.display import GAP, ReportText, Tabular, folded
from loopyperf.units import printable

NOTE = re.compile(r"note: |\d+ notes, abbreviated: ")
SHARE = re.compile(r"[<>]? ?-?\d+(\.\d+)? %")

HANGING = " " * 4
"""indentation of folded lines"""


def show(
    text: str, console: Console | None = None, *, mark: str = "", colour: str = "", hanging: str = HANGING
) -> None:
    """Print *text* after a *mark* in *colour*, with control characters escaped; on a terminal, fold its lines.

    In a file or a pipe, lines are not folded, so that they can be searched.
    """
    console = console or standard_output()
    for line in printable(f"{mark}{text}").splitlines() or [""]:
        lines = folded(line, console.width, hanging, breaks=False) if has_width() else [line]
        printed = Text("\n".join(lines))
        if line.startswith(mark):
            printed.stylize(colour, 0, len(mark))
        console.print(printed)


def show_beside(text: str) -> None:
    """Print *text* as :func:`show` does, unless ``--quiet`` was given: it is not part of the answer."""
    if not is_quiet():
        show(text)


def show_whole_or_alone(report_texts: Sequence[ReportText]) -> None:
    """Print *report_texts*; with ``--quiet`` only their short answers, or the tables if there is no short answer.

    If there is neither, there is no answer, and the whole text says why.
    """
    alone = [printable(report_text.alone) for report_text in report_texts if report_text.alone]
    if is_quiet() and alone:
        click.echo("\n".join(alone))
    elif is_quiet() and any(report_text.tables for report_text in report_texts):
        for report_text in report_texts:
            _show_tables(report_text, standard_output())
    else:
        for number, report_text in enumerate(report_texts):
            if number:
                show("")
            show_report_text(report_text)


def show_report_text(report_text: ReportText) -> None:
    """Print *report_text*; in a file or a pipe, each sentence is one line, as in :func:`show`.

    On a terminal, the headline is bold, notes are dim, and shares are colored.
    """
    console = standard_output()
    prose = None if has_width() else sys.maxsize
    for line in ReportText(report_text.question, report_text.answer).text(console.width, prose=prose).splitlines():
        console.print(Text(line, "bold"))
    _show_tables(report_text, console)
    for sentence in report_text.sentences(_all_notes()):
        style = "dim" if NOTE.match(sentence) else ""
        for line in folded(GAP + sentence, prose or console.width, breaks=False):
            console.print(Text(line, style))


def print_answer(answer: Tabular, form: Form) -> None:
    """Print *answer* in the format *form*."""
    print_in(form, lambda: [answer.report_text()], answer.records, answer.to_dict)


def print_in(
    form: Form,
    report_texts: Callable[[], Sequence[ReportText]],
    records: Callable[[], Records],
    to_dict: Callable[[], Any],
) -> None:
    """Print an answer in the format *form*: text, Markdown, its records as CSV, or all of it as JSON."""
    if form == "json":
        click.echo(json.dumps(to_dict(), indent=2))
    elif form == "csv":
        click.echo(printable(_as_csv(records())), nl=False)
    elif form == "md":
        click.echo("\n\n".join(report_text.markdown(_all_notes()) for report_text in report_texts()))
    else:
        show_whole_or_alone(report_texts())


def _show_tables(report_text: ReportText, console: Console) -> None:
    for line in ReportText("", tables=report_text.tables, code=report_text.code).text(console.width).split("\n"):
        printed = Text(line)
        printed.highlight_regex(SHARE, "cyan")
        console.print(printed)


def _all_notes() -> str:
    """Return the option that prints all notes; empty if it is given."""
    return "" if is_verbose() else "--verbose"


def _as_csv(records: Records) -> str:
    """Return *records* as CSV with a header line; missing values are empty."""
    written = StringIO()
    columns = dict.fromkeys(name for record in records for name in record)
    writer = csv.DictWriter(written, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return written.getvalue() if records else ""
