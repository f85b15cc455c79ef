"""How much a command says beside its answer: ``--quiet`` and ``--verbose``, before or after the command's name.

Quiet, there is the answer, or the error, and nothing else: no notes, no warnings, no progress. Verbose, notes are in
full, an error of ours comes with its traceback, and the warnings of the libraries below are shown too.
"""

from typing import TypeVar

import click

ASKED = "loopyperf.loudness"
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
    return "" if context is None else str(context.meta.get(ASKED, ""))


def _ask(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given and context.meta.setdefault(ASKED, option.name) != option.name:
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
