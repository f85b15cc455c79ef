"""``loopyperf estimate``: predict the run time of a kernel."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer, print_in
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.settings import BACKEND
from loopyperf.cli.streams import Form, Output
from loopyperf.counts.execution import COUNTINGS
from loopyperf.display import ReportText, Table, called
from loopyperf.models.result import CLOCKS, Estimate
from loopyperf.predict.estimate import estimate


@click.command(epilog="\b\nExample: loopyperf estimate matmul.py:tiled --set n=4096 --device amd-r9-fury")
@settings.predicting("kernel", "several sizes", "typical", "devices", *settings.MODEL)
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
    kernel: str,
    form: Form,
    parameters: Mapping[str, int | list[int]],
    device: Sequence[str],
    plot: Path | None,
    **options: Any,
) -> None:
    """Predict the run time of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. The table breaks the time down by property. With several sizes, another
    table has the time at each. With several devices, the table has a row for each.
    """
    swept = {name: values for name, values in parameters.items() if isinstance(values, list)}
    if plot is not None and (len(swept) != 1 or len(device) > 1):
        raise click.UsageError("--plot needs one size with several values, e.g. --set n=1k,2k,4k, and one device")
    grid = np.meshgrid(*(np.array(values, object) for values in swept.values()), indexing="ij")
    combinations = {name: each.ravel() for name, each in zip(swept, grid, strict=True)}
    program = load_program(kernel)
    with working("estimating"):
        answers = [
            estimate(program, parameters={**parameters, **combinations}, device=each, **options)
            for each in device or [None]
        ]
    if len(answers) == 1:
        print_answer(answers[0], form)
    else:
        print_in(
            form,
            lambda: [each.report_text() for each in answers] if swept else [_on_devices(answers)],
            lambda: [{"device": each.device, **row} for each in answers for row in each.records()],
            lambda: [each.to_dict() for each in answers],
        )
    if plot is not None:
        # Imported here, because matplotlib is optional.
        import_module("loopyperf.explain.plots").plot_sizes(answers[0], *swept).savefig(plot)


def _on_devices(answers: Sequence[Estimate]) -> ReportText:
    """Return the run times on several devices as a table."""
    first = answers[0]
    clocks = {words: [each.device for each in answers if each.clock == clock] for clock, words in CLOCKS.items()}
    rows = [(each.device, each.model, each.time_and_interval, each.most_of_it) for each in answers]
    return ReportText(
        called(first.kernel, first.sizes, first.typical),
        tables=[Table(("device", "model", "time", "cause"), rows, text=2, last=2)],
        remarks=[f"{', '.join(devices)}: {words}" for words, devices in clocks.items() if devices],
        notes=list(dict.fromkeys(note for each in answers for note in each.notes)),
        alone="\n".join(each.alone for each in answers),
    )
