"""The command line: ``loopyperf``. One file for each command; an error of ours is one line and exit status 2."""

from loopyperf.cli.program import main

__all__ = ["main"]
