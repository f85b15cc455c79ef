"""``loopyperf estimate``: predict the run time of a kernel."""

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.settings import BACKEND
from loopyperf.cli.streams import Form
from loopyperf.counts.execution import COUNTINGS, Counting
from loopyperf.predict.estimate import estimate
from loopyperf.stages.compiled import Compiler


@click.command(epilog="\b\nExample: loopyperf estimate matmul.py:tiled --set n=4096 --device amd-r9-fury")
@settings.kernel
@settings.sizes
@settings.typical
@settings.device
@settings.model
@settings.fit
@click.option(
    "--backend",
    type=BACKEND,
    help="Backend with which the fit was measured, or on which `sampled` and `learned` run: opencl or cuda.",
)
@click.option("--counting", type=click.Choice(COUNTINGS), help=f"{settings.HOW_TO_COUNT}; default: as in the fit.")
@settings.compiler
@click.option(
    "--wall", is_flag=True, help="Predict the wall-clock time of one run, with the launch and the wait on the host."
)
@settings.form
def estimate_command(
    kernel: str,
    sizes: dict[str, int],
    typical: dict[str, float] | None,
    device: str | None,
    model: str | None,
    fit: str | None,
    backend: str | None,
    counting: Counting | None,
    compiler: Compiler,
    wall: bool,
    form: Form,
) -> None:
    """Predict the run time of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. The table breaks the time down by property.
    """
    program = load_program(kernel)
    with working("estimating"):
        answer = estimate(
            program,
            device=device,
            model=model,
            fit=fit,
            backend=backend,
            counting=counting,
            compiler=compiler,
            typical=typical,
            wall=wall,
            parameters=sizes,
        )
    print_answer(answer, form)
