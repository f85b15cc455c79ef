"""The program and its table of commands."""

import re
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

import click
from rich.text import Text

from loopyperf.cli.cache import cache
from loopyperf.cli.calibrate import calibrate
from loopyperf.cli.compare import compare
from loopyperf.cli.coverage import coverage
from loopyperf.cli.devices import devices
from loopyperf.cli.doctor import doctor
from loopyperf.cli.estimate import estimate
from loopyperf.cli.explain import explain
from loopyperf.cli.fit import fit
from loopyperf.cli.loudness import is_quiet, is_verbose, loudness
from loopyperf.cli.microbenchmark import microbenchmark
from loopyperf.cli.rank import rank
from loopyperf.cli.report import report
from loopyperf.cli.shell_terms import in_shell_terms
from loopyperf.cli.streams import standard_error
from loopyperf.cli.summaries import Summaries
from loopyperf.cli.trace import trace
from loopyperf.cli.train import train
from loopyperf.cli.validate import validate
from loopyperf.errors import LoopyperfError, LoopyperfWarning, one_line

COMMANDS: Mapping[str, click.Command] = {
    "cache": cache,
    "calibrate": calibrate,
    "compare": compare,
    "coverage": coverage,
    "devices": devices,
    "doctor": doctor,
    "estimate": estimate,
    "explain": explain,
    "fit": fit,
    "microbenchmark": microbenchmark,
    "rank": rank,
    "report": report,
    "trace": trace,
    "train": train,
    "validate": validate,
}
SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
"""of the program, and so of all commands"""
ALONE = re.compile(r"extra argument.*\((?P<size>[A-Za-z_]\w*=-?\d+)\b")
"""a size in Click's message on what it does not expect"""
EPILOG = """\b
Exit status:
  0  there is an answer
  1  there is no answer; a line on standard error says why, and what to do
  2  the command line is invalid

\b
To have names completed, in bash; in zsh the same with zsh_source; in fish:
  eval "$(_LOOPYPERF_COMPLETE=bash_source loopyperf)"
  _LOOPYPERF_COMPLETE=fish_source loopyperf | source
"""


class Commands(Summaries):
    """The group of all commands, in which an error of ours needs no traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn a :class:`LoopyperfError` into one line and exit status 1."""
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.filterwarnings("always", category=LoopyperfWarning)
            warnings.showwarning = _show_warning
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


loudness(program)
