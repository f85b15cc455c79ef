"""``loopyperf estimate``: predict the run time of a kernel."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.settings import BACKEND
from loopyperf.cli.streams import Form, Output
from loopyperf.counts.execution import COUNTINGS
from loopyperf.predict.estimate import estimate


@click.command(epilog="\b\nExample: loopyperf estimate matmul.py:tiled --set n=4096 --device amd-r9-fury")
@settings.predicting("kernel", "several sizes", "typical", "device", *settings.MODEL)
@click.option(
    "--backend",
    type=BACKEND,
    help="Backend with which the fit was measured, or on which `sampled` and `learned` run: opencl or cuda.",
)
@click.option("--counting", type=click.Choice(COUNTINGS), help=f"{settings.HOW_TO_COUNT}; default: as in the fit.")
@click.option("--plot", type=Output(), help="Also plot the run times over the size with several values in this file.")
@click.option(
    "--wall", is_flag=True, help="Predict the wall-clock time of one run, with the launch and the wait on the host."
)
def estimate_command(
    kernel: str, form: Form, parameters: Mapping[str, int | list[int]], plot: Path | None, **options: Any
) -> None:
    """Predict the run time of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. The table breaks the time down by property. With several sizes, another
    table has the time at each.
    """
    swept = {name: values for name, values in parameters.items() if isinstance(values, list)}
    if plot is not None and len(swept) != 1:
        raise click.UsageError("--plot needs one size with several values, e.g. --set n=1k,2k,4k")
    grid = np.meshgrid(*(np.array(values, object) for values in swept.values()), indexing="ij")
    combinations = {name: each.ravel() for name, each in zip(swept, grid, strict=True)}
    program = load_program(kernel)
    with working("estimating"):
        answer = estimate(program, parameters={**parameters, **combinations}, **options)
    print_answer(answer, form)
    if plot is not None:
        # Imported here, because matplotlib is optional.
        import_module("loopyperf.explain.plots").plot_sizes(answer, *swept).savefig(plot)
