"""``loopyperf counters``: predict a kernel's profiler metrics, and compare them with a profile."""

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
    help="Compare with this profile: the output of `ncu --csv`, or JSON from KTT.",
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
    """Predict the Nsight Compute metrics of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. Metrics have their Nsight Compute names. With --compare, the metrics in a
    profile are printed beside the predicted ones, with relative errors.
    """
    program = load_program(kernel)
    with working("counting"):
        parameters = chosen_device(device)
        found = counters_at(Case(program, sizes, typical), parameters, compiler)
        answer = found if profile is None else compare_counters(found, profile, device=parameters)
    print_answer(answer, form)
