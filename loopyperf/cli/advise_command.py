"""``loopyperf advise``: suggest changes that make a kernel faster."""

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.explain.advice import advise as ask


@click.command(epilog="\b\nExample: loopyperf advise matmul.py:tiled --set n=1024 --device nvidia-v100")
@settings.kernel
@settings.sizes
@settings.typical
@settings.device
@click.option("--try", "apply", is_flag=True, help="Apply the changes that Loopy can make, and predict the results.")
@settings.as_json
def advise_command(
    kernel: str,
    sizes: dict[str, int],
    typical: dict[str, float] | None,
    device: str | None,
    apply: bool,
    as_json: bool,
) -> None:
    """Suggest changes that make a Loopy kernel faster, with the predicted time after each.

    FUNCTION in FILE.py returns the kernel. The model `pipeline` simulates each change. The output gives the reason for
    each change, and how to make it in Loopy.
    """
    program = load_program(kernel)
    with working("simulating"):
        answer = ask(program, device=device, apply=apply, typical=typical, parameters=sizes)
    if as_json:
        print_json(answer.to_dict())
    else:
        show_answer(answer)
