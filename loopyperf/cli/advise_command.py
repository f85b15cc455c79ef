"""``loopyperf advise``: suggest changes that make a kernel faster."""

from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.explain.advice import advise as ask


@click.command(epilog="\b\nExample: loopyperf advise matmul.py:tiled --set n=1024 --device nvidia-v100")
@settings.predicting(*settings.OF_KERNEL)
@click.option("--try", "apply", is_flag=True, help="Apply the changes that Loopy can make, and predict the results.")
def advise_command(kernel: str, form: Form, **options: Any) -> None:
    """Suggest changes that make a Loopy kernel faster, with the predicted time after each.

    FUNCTION in FILE.py returns the kernel. The output gives the reason for each change, and how to make it in Loopy.
    """
    program = load_program(kernel)
    with working("simulating"):
        answer = ask(program, **options)
    print_answer(answer, form)
