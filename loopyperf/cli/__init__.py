"""The command line: ``loopyperf``. One file for each command; an error of ours is one line and exit status 1."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from loopyperf.errors import LoopyperfError, cannot_start, one_line

INTERRUPTED = 130
"""the exit status of what was ended by Ctrl-C, as shells have it: 128 and the number of the signal"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; *arguments* are the process's own unless given.

    What it stands on is imported here, and each command when it is asked for, so that a broken installation is told in
    one line as well; and so are an interruption before there is a command, and standard output that takes no more.
    """
    _open_closed_streams()
    _forget_senseless_width()
    try:
        _program().main(args=arguments, prog_name="loopyperf")
    except KeyboardInterrupt:
        _end("Interrupted", INTERRUPTED)
    except LoopyperfError as error:
        _end(f"Error: {one_line(error)}", 1)
    except OSError:
        refused = _refused_output()
        if refused is None:
            raise
        _end(f"Error: the answer cannot be written to standard output: {refused}", 1)


def _open_closed_streams() -> None:
    """Have something to write to in place of a closed stream: Python has None there.

    Standard output refuses what is written then, as it does to programs that know of the descriptor alone.
    """
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _forget_senseless_width() -> None:
    """Let the terminal say how wide it is where COLUMNS does not: Rich takes 0 at its word."""
    stated = os.environ.get("COLUMNS")
    if stated is not None and not (stated.isdecimal() and int(stated)):
        del os.environ["COLUMNS"]


def _program() -> Any:
    """Return the program; raises :class:`LoopyperfError` where what it stands on cannot be imported."""
    try:
        return import_module("loopyperf.cli.program").program
    except ImportError as error:
        raise LoopyperfError(cannot_start(error)) from error


def _refused_output() -> OSError | None:
    """Return why standard output takes nothing, None if it does; when the process ends, it is not tried again.

    Where output is not buffered, nothing is left over of what was refused: an empty line tells then.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as refused:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return refused
    return None


def _end(said: str, status: int) -> NoReturn:
    sys.stderr.write(f"{said}\n")
    sys.exit(status)
