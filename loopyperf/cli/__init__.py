"""The command line ``loopyperf``: one file per command; a loopyperf error prints one line and exits with status 1."""

import io
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # the encoding may lack some characters, such as µ
    try:
        _raise_on_signals()
        _program().main(args=arguments, prog_name="loopyperf")
    except KeyboardInterrupt as interrupt:
        _end(*ended_by(interrupt))
    except LoopyperfError as error:
        _end(f"Error: {one_line(error)}", 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _end(f"Error: {where}{os_reason(error)}; rerun with --verbose for a traceback", 1)


def _raise_on_signals() -> None:
    """Make signals in :data:`ENDING` raise :class:`Terminated`; ignored signals (as under nohup) stay ignored."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise Terminated(number)

    for each in ENDING:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, end)


def _program() -> Any:
    """Return the Click program; raises :class:`LoopyperfError` if a dependency cannot be imported."""
    try:
        return import_module("loopyperf.cli.command_table").program
    except ImportError as error:
        raise LoopyperfError(cannot_start(error)) from error


def _end(message: str, status: int) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(status)
