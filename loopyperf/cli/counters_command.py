"""``loopyperf counters``: what a profiler counts of a kernel in a Python file, and a profile beside that."""

from pathlib import Path

import click

from loopyperf.calibration.choice import chosen_device
from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.predict.counters import compare_counters, counters_at
from loopyperf.stages.case import Case
from loopyperf.stages.compiled import Compiler


@click.command(epilog="\b\nExample: loopyperf counters matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.kernel
@settings.sizes
@settings.typical
@settings.device
@settings.compiler
@click.option(
    "--compare",
    "profile",
    type=settings.FILE,
    help="A profile to put beside it: what `ncu --csv` prints, or the JSON of KTT.",
)
@settings.form
def counters_command(
    kernel: str,
    sizes: dict[str, int],
    typical: dict[str, float] | None,
    device: str | None,
    compiler: Compiler,
    profile: Path | None,
    form: Form,
) -> None:
    """Predict what Nsight Compute counts of the Loopy kernel that FUNCTION in FILE.py builds.

    Its metrics have their own names there. With --compare, those that a profile has are printed beside the prediction,
    each with its error.
    """
    program = load_program(kernel)
    with working("counting"):
        described = chosen_device(device)
        found = counters_at(Case(program, sizes, typical), described, compiler)
        answer = found if profile is None else compare_counters(found, profile, device=described)
    print_answer(answer, form)
