"""The command line: ``loopyperf``. One file for each command; an error of ours is one line and exit status 1."""

import atexit
import codecs
import io
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from platformdirs import user_cache_dir

from loopyperf.errors import LoopyperfError, cannot_start, one_line
from loopyperf.files import os_reason

ENDED = 128
"""and the number of a signal are the exit status of what it has ended, as shells have it"""
ENDING = (signal.SIGTERM, signal.SIGHUP)
"""signals that end a command as Ctrl-C does, so that it leaves no workers and no half-written files"""
PROBED = 4096
"""bytes that are written to a folder of caches to see whether it takes any"""
PLAIN = {"µ": "u", "×": "x", "·": "*", "−": "-", "–": "-", "²": "^2", "³": "^3", "≤": "<=", "≥": ">=", "→": "->"}
"""what stands for letters that an output without Unicode has not; ``?`` for others"""


class Terminated(KeyboardInterrupt):
    """The command was ended by a signal other than SIGINT."""

    def __init__(self, number: int) -> None:
        """Take the signal's *number*."""
        super().__init__()
        self.number = number


def ended_by(interrupt: KeyboardInterrupt) -> tuple[str, int]:
    """Return what is said of an *interrupt*, and the exit status."""
    if isinstance(interrupt, Terminated):
        return "Terminated", ENDED + interrupt.number
    return "Interrupted", ENDED + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; *arguments* are the process's own unless given.

    What it stands on is imported here, and each command when it is asked for, so that a broken installation is told in
    one line as well; and so are an interruption before there is a command, and standard output that takes no more.
    """
    _open_closed_streams()
    _speak_plainly()
    _forget_senseless_width()
    try:
        _end_as_by_interruption()
        _program().main(args=arguments, prog_name="loopyperf")
    except KeyboardInterrupt as interrupt:
        _end(*ended_by(interrupt))
    except LoopyperfError as error:
        _end(f"Error: {one_line(error)}", 1)
    except OSError as error:
        refused = _refused_output()
        if refused is not None:
            _end(f"Error: the answer cannot be written to standard output: {refused}", 1)
        if error.filename is None:
            raise
        _end(f"Error: {error.filename}: {os_reason(error)}; --verbose says where this came up", 1)


def _end_as_by_interruption() -> None:
    """Let signals in :data:`ENDING` raise :class:`Terminated`; ignored ones, as under nohup, stay ignored."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise Terminated(number)

    for each in ENDING:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, end)


def caches_apart() -> str:
    """Let caches be temporary where they cannot be written; return why they cannot, empty where they can.

    Loopy cannot be imported without a folder for its own. It is to be called before that.
    """
    folder = Path(user_cache_dir("pytools", "pytools"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBED))
        return ""
    except OSError as error:
        temporary = tempfile.TemporaryDirectory(prefix="loopyperf-", ignore_cleanup_errors=True)
        atexit.register(temporary.cleanup)
        os.environ["XDG_CACHE_HOME"] = temporary.name
        return (
            f"caches cannot be kept in {folder}: {os_reason(error)}; this command keeps its own until it ends. Let "
            "XDG_CACHE_HOME name a folder that can be written"
        )


def _speak_plainly() -> None:
    """Write what the encoding of a stream has no letter for in other ones."""

    def plain(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        return "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end

    codecs.register_error("plain", plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")


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
        return import_module("loopyperf.cli.command_table").program
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
