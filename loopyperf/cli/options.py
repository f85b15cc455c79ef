"""Options of all commands: verbosity, output format, output files, and completion of names; consoles.

The options ``--quiet`` and ``--verbose`` stand before or after the command's name. ``--quiet`` prints the answer or
the error only: no notes, warnings or progress. ``--verbose`` prints all notes, the traceback of a loopyperf error, and
the warnings of underlying libraries.

An output file is checked before the command starts its work. As with compilers, a file that the user names is
overwritten. A file of the default name is overwritten only if loopyperf wrote it.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem
from rich.console import Console

from loopyperf.errors import LoopyperfError
from loopyperf.files import is_there, read_bytes, why_unwritable

LOUDNESS = "loopyperf.loudness"
"""key of the Click context's ``meta`` for the option given: ``"quiet"`` or ``"verbose"``"""
AnyCommand = TypeVar("AnyCommand", bound=click.Command)


def is_quiet() -> bool:
    """Return whether ``--quiet`` was given."""
    return _loudness_option() == "quiet"


def is_verbose() -> bool:
    """Return whether ``--verbose`` was given."""
    return _loudness_option() == "verbose"


def loudness(command: AnyCommand) -> AnyCommand:
    """Add both options to *command* and its subcommands, and return it."""
    own_loudness(command)
    if isinstance(command, click.Group):
        for part in command.commands.values():
            loudness(part)
    return command


def own_loudness(command: click.Command) -> None:
    """Add both options to *command*, without loading its subcommands."""
    for declare in (_QUIET, _VERBOSE):
        declare(command)


def _loudness_option() -> str:
    context = click.get_current_context(silent=True)
    return "" if context is None else str(context.meta.get(LOUDNESS, ""))


def _store_loudness(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given and context.meta.setdefault(LOUDNESS, option.name) != option.name:
        raise click.UsageError("--quiet and --verbose cannot be combined; give one of them")


_QUIET = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    callback=_store_loudness,
    help="Print only the answer: no notes, warnings or progress.",
)
_VERBOSE = click.option(
    "--verbose",
    "-v",
    is_flag=True,
    expose_value=False,
    callback=_store_loudness,
    help="Print all notes, tracebacks of errors, and warnings of underlying libraries.",
)


PLAIN_WIDTH = 120
"""width of files and pipes, in columns; the environment variable COLUMNS overrides it"""


def standard_output() -> Console:
    """Return the console for results."""
    width = None if has_width() else PLAIN_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


def standard_error() -> Console:
    """Return the console for progress and warnings."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)


def has_width() -> bool:
    """Return whether standard output has a width: it is a terminal, or COLUMNS is set."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def no_answer_yet() -> AbstractContextManager[object]:
    """Redirect standard output to standard error while user code runs: its output is not part of the answer."""
    return redirect_stdout(sys.stderr)


Form = Literal["text", "json", "csv", "md"]
"""output format of an answer"""
Records = Sequence[Mapping[str, Any]]
Declared = TypeVar("Declared", bound=Callable[..., Any])


def form(command: Declared) -> Declared:
    """Declare the output formats of *command*."""
    forms = click.option(
        "--format",
        "form",
        type=click.Choice(get_args(Form)),
        default="text",
        help="Output format; json: the whole answer; csv: its rows, in base SI units; md: its tables, as Markdown.",
    )
    return forms(click.option("--json", "form", flag_value="json", help="Same as --format json.")(command))


LARGEST_FILE = 2**30
"""largest file of loopyperf, in bytes"""


class Output(click.Path):
    """The path of an output file; it need not exist.

    With *makes_folders*, missing parent folders are created when the file is written. Files of loopyperf contain the
    *mark*, which identifies an earlier file of the default name.
    """

    def __init__(self, *, makes_folders: bool = False, mark: str = "") -> None:
        super().__init__(path_type=Path)
        self.makes_folders, self.mark = makes_folders, mark

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; raises :class:`LoopyperfError` if it is not writable or must not be overwritten."""
        option = "the output" if param is None else f"--{param.name}"
        return self.checked(Path(value), option, is_named=_is_named(param, ctx))

    def checked(self, path: Path, option: str, *, is_named: bool) -> Path:
        """Return *path*; raises :class:`LoopyperfError` if it is not writable or must not be overwritten.

        A file that the user has not named is overwritten only if loopyperf wrote it.
        """
        reason = why_unwritable(path, makes_folders=self.makes_folders)
        if reason:
            raise LoopyperfError(f"cannot write {option} {path}: {reason}; give another path")
        if not is_named and is_there(path) and not _has(path, self.mark):
            raise LoopyperfError(
                f"{path} exists and was not written by loopyperf; use {option} to overwrite it or to give another path"
            )
        return path


def check_writable(path: Path) -> Path:
    """Return *path* if it does not exist, else the first of ``path-2``, ``path-3`` and so on that does not."""
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(candidate for candidate in chain([path], others) if not is_there(candidate))


def _is_named(param: click.Parameter | None, ctx: click.Context | None) -> bool:
    """Return whether the user gave the path."""
    if ctx is None or param is None:
        return True
    return ctx.get_parameter_source(param.name) is not ParameterSource.DEFAULT


def _has(path: Path, mark: str) -> bool:
    try:
        return mark.encode() in read_bytes(path, LARGEST_FILE)
    except OSError:
        return False


OF_PATHS = (".", "/", "~")
"""first characters of a path, which no name starts with"""


def names_or_files(
    names: Callable[[], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a completer for *names*, and for files if none of them matches."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found: list[CompletionItem] = []
        if not incomplete.startswith(OF_PATHS):
            with suppress(LoopyperfError):  # completion must not print errors
                found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]

    return complete
