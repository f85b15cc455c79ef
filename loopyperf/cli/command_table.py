"""The program and its table of commands."""

import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem, add_completion_class
from rich.text import Text

from loopyperf.cli import caches_apart, ended_by
from loopyperf.cli.completion import BashWords
from loopyperf.cli.streams import in_shell_terms, is_quiet, is_verbose, loudness, own_loudness, standard_error
from loopyperf.errors import LoopyperfError, LoopyperfWarning, cannot_start, one_line

LONGEST = 1000
"""letters of a summary: more than any has"""


class Summaries(click.Group):
    """A group of commands that are listed with their whole summaries."""

    def summaries(self) -> Mapping[str, str]:
        """Return what each command does, by its name."""
        return {name: command.get_short_help_str(limit=LONGEST) for name, command in self.commands.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a row for each command, as many lines as its summary takes."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.summaries().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names of commands, or of options, that begin so."""
        named = [(name, does) for name, does in self.summaries().items() if name.startswith(incomplete)]
        # Group's own would ask for each command, and not only for its summary.
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=does) for name, does in named), *options]


SUMMARIES: Mapping[str, str] = {
    "advise": (
        "Say what would make the Loopy kernel that FUNCTION in FILE.py builds faster, with the time after each change."
    ),
    "cache": ("Show or clear the cache of counts and answers."),
    "calibrate": (
        "Time the measurement kernels on a device, and fit the model that best predicts kernel classes left out."
    ),
    "compare": (
        "Ask all models for the run time of the Loopy kernel that FUNCTION in FILE.py builds, and print them together."
    ),
    "counters": "Predict what Nsight Compute counts of the Loopy kernel that FUNCTION in FILE.py builds.",
    "coverage": (
        "Print which kernels exercise each property, in which amounts, and how well it can be told from the others."
    ),
    "devices": "List the devices that have a description or a fit; where both exist, your own before the bundled ones.",
    "diff": "Say what differs between two Loopy kernels, or one at two sizes or on two devices, and why.",
    "doctor": "Check the installation; exit with status 1 if something essential is broken.",
    "estimate": "Predict the run time of the Loopy kernel that FUNCTION in FILE.py builds, and say what it is made of.",
    "explain": (
        "Say why the Loopy kernel that FUNCTION in FILE.py builds takes so long, and what would make it faster."
    ),
    "fit": "Fit a model to the measurements in ARCHIVE, which `loopyperf calibrate` wrote; it may be compressed.",
    "microbenchmark": "Measure the latencies of instructions and the memories of a device, and write its description.",
    "rank": "Order the kernels VARIANTS in FILE.py by their predicted run times, fastest first.",
    "report": (
        "Write a page on why the Loopy kernel that FUNCTION in FILE.py builds takes so long, and what would help."
    ),
    "trace": "Write down what the warps of a core do when it executes the kernel that FUNCTION in FILE.py builds.",
    "train": (
        "Learn from the measurements in ARCHIVE, which `loopyperf calibrate` wrote, what a model leaves unexplained."
    ),
    "validate": (
        "Predict and measure kernels that no fit has seen; print both, and geometric means of the relative errors."
    ),
}
"""by the name of a command, what its own help begins with, so that all can be listed without importing any"""


class CommandTable(Mapping[str, click.Command]):
    """The commands by name; the command ``estimate`` is that of ``loopyperf/cli/estimate_command.py``."""

    def __getitem__(self, name: str) -> click.Command:
        """Return the command called *name*; raises :class:`LoopyperfError` where what it stands on is broken."""
        if name not in SUMMARIES:
            raise KeyError(name)
        return _imported(name)

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)


@cache
def _imported(name: str) -> click.Command:
    try:
        module = import_module(f"loopyperf.cli.{name}_command")
    except ImportError as error:
        raise LoopyperfError(cannot_start(error)) from error
    return loudness(getattr(module, f"{name}_command"))


COMMANDS = CommandTable()


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
