"""The program and its table of commands."""

import warnings
from collections.abc import Mapping
from typing import Any

import click
from rich.text import Text

from loopyperf.cli.cache import cache
from loopyperf.cli.calibrate import calibrate
from loopyperf.cli.compare import compare
from loopyperf.cli.console import standard_error
from loopyperf.cli.coverage import coverage
from loopyperf.cli.devices import devices
from loopyperf.cli.doctor import doctor
from loopyperf.cli.estimate import estimate
from loopyperf.cli.explain import explain
from loopyperf.cli.fit import fit
from loopyperf.cli.microbenchmark import microbenchmark
from loopyperf.cli.rank import rank
from loopyperf.cli.report import report
from loopyperf.cli.train import train
from loopyperf.cli.validate import validate
from loopyperf.errors import LoopyperfError, LoopyperfWarning

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
    "train": train,
    "validate": validate,
}


class Refusal(click.ClickException):
    """An error of ours, as click shows it."""

    exit_code = 2


class Program(click.Group):
    """The group of all commands, in which an error of ours needs no traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn a :class:`LoopyperfError` into one line and exit status 2."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("always", category=LoopyperfWarning)
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except LoopyperfError as error:
                raise Refusal(" ".join(str(error).split())) from error


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    standard_error().print(Text("Warning:", "yellow"), message)


@click.group("loopyperf", cls=Program, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="loopyperf")
def program() -> None:
    """Predict how long Loopy kernels run on a GPU, without running them."""
