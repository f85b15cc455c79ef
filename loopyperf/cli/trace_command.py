"""``loopyperf trace``: write a simulated trace of the warps of one core, for Perfetto."""

from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show_beside
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.explain.trace import EVENTS, FEWEST, GENERATOR, trace


@click.command(
    epilog="\b\nExample: loopyperf trace matmul.py:tiled --set n=256 --device nvidia-v100\n\n"
    "Open the file at ui.perfetto.dev, which does not upload it."
)
@settings.predicting(*settings.OF_KERNEL)
@settings.output("Output file; an earlier trace is overwritten.", Path("trace.json"), mark=GENERATOR)
@click.option(
    "--events",
    type=click.IntRange(min=FEWEST),
    default=EVENTS,
    help="Largest number of events, divided among the launches.",
)
@click.option(
    "--cycles", "in_cycles", is_flag=True, help="Show a cycle as a microsecond, so that single cycles are visible."
)
def trace_command(kernel: str, output: Path, form: Form, **options: Any) -> None:
    """Write a simulated trace of the warps of one core, for Perfetto.

    FUNCTION in FILE.py returns the kernel. The simulator executes it instruction by instruction; the trace shows when
    each warp issues an instruction, and what it waits for. A long run is truncated; the output and the file say where.
    """
    program = load_program(kernel)
    with working("simulating"):
        answer = trace(program, **options)
        answer.save(output)
    print_in(form, lambda: [answer.report_text()], answer.records, lambda: {"path": str(output), **answer.to_dict()})
    if form == "text":
        show_beside(f"wrote {output}; open it at https://ui.perfetto.dev")
