"""Where the commands print: results on standard output, progress and warnings on standard error.

What is printed is text, never markup: messages hold brackets, as in ``pip install 'loopyperf[opencl]'``. On a terminal
nothing is wider than it is; what does not fit goes on in the next line, and nothing is cut off.
"""

import csv
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import replace
from functools import cache
from importlib import import_module
from inspect import signature
from io import StringIO
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
from click.core import ParameterSource
from rich.console import Console
from rich.text import Text

from loopyperf.display import GAP, Sheet, Shown, Tabular, folded
from loopyperf.errors import LoopyperfError
from loopyperf.files import is_there, read_bytes, why_unwritable

LOUDNESS = "loopyperf.loudness"
"""where the context keeps which of the two was asked for"""
Asked = TypeVar("Asked", bound=click.Command)


def is_quiet() -> bool:
    """Return whether nothing but the answer is wanted."""
    return _asked() == "quiet"


def is_verbose() -> bool:
    """Return whether tracebacks and all warnings are wanted."""
    return _asked() == "verbose"


def loudness(command: Asked) -> Asked:
    """Return *command*, and all parts of it, with both options."""
    own_loudness(command)
    if isinstance(command, click.Group):
        for part in command.commands.values():
            loudness(part)
    return command


def own_loudness(command: click.Command) -> None:
    """Give *command* both options, without asking what parts it has."""
    for declare in (_QUIET, _VERBOSE):
        declare(command)


def _asked() -> str:
    context = click.get_current_context(silent=True)
    return "" if context is None else str(context.meta.get(LOUDNESS, ""))


def _ask(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given and context.meta.setdefault(LOUDNESS, option.name) != option.name:
        raise click.UsageError("--quiet and --verbose contradict each other: give one of the two")


_QUIET = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    callback=_ask,
    help="Print the answer alone: no notes, no warnings, no progress.",
)
_VERBOSE = click.option(
    "--verbose",
    "-v",
    is_flag=True,
    expose_value=False,
    callback=_ask,
    help="Print notes in full, tracebacks of errors, and warnings of underlying libraries.",
)


ASKED: Mapping[str, str] = {
    "estimate": "loopyperf.predict.estimate",
    "rank": "loopyperf.search.rank",
    "compare": "loopyperf.predict.compare",
    "explain": "loopyperf.explain.explain",
}
"""what takes options and sizes in Python, with the module of each: imported for an error that names a keyword alone"""
TYPICAL = re.compile(r"typical=\{(?P<name>'[^']*'|\"[^\"]*\"): (?P<value>'[^']*'|[^{}'\"]+)\}")
KEYWORD = re.compile(r"(?<![\w.-])(?<!--set )(?P<name>[A-Za-z_]\w*)=(?P<value>\.\.\.|'[^']*'|\"[^\"]*\")")
PATHS: Mapping[str, re.Pattern[str]] = {
    "--fit": re.compile(r"\bgive (?=the path of a (?:fit|learned model)\b)"),
    "--kernels": re.compile(r"\bgive (?=the folder (?:of kernels|that)\b)"),
}
"""by option: where a message asks for a file or a folder in words, without naming a keyword"""


