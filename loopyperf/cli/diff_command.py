"""``loopyperf diff``: explain the difference between two kernels, or one kernel at two sizes or on two devices."""

from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.explain.difference import Difference
from loopyperf.explain.difference import diff as ask


@click.command(
    epilog="\b\nExample: loopyperf diff matmul.py:tiled --set n=2048 --set-after n=4096 \\\n  --device nvidia-v100"
)
@settings.predicting("kernel", "other", "sizes", "sizes after", "typical", "devices", *settings.MODEL)
@settings.output("Output file for an HTML page with both kernels side by side; default: no page.")
def diff_command(output: Path | None, form: Form, **options: Any) -> None:
    """Explain how the run times of two Loopy kernels differ.

    Each FUNCTION in FILE.py returns a kernel. Without a second kernel, the first is compared with itself at the sizes
    of --set-after or on a second --device. Rows that differ by less than 1 % of the run time are counted, not printed.
    """
    answer = _compared(**options)
    path = {} if output is None else {"path": str(answer.save(output))}
    print_in(form, lambda: [answer.report_text()], answer.records, lambda: {**path, **answer.to_dict()})
    if path and form == "text":
        show(f"page: {path['path']}")


def _compared(
    kernel: str,
    other: str | None,
    parameters: dict[str, int],
    after: dict[str, int],
    device: tuple[str, ...],
    **options: Any,
) -> Difference:
    """Return the difference; raises :class:`click.UsageError` if the options select only one kernel run."""
    if other is None and not after and len(device) < 2:
        raise click.UsageError("give a second FILE.py:FUNCTION, --set-after, or a second --device")
    first = load_program(kernel)
    second = first if other is None else load_program(other)
    # None stands for a size that only the second kernel has.
    pairs = {name: (parameters.get(name), value) for name, value in after.items()}
    with working("comparing"):
        return ask(first, second, device=device or None, parameters={**parameters, **pairs}, **options)
