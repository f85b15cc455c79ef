"""Where the commands print: results on standard output, progress and warnings on standard error.

What is printed is text, never markup: messages hold brackets, as in ``pip install 'loopyperf[opencl]'``.
"""

import os
import sys

from rich.console import Console

PLAIN_WIDTH = 120
"""columns of a file or a pipe, which have no width of their own; the environment variable COLUMNS overrides it"""


def standard_output() -> Console:
    """Return the console for results."""
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if has_width else PLAIN_WIDTH, markup=False, emoji=False, highlight=False, soft_wrap=True)


def standard_error() -> Console:
    """Return the console for progress and warnings."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
