"""``loopyperf trace``: write a simulated trace of the warps of one core, for Perfetto."""

from pathlib import Path

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show_answer, show_beside
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.explain.trace import EVENTS, FEWEST, GENERATOR, trace


@click.command(
    epilog="\b\nExample: loopyperf trace matmul.py:tiled --set n=256 --device nvidia-v100\n\n"
    "Open the file at ui.perfetto.dev, which does not upload it."
)
@settings.kernel
@settings.sizes
@settings.typical
@settings.device
@settings.output("Output file; an earlier trace is overwritten.", Path("trace.json"), mark=GENERATOR)
@click.option(
    "--events",
    type=click.IntRange(min=FEWEST),
    default=EVENTS,
    help="Largest number of events, divided among the launches.",
)
@click.option("--cycles", is_flag=True, help="Show a cycle as a microsecond, so that single cycles are visible.")
@settings.as_json
def trace_command(
    kernel: str,
    sizes: dict[str, int],
    typical: dict[str, float] | None,
    device: str | None,
    output: Path,
    events: int,
    cycles: bool,
    as_json: bool,
) -> None:
    """Write a simulated trace of the warps of one core, for Perfetto.

    FUNCTION in FILE.py returns the kernel. The model `pipeline` simulates it instruction by instruction; the trace
    shows when each warp issues an instruction, and what it waits for. A long run is truncated; the output and the file
    say where.
    """
    program = load_program(kernel)
    with working("simulating"):
        answer = trace(program, device=device, events=events, in_cycles=cycles, typical=typical, parameters=sizes)
        answer.save(output)
    if as_json:
        print_json({"path": str(output), "events": answer.events, **answer.document["otherData"]})
    else:
        show_answer(answer)
        show_beside(f"wrote {output}; open it at https://ui.perfetto.dev")
