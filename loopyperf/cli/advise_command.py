"""``loopyperf advise``: suggest changes that make a kernel faster."""

from pathlib import Path

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show_answer, show_beside
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.explain.advice import advise as ask


@click.command(epilog="\b\nExample: loopyperf advise matmul.py:tiled --set n=1024 --device nvidia-v100")
@settings.kernel
@settings.sizes
@settings.typical
@settings.device
@click.option("--try", "apply", is_flag=True, help="Apply the changes that Loopy can make, and predict the results.")
@click.option("--combine", is_flag=True, help="Combine up to four changes, as long as each helps.")
@click.option(
    "--emit", type=settings.FILE, help="Write a Python file; its function fixed() returns the changed kernel."
)
@settings.as_json
def advise_command(
    kernel: str,
    sizes: dict[str, int],
    typical: dict[str, float] | None,
    device: str | None,
    apply: bool,
    combine: bool,
    emit: Path | None,
    as_json: bool,
) -> None:
    """Suggest changes that make a Loopy kernel faster, with the predicted time after each.

    FUNCTION in FILE.py returns the kernel. Loopy makes each change, and the model `pipeline` predicts the changed
    kernel. The output gives the reason for each change, and a function that makes it.
    """
    program = load_program(kernel)
    with working("simulating"):
        answer = ask(program, device=device, apply=apply, combine=combine, typical=typical, parameters=sizes)
    written = None if emit is None else answer.emit(emit, kernel)
    if as_json:
        print_json(answer.to_dict())
        return
    show_answer(answer)
    if written is not None:
        show_beside(f"wrote {written}; fixed() returns the changed kernel: loopyperf estimate {written}:fixed")
