"""``loopyperf estimate``: how long a kernel in a Python file takes."""

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.settings import BACKEND
from loopyperf.cli.streams import Form
from loopyperf.counts.execution import COUNTINGS, Counting
from loopyperf.predict.estimate import estimate as ask
from loopyperf.stages.compiled import Compiler


@click.command(epilog="\b\nExample: loopyperf estimate matmul.py:tiled --set n=4096 --device amd-r9-fury")
@settings.kernel
@settings.sizes
@settings.typical
@settings.device
@settings.model
@settings.fit
@click.option(
    "--backend", type=BACKEND, help="Backend of the fit, or that `sampled` and `learned` run on: opencl or cuda."
)
@click.option("--counting", type=click.Choice(COUNTINGS), help="How work is counted; by default as in the fit.")
@settings.compiler
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
    form: Form,
) -> None:
    """Predict the run time of the Loopy kernel that FUNCTION in FILE.py builds, and say what it is made of."""
    program = load_program(kernel)
    with working("estimating"):
        answer = ask(
            program,
            device=device,
            model=model,
            fit=fit,
            backend=backend,
            counting=counting,
            compiler=compiler,
            typical=typical,
            parameters=sizes,
        )
    print_answer(answer, form)
