"""``loopyperf advise``: suggest changes that make a kernel faster."""

from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer, show_beside
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.explain.advice import advise as ask


@click.command(epilog="\b\nExample: loopyperf advise matmul.py:tiled --set n=1024 --device nvidia-v100")
@settings.predicting(*settings.OF_KERNEL)
@click.option("--try", "apply", is_flag=True, help="Apply the changes that Loopy can make, and predict the results.")
@click.option("--combine", is_flag=True, help="Combine up to four changes, as long as each helps.")
@click.option(
    "--emit", type=settings.FILE, help="Write a Python file; its function fixed() returns the changed kernel."
)
def advise_command(kernel: str, form: Form, emit: Path | None, **options: Any) -> None:
    """Suggest changes that make a Loopy kernel faster, with the predicted time after each.

    FUNCTION in FILE.py returns the kernel. Loopy makes each change, and the model predicts the changed kernel. The
    output gives the reason for each change, and a function that makes it.
    """
    program = load_program(kernel)
    with working("simulating"):
        answer = ask(program, **options)
    print_answer(answer, form)
    written = None if emit is None else answer.emit(emit, kernel)
    if written is not None and form == "text":
        show_beside(f"wrote {written}; fixed() returns the changed kernel: loopyperf estimate {written}:fixed")
