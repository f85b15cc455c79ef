"""The two streams of a command: the answer goes to standard output, and all else that is said to standard error."""

import os
import sys
from contextlib import AbstractContextManager, redirect_stdout

from rich.console import Console

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
