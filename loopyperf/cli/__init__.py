"""The command line: ``loopyperf``. One file for each command; an error of ours is one line and exit status 1."""

import sys
from collections.abc import Sequence
from importlib import import_module

from loopyperf.errors import ENGINE_REMEDY


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; *arguments* are the process's own unless given.

    The commands are imported here, so that a broken installation of what they stand on is told in one line as well.
    """
    try:
        program = import_module("loopyperf.cli.program").program
    except ImportError as error:
        sys.stderr.write(f"Error: loopyperf cannot start: {error}; if this is about islpy, {ENGINE_REMEDY}\n")
        sys.exit(1)
    program.main(args=arguments, prog_name="loopyperf")