def in_shell_terms(text: str, command: click.Command | None = None) -> str:
    """Return *text* with keywords and their values as options of *command*, by default the one that is being run.

    What it has no option for stays as it is. A keyword that is not an option in Python either is a size, where its
    value is left out. A file or a folder that is asked for in words gets the name of its option.
    """
    context = click.get_current_context(silent=True)
    asked = command or (None if context is None else context.command)
    known = frozenset[str]() if asked is None else frozenset(each for param in asked.params for each in param.opts)
    if "--typical" in known:
        text = TYPICAL.sub(_typical, text)
    for option in PATHS.keys() & known:
        text = PATHS[option].sub(f"give {option}, ", text)

    def of_shell(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if f"--{name}" in known:
            return f"--{name} {value if value == '...' else shlex.quote(value[1:-1])}"
        is_size = "--set" in known and value == "..." and name not in _keywords()
        return f"--set {found[0]}" if is_size else found[0]

    return KEYWORD.sub(of_shell, text)


def _typical(found: re.Match[str]) -> str:
    name, value = found["name"][1:-1], found["value"].strip("'")
    return f"--typical {shlex.quote(f'{name}={value}')}"


@cache
def _keywords() -> frozenset[str]:
    """Return the options that have names in Python: what else has one is a size."""
    asked = (getattr(import_module(module), name) for name, module in ASKED.items())
    return frozenset(name for each in asked for name in signature(each).parameters)


PLAIN_WIDTH = 120
"""columns of a file or a pipe, which have no width of their own; the environment variable COLUMNS overrides it"""


def standard_output() -> Console:
    """Return the console for results."""
    width = None if has_width() else PLAIN_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


def standard_error() -> Console:
    """Return the console for progress and warnings."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)


def has_width() -> bool:
    """Return whether standard output is as wide as a terminal is, or as somebody has said."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def no_answer_yet() -> AbstractContextManager[object]:
    """Let what is printed go to standard error: it is the user's own code that speaks, and no part of the answer."""
    return redirect_stdout(sys.stderr)


Form = Literal["text", "json", "csv", "md"]
"""in which an answer is printed"""
Records = Sequence[Mapping[str, Any]]
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
    show_whole_or_alone(answer.sheet())


def show_whole_or_alone(sheet: Sheet) -> None:
    """Print *sheet*; with ``--quiet`` the answer alone, which is its tables where it names none.

    Where it has neither, there is no answer, and all of it says why.
    """
    if is_quiet() and sheet.alone:
        click.echo(sheet.alone)
    elif is_quiet() and sheet.tables:
        _show_tables(sheet, standard_output())
    else:
        show_sheet(sheet)


def show_sheet(sheet: Sheet) -> None:
    """Print *sheet* in the words of the shell; in a file or a pipe sentences are a line each, as those of :func:`show`.

    On a terminal that can do that its head is bold, its notes are dim, and shares have a colour.
    """
    console = standard_output()
    prose = None if has_width() else sys.maxsize
    for line in Sheet(sheet.asked, sheet.answer).text(console.width, prose=prose).splitlines():
        console.print(Text(line, "bold"))
    _show_tables(sheet, console)
    for sentence in _of_shell(sheet).sentences(_all_notes()):
        style = "dim" if NOTE.match(sentence) else ""
        for line in folded(GAP + sentence, prose or console.width, breaks=False):
            console.print(Text(line, style))


def print_answer(answer: Tabular, form: Form) -> None:
    """Print *answer* in this *form*."""
    print_in(form, answer.sheet, answer.records, answer.to_dict)


def print_in(
    form: Form, sheet: Callable[[], Sheet], records: Callable[[], Records], to_dict: Callable[[], Any]
) -> None:
    """Print what *form* needs of an answer: its sheet as text or as Markdown, its records as CSV, or it all as JSON."""
    if form == "json":
        print_json(to_dict())
    elif form == "csv":
        click.echo(_as_csv(records()), nl=False)
    elif form == "md":
        click.echo(_of_shell(sheet()).markdown(_all_notes()))
    else:
        show_whole_or_alone(sheet())


def print_json(answer: Any) -> None:
    """Print plain values as JSON."""
    click.echo(json.dumps(answer, indent=2))


def _show_tables(sheet: Sheet, console: Console) -> None:
    for line in Sheet("", tables=sheet.tables).text(console.width).splitlines():
        printed = Text(line)
        printed.highlight_regex(SHARE, "cyan")
        console.print(printed)


def _of_shell(sheet: Sheet) -> Sheet:
    """Return *sheet* with its sentences in the words of the shell."""
    remarks, notes = ([in_shell_terms(each) for each in said] for said in (sheet.remarks, sheet.notes))
    return replace(sheet, remarks=remarks, notes=notes)


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


MOST = 2**30
"""bytes of a file of ours, at most"""


class Output(click.Path):
    """The path of a file that a command writes, or of a folder for several; it need not exist.

    Where *makes_folders* is stated, the folders that it is in are made when it is written. Files of ours have the
    *mark* in them, by which one of the default name is known.
    """

    def __init__(self, *, makes_folders: bool = False, is_folder: bool = False, mark: str = "") -> None:
        super().__init__(path_type=Path)
        self.makes_folders, self.is_folder, self.mark = makes_folders, is_folder, mark

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; raises :class:`LoopyperfError` where it cannot, or is not to be, written."""
        option = "the output" if param is None else f"--{param.name}"
        return self.checked(Path(value), option, is_named=_is_named(param, ctx))

    def checked(self, path: Path, option: str, *, is_named: bool) -> Path:
        """Return *path*, or raise :class:`LoopyperfError`; one that is not *named* is overwritten if it is of ours."""
        reason = why_unwritable(path, self.is_folder, self.makes_folders)
        if reason:
            raise LoopyperfError(f"{option} {path} cannot be written: {reason}; give another path")
        if not is_named and is_there(path) and not _has(path, self.mark):
            raise LoopyperfError(
                f"{path} exists and was not written by loopyperf; name it with {option} to overwrite it, or give "
                "another path"
            )
        return path


def free(path: Path) -> Path:
    """Return *path*, or where something is there the first of ``path-2``, ``path-3`` and so on that is free."""
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(each for each in chain([path], others) if not is_there(each))


def _is_named(param: click.Parameter | None, ctx: click.Context | None) -> bool:
    """Return whether somebody wrote the path down."""
    if ctx is None or param is None:
        return True
    return ctx.get_parameter_source(param.name) is not ParameterSource.DEFAULT


def _has(path: Path, mark: str) -> bool:
    try:
        return mark.encode() in read_bytes(path, MOST)
    except OSError:
        return False
