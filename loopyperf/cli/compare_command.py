"""``loopyperf compare``: compare the predictions of all models for a kernel."""

from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.predict.compare import compare, compare_occupancies


@click.command(epilog="\b\nExample: loopyperf compare matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.predicting(*settings.OF_KERNEL, "models")
@click.option("--occupancy", is_flag=True, help="Show run times against the number of groups resident on a core.")
def compare_command(kernel: str, occupancy: bool, form: Form, **options: Any) -> None:
    """Compare the run times that all models predict for a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. The first row is the default model of `estimate`, or --model.
    """
    options["models"] = options["models"] or None
    if occupancy and [options.pop(name) for name in settings.MODEL] != [None, None, "model"]:
        raise click.UsageError("--occupancy compares models of the device; drop --fit, --model and --compiler")
    program = load_program(kernel)
    with working("running all models"):
        answer = (compare_occupancies if occupancy else compare)(program, **options)
    print_answer(answer, form)
    if not answer.seconds:
        raise SystemExit(1)
