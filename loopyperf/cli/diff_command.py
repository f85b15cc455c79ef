"""``loopyperf diff``: what differs between two kernels in Python files, or one at two sizes or on two devices."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show, show_answer
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.progress import working
from loopyperf.explain.difference import Difference
from loopyperf.explain.difference import diff as ask

Pair = tuple[int | None, int | None]


@click.command(
    epilog="\b\nExample: loopyperf diff matmul.py:tiled --set n=2048 --set-after n=4096 \\\n  --device nvidia-v100"
)
@settings.kernel
@settings.other_kernel
@settings.sizes
@settings.sizes_after
@settings.typical
@settings.several_devices
@settings.model_of_both
@settings.fit_of_one
@settings.output("Where a page with both side by side goes; by default none is written.")
@settings.as_json
def diff_command(output: Path | None, as_json: bool, **asked: Any) -> None:
    """Say what differs between two Loopy kernels, or one at two sizes or on two devices, and why.

    The second FILE.py:FUNCTION is another variant. Without it, the first is compared with itself, at the sizes of
    --set-after or on a second --device. Rows that differ by less than 1 % of the run time are counted, not printed.
    """
    if output is not None:
        # Where Jinja2 or matplotlib is missing, say so before the analysis.
        import_module("loopyperf.explain.report")
    answer = _compared(**asked)
    saved = None if output is None else answer.save(output)
    if as_json:
        print_json(answer.to_dict() if saved is None else {"path": str(saved), **answer.to_dict()})
        return
    show_answer(answer)
    if saved is not None:
        show(f"page: {saved}")


def _compared(
    *,
    kernel: str,
    other: str | None,
    sizes: dict[str, int],
    sizes_after: dict[str, int],
    typical: dict[str, float] | None,
    devices: tuple[str, ...],
    model: str | None,
    fit: str | None,
) -> Difference:
    """Return the difference that the options name; raises :class:`click.UsageError` where they name one kernel."""
    if other is None and not sizes_after and len(devices) < 2:
        raise click.UsageError("give a second FILE.py:FUNCTION, sizes of --set-after, or a second --device")
    before = load_program(kernel)
    after = before if other is None else load_program(other)
    with working("comparing"):
        return ask(
            before,
            after,
            device=devices or None,
            model=model,
            fit=fit,
            typical=typical,
            parameters=_pairs(sizes, sizes_after),
        )


def _pairs(sizes: dict[str, int], after: dict[str, int]) -> dict[str, int | Pair]:
    """Return *sizes*, those that are given *after* as pairs; a size of --set-after alone is of the second alone."""
    return {**sizes, **{name: (sizes.get(name), value) for name, value in after.items()}}
