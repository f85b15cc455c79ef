"""``loopyperf diff``: explain the difference between two kernels, or one kernel at two sizes or on two devices."""

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
@settings.output("Output file for an HTML page with both kernels side by side; default: no page.")
@settings.as_json
def diff_command(output: Path | None, as_json: bool, **options: Any) -> None:
    """Explain how the run times of two Loopy kernels differ.

    Each FUNCTION in FILE.py returns a kernel. Without a second kernel, the first is compared with itself at the sizes
    of --set-after or on a second --device. Rows that differ by less than 1 % of the run time are counted, not printed.
    """
    if output is not None:
        # Report a missing Jinja2 or matplotlib before the analysis.
        import_module("loopyperf.explain.report")
    answer = _compared(**options)
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
    """Return the difference; raises :class:`click.UsageError` if the options select only one kernel run."""
    if other is None and not sizes_after and len(devices) < 2:
        raise click.UsageError("give a second FILE.py:FUNCTION, --set-after, or a second --device")
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
    """Return *sizes*, as (before, after) pairs where *after* has them; None stands for a size that was not given."""
    return {**sizes, **{name: (sizes.get(name), value) for name, value in after.items()}}
