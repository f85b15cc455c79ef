"""The command line ``loopyperf``: one file per command; a loopyperf error prints one line and exits with status 1."""

import codecs
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

from loopyperf.errors import LoopyperfError, cannot_start, one_line
from loopyperf.files import os_reason

ENDED = 128
"""exit status of a command that a signal ended, less the signal's number; shells use the same"""
ENDING = (signal.SIGTERM, signal.SIGHUP)
"""signals that end a command as Ctrl-C does, so that no worker processes or partial files remain"""
PLAIN = {"µ": "u", "×": "x", "·": "*", "−": "-", "–": "-", "²": "^2", "³": "^3", "≤": "<=", "≥": ">=", "→": "->"}
"""substitutes for characters that the output encoding lacks; all others become ``?``"""


class Terminated(KeyboardInterrupt):
    """A signal other than SIGINT ended the command."""

    def __init__(self, number: int) -> None:
        """Store the signal's *number*."""
        super().__init__()
        self.number = number


def ended_by(interrupt: KeyboardInterrupt) -> tuple[str, int]:
    """Return the message for an *interrupt*, and the exit status."""
    if isinstance(interrupt, Terminated):
        return "Terminated", ENDED + interrupt.number
    return "Interrupted", ENDED + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with *arguments*, by default those of the process.

    Dependencies are imported here and commands on first use, so that a broken installation gives a one-line error.
    An interrupt before the command starts and a failing standard output give one line, too.
    """
    _open_closed_streams()
    _replace_unencodable()
    _drop_invalid_columns()
    try:
        _raise_on_signals()
        _program().main(args=arguments, prog_name="loopyperf")
    except KeyboardInterrupt as interrupt:
        _end(*ended_by(interrupt))
    except LoopyperfError as error:
        _end(f"Error: {one_line(error)}", 1)
    except OSError as error:
        refused = _refused_output()
        if refused is not None:
            _end(f"Error: cannot write to standard output: {refused}", 1)
        if error.filename is None:
            raise
        _end(f"Error: {error.filename}: {os_reason(error)}; rerun with --verbose for a traceback", 1)


def _raise_on_signals() -> None:
    """Make signals in :data:`ENDING` raise :class:`Terminated`; ignored signals (as under nohup) stay ignored."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise Terminated(number)

    for each in ENDING:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, end)


def _replace_unencodable() -> None:
    """Make standard output and error substitute characters that their encoding lacks; see :data:`PLAIN`."""

    def plain(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        return "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end

    codecs.register_error("plain", plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")


def _open_closed_streams() -> None:
    """Replace closed standard streams, which Python sets to None, by open files.

    Writing to the replacement of standard output fails, as writing to a closed descriptor does.
    """
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _drop_invalid_columns() -> None:
    """Remove COLUMNS from the environment unless it is a positive integer: Rich would use a width of 0."""
    columns = os.environ.get("COLUMNS")
    if columns is not None and not (columns.isdecimal() and int(columns)):
        del os.environ["COLUMNS"]


def _program() -> Any:
    """Return the Click program; raises :class:`LoopyperfError` if a dependency cannot be imported."""
    try:
        return import_module("loopyperf.cli.command_table").program
    except ImportError as error:
        raise LoopyperfError(cannot_start(error)) from error


def _refused_output() -> OSError | None:
    """Return the error that standard output raises, None if it is writable; then discard further output.

    Unbuffered output keeps nothing of a failed write, so this writes an empty line to provoke the error again.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as refused:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return refused
    return None


def _end(message: str, status: int) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(status)
