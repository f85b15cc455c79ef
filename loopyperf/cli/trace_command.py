"""``loopyperf trace``: what the warps of a core do, as a file that Perfetto opens."""

from pathlib import Path

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show_answer, show_beside
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.explain.trace import EVENTS, FEWEST, GENERATOR
from loopyperf.explain.trace import trace as ask


@click.command(
    epilog="\b\nExample: loopyperf trace matmul.py:tiled --set n=256 --device nvidia-v100\n\n"
    "Open the file at ui.perfetto.dev, which keeps it on this machine."
)
@settings.kernel
@settings.sizes
@settings.typical
@settings.device
@settings.output("Where the trace goes; an earlier trace is overwritten.", Path("trace.json"), mark=GENERATOR)
@click.option(
    "--events",
    type=click.IntRange(min=FEWEST),
    default=EVENTS,
    help="Most events to write, over all launches, but some of each.",
)
@click.option("--cycles", is_flag=True, help="Draw a cycle as a microsecond, so that none is too short to be seen.")
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
    """Write down what the warps of a core do when it executes the kernel that FUNCTION in FILE.py builds.

    It is what the model `pipeline` simulates of it, instruction by instruction: when each warp issues what, and what
    it waits for. What is left out of a long run is said in the output and in the file.
    """
    program = load_program(kernel)
    with working("simulating"):
        answer = ask(program, device=device, events=events, in_cycles=cycles, typical=typical, parameters=sizes)
        answer.save(output)
    if as_json:
        print_json({"path": str(output), "events": answer.events, **answer.document["otherData"]})
    else:
        show_answer(answer)
        show_beside(f"wrote {output}; open it at https://ui.perfetto.dev")
