"""``loopyperf compare``: what every model says of a kernel in a Python file."""

from functools import partial

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.predict.compare import compare as ask
from loopyperf.predict.compare import compare_occupancies as ask_over_occupancy


@click.command(epilog="\b\nExample: loopyperf compare matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.kernel
@settings.sizes
@settings.typical
@settings.device
@settings.models
@settings.fit_of_one
@click.option("--occupancy", is_flag=True, help="Show performance against the number of groups resident on a core.")
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
    """Ask all models for the run time of the Loopy kernel that FUNCTION in FILE.py builds, and print them together."""
    if occupancy and fit is not None:
        raise click.UsageError("--occupancy asks models that know the device, and a fit does not: leave --fit out")
    question = ask_over_occupancy if occupancy else partial(ask, fit=fit)
    program = load_program(kernel)
    with working("asking all models"):
        answer = question(program, device=device, models=models or None, typical=typical, parameters=sizes)
    print_answer(answer, form)
    if not answer.seconds:
        raise SystemExit(1)
