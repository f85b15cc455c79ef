"""``loopyperf compare``: compare the predictions of all models for a kernel."""

from functools import partial

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.predict.compare import compare as compare_models
from loopyperf.predict.compare import compare_occupancies


@click.command(epilog="\b\nExample: loopyperf compare matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.kernel
@settings.sizes
@settings.typical
@settings.device
@settings.models
@settings.fit_of_one
@click.option("--occupancy", is_flag=True, help="Show run times against the number of groups resident on a core.")
@settings.form
def compare_command(
    kernel: str,
    sizes: dict[str, int],
    typical: dict[str, float] | None,
    device: str | None,
    models: tuple[str, ...],
    fit: str | None,
    occupancy: bool,
    form: Form,
) -> None:
    """Compare the run times that all models predict for a Loopy kernel.

    FUNCTION in FILE.py returns the kernel.
    """
    if occupancy and fit is not None:
        raise click.UsageError("--occupancy needs models of the device, which take no fit; drop --fit")
    compared = compare_occupancies if occupancy else partial(compare_models, fit=fit)
    program = load_program(kernel)
    with working("running all models"):
        answer = compared(program, device=device, models=models or None, typical=typical, parameters=sizes)
    print_answer(answer, form)
    if not answer.seconds:
        raise SystemExit(1)
