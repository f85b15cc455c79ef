"""The program and its table of commands."""

import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem
from rich.text import Text

from loopyperf.cli import ended_by
from loopyperf.cli.options import is_quiet, is_verbose, loudness, own_loudness, standard_error
from loopyperf.errors import (
    LoopyperfError,
    LoopyperfWarning,
    MissingSizeError,
    UncountableError,
    cannot_start,
    one_line,
)
from loopyperf.files import caches_apart
from loopyperf.units import printable

SUMMARIES: Mapping[str, str] = {
    "advise": "Suggest changes that make a Loopy kernel faster, with the predicted time after each.",
    "cache": "Show or clear the result cache.",
    "calibrate": "Time the measurement kernels on a device and fit a model to the times.",
    "check": "Fail if the predicted run time of a Loopy kernel is too long, for continuous integration.",
    "compare": "Compare the run times that all models predict for a Loopy kernel.",
    "counters": "Predict the Nsight Compute metrics of a Loopy kernel.",
    "devices": "List the known devices, with their main parameters and fits.",
    "diff": "Explain how the run times of two Loopy kernels differ.",
    "doctor": "Check the installation.",
    "estimate": "Predict the run time of a Loopy kernel.",
    "explain": "Explain the run time of a Loopy kernel and suggest improvements.",
    "fit": "Fit a model to an archive of measurements.",
    "measure": "Measure the run time of a Loopy kernel, and print it beside the predicted one.",
    "microbenchmark": "Measure the latencies and memories of a device and write its device file.",
    "profile": "Run a Python program that uses Loopy, and predict the run time of its kernels on other devices.",
    "rank": "Rank variants of a Loopy kernel by predicted run time, fastest first.",
    "report": "Write an HTML report that explains the run time of a Loopy kernel.",
    "trace": "Write a simulated trace of the warps of one core, for Perfetto.",
    "train": "Train a residual model, which corrects another model, on archives of measurements.",
    "tune": "Find the fastest variant of a Loopy kernel with as few measurements as possible.",
    "validate": "Compare predicted with measured run times on test kernels.",
}
"""command name -> first sentence of its help, so that commands can be listed without importing them"""
MODULES: Mapping[str, str] = {
    **dict.fromkeys(("compare", "counters", "estimate", "rank"), "predicting"),
    **dict.fromkeys(("advise", "diff", "explain", "report", "trace"), "explaining"),
    **dict.fromkeys(("calibrate", "fit", "microbenchmark", "train", "validate"), "measuring"),
    **dict.fromkeys(("cache", "doctor"), "installation"),
    "devices": "devices",
    "profile": "profiling",
    **dict.fromkeys(("check", "measure", "tune"), "tuning"),
}
"""command name -> module of this package that defines it"""


class CommandTable(Mapping[str, click.Command]):
    """Command name -> command; ``estimate`` is the function ``estimate_command`` of its module, and so on."""

    def __getitem__(self, name: str) -> click.Command:
        """Return the command *name*; raises :class:`LoopyperfError` if it cannot be imported."""
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
        module = import_module(f"loopyperf.cli.{MODULES[name]}")
    except ImportError as error:
        raise LoopyperfError(cannot_start(error)) from error
    return loudness(getattr(module, f"{name}_command"))


COMMANDS = CommandTable()


SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
"""Click settings of the program, which all commands inherit"""
ALONE = re.compile(r"extra argument.*\((?P<size>[A-Za-z_]\w*=-?\d+)\b")
"""a size, such as ``n=64``, in Click's message about an unexpected argument"""
EPILOG = """\b
Exit status:
  0  success
  1  no answer; the message says why, and what to do
  2  invalid command line
  130  interrupted by Ctrl-C
  143  terminated by SIGTERM

\b
To enable completion in bash (in zsh: run compinit, use zsh_source) or fish:
  eval "$(_LOOPYPERF_COMPLETE=bash_source loopyperf)"
  _LOOPYPERF_COMPLETE=fish_source loopyperf | source
"""


class Commands(click.Group):
    """The group of all commands; loopyperf errors and Ctrl-C print one line instead of a traceback."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the name and the whole summary of each command, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options whose names start with *incomplete*, without importing any command."""
        named = [CompletionItem(name, help=summary) for name, summary in SUMMARIES.items()]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(item for item in named if item.value.startswith(incomplete)), *options]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a :class:`LoopyperfError` exits with status 1, a signal with 128 + its number."""
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.filterwarnings("always", category=LoopyperfWarning)
            warnings.showwarning = _show_warning
            without_caches = caches_apart()
            try:
                return super().invoke(ctx)
            except click.UsageError as error:
                raise _as_one_line(error) from error
            except LoopyperfError as error:
                if is_verbose():
                    standard_error().print(printable("".join(traceback.format_exception(error))), end="")
                command = self.commands.get(ctx.invoked_subcommand or "")
                raise click.ClickException(f"{one_line(error)}{_option(error, command)}") from error
            except KeyboardInterrupt as interrupt:
                ctx.exit(_end_by(interrupt))
            finally:
                if without_caches:
                    warnings.warn(without_caches, LoopyperfWarning, stacklevel=1)


def _end_by(interrupt: KeyboardInterrupt) -> int:
    """Print one line with the notes of *interrupt*, below the ``^C`` of a terminal; return the exit status."""
    what, status = ended_by(interrupt)
    below = "\n" if sys.stderr.isatty() else ""
    click.echo(below + ": ".join([what, *getattr(interrupt, "__notes__", [])]), err=True)
    return status


class InvalidCommandLine(click.ClickException):
    """A usage error that prints one line."""

    exit_code = click.UsageError.exit_code


def _as_one_line(error: click.UsageError) -> click.ClickException:
    """Return *error* without Click's lines on usage, with a hint on ``--set`` if an unexpected argument is a size."""
    alone = ALONE.search(error.message)
    takes = error.ctx is not None and _has_option(error.ctx.command, "--set")
    hint = f"; set a size with --set {alone['size']}" if alone and takes else ""
    command = "loopyperf" if error.ctx is None else error.ctx.command_path
    return InvalidCommandLine(f"{' '.join(error.format_message().split())}{hint} (see `{command} --help`)")


def _option(error: LoopyperfError, command: click.Command | None) -> str:
    """Return a hint on the option of *command* that supplies what *error* lacks; empty if there is none."""
    option = ""
    names: tuple[str, ...] = ()
    if isinstance(error, MissingSizeError):
        option, names = "--set", error.names
    elif isinstance(error, UncountableError) and error.keyword is not None:
        option, names = "--typical", (error.keyword,)
    if not option or command is None or not _has_option(command, option):
        return ""
    return f" (option {' '.join(f'{option} ' + shlex.quote(f'{name}=VALUE') for name in names)})"


def _has_option(command: click.Command, name: str) -> bool:
    return any(name in parameter.opts for parameter in command.params)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if is_verbose() or (issubclass(category, LoopyperfWarning) and not is_quiet()):
        standard_error().print(Text("Warning:", "yellow"), printable(str(message)))


@click.group("loopyperf", cls=Commands, commands=COMMANDS, epilog=EPILOG, context_settings=SETTINGS)
@click.version_option(package_name="loopyperf")
def program() -> None:
    """Predict the run times of Loopy kernels on a device without running them."""


own_loudness(program)
