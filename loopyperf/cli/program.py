"""The program and its table of commands."""

import re
import sys
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import add_completion_class
from rich.text import Text

from loopyperf.cli import caches_apart, ended_by
from loopyperf.cli.commands import COMMANDS, SUMMARIES
from loopyperf.cli.completion import BashWords
from loopyperf.cli.loudness import is_quiet, is_verbose, own_loudness
from loopyperf.cli.shell_terms import in_shell_terms
from loopyperf.cli.streams import standard_error
from loopyperf.cli.summaries import Summaries
from loopyperf.errors import LoopyperfError, LoopyperfWarning, one_line

SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
"""of the program, and so of all commands"""
ALONE = re.compile(r"extra argument.*\((?P<size>[A-Za-z_]\w*=-?\d+)\b")
"""a size in Click's message on what it does not expect"""
EPILOG = """\b
Exit status:
  0  there is an answer
  1  there is no answer; what is printed says why, and what to do
  2  the command line is invalid
  130  it was interrupted, by Ctrl-C
  143  it was ended, by SIGTERM

\b
To have names completed, in bash (zsh: compinit first, zsh_source); in fish:
  eval "$(_LOOPYPERF_COMPLETE=bash_source loopyperf)"
  _LOOPYPERF_COMPLETE=fish_source loopyperf | source
"""


class Commands(Summaries):
    """The group of all commands, in which neither an error of ours nor Ctrl-C needs a traceback."""

    def summaries(self) -> Mapping[str, str]:
        """Return what each command does, without importing any."""
        return SUMMARIES

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn a :class:`LoopyperfError` into one line and exit status 1, a signal into its own."""
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.filterwarnings("always", category=LoopyperfWarning)
            warnings.showwarning = _show_warning
            without_caches = caches_apart()
            try:
                return super().invoke(ctx)
            except click.UsageError as error:
                hint = _on_sizes(error)
                if not hint:
                    raise
                raise click.UsageError(f"{error.message}{hint}", error.ctx) from error
            except LoopyperfError as error:
                if is_verbose():
                    standard_error().print("".join(traceback.format_exception(error)), end="")
                said = in_shell_terms(one_line(error), self.commands.get(ctx.invoked_subcommand or ""))
                raise click.ClickException(said) from error
            except KeyboardInterrupt as interrupt:
                ctx.exit(_end_by(interrupt))
            finally:
                if without_caches:
                    warnings.warn(without_caches, LoopyperfWarning, stacklevel=1)


def _end_by(interrupt: KeyboardInterrupt) -> int:
    """Print one line, below the ``^C`` of a terminal, with the notes of the *interrupt*; return the exit status."""
    what, status = ended_by(interrupt)
    below = "\n" if sys.stderr.isatty() else ""
    click.echo(below + ": ".join([what, *getattr(interrupt, "__notes__", [])]), err=True)
    return status


def _on_sizes(error: click.UsageError) -> str:
    """Return how a size is stated, where one stands by itself on the line of a command that takes sizes."""
    alone = ALONE.search(error.message)
    takes = error.ctx is not None and any("--set" in each.opts for each in error.ctx.command.params)
    return f"; a size is stated by --set {alone['size']}" if alone and takes else ""


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if is_verbose() or (issubclass(category, LoopyperfWarning) and not is_quiet()):
        standard_error().print(Text("Warning:", "yellow"), in_shell_terms(str(message)))


@click.group("loopyperf", cls=Commands, commands=COMMANDS, epilog=EPILOG, context_settings=SETTINGS)
@click.version_option(package_name="loopyperf")
def program() -> None:
    """Predict how long Loopy kernels run on a device, without running them."""


own_loudness(program)
add_completion_class(BashWords)
