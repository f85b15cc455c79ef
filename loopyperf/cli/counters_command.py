"""``loopyperf counters``: predict a kernel's profiler metrics, and compare them with a profile."""

from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.predict.counters import compare_counters, counters


@click.command(epilog="\b\nExample: loopyperf counters matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.predicting(*settings.OF_KERNEL)
@click.option(
    "--compare",
    "profile",
    type=settings.FILE,
    help="Compare with this profile: the output of `ncu --csv`, or JSON from KTT.",
)
def counters_command(kernel: str, profile: Path | None, form: Form, **options: Any) -> None:
    """Predict the Nsight Compute metrics of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. Metrics have their Nsight Compute names. With --compare, the metrics in a
    profile are printed beside the predicted ones, with relative errors.
    """
    program = load_program(kernel)
    with working("counting"):
        found = counters(program, **options)
        answer = found if profile is None else compare_counters(found, profile, device=options["device"])
    print_answer(answer, form)
