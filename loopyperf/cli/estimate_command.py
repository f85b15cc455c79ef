"""``loopyperf estimate``: predict the run time of a kernel."""

from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.settings import BACKEND
from loopyperf.cli.streams import Form
from loopyperf.counts.execution import COUNTINGS
from loopyperf.predict.estimate import estimate


@click.command(epilog="\b\nExample: loopyperf estimate matmul.py:tiled --set n=4096 --device amd-r9-fury")
@settings.predicting(*settings.OF_KERNEL)
@click.option(
    "--backend",
    type=BACKEND,
    help="Backend with which the fit was measured, or on which `sampled` and `learned` run: opencl or cuda.",
)
@click.option("--counting", type=click.Choice(COUNTINGS), help=f"{settings.HOW_TO_COUNT}; default: as in the fit.")
def estimate_command(kernel: str, form: Form, **options: Any) -> None:
    """Predict the run time of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. The table breaks the time down by property.
    """
    program = load_program(kernel)
    with working("estimating"):
        answer = estimate(program, **options)
    print_answer(answer, form)
