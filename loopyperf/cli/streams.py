"""The streams of a command: how much is printed, where, in which words of the shell, and files that are written.

How much a command says beside its answer: ``--quiet`` and ``--verbose``, before or after the command's name.

Quiet, there is the answer, or the error, and nothing else: no notes, no warnings, no progress. Verbose, notes are in
full, an error of ours comes with its traceback, and the warnings of the libraries below are shown too.

Files that commands write: where they cannot be written, it is said before there is anything to write.

As with compilers, a file that is named is written over. One that nobody named, since its name is the default, is
written over where it is an earlier one of ours; anything else of that name is left alone.
"""

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from functools import cache
from importlib import import_module
from inspect import signature
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
from click.core import ParameterSource
from rich.console import Console

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


def check_writable(path: Path) -> Path:
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
