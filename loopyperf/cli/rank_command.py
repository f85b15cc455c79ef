"""``loopyperf rank``: rank the kernel variants in a Python file by predicted run time."""

from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_variants
from loopyperf.cli.progress import counting_bar
from loopyperf.cli.streams import Form
from loopyperf.executors import Processes
from loopyperf.search.rank import rank
from loopyperf.search.task import BOUNDS


@click.command(epilog="\b\nExample: loopyperf rank tiles.py:variants --set n=4096 --device nvidia-v100")
@settings.predicting("variants", "sizes", "typical", "device", *settings.MODEL)
@click.option(
    "--bounds",
    multiple=True,
    type=click.Choice(BOUNDS),
    callback=settings.each_once,
    metavar="BOUND",
    help=f"Lower bound by which to skip slow variants: {' or '.join(BOUNDS)}; repeat for both. Requires --top.",
)
@click.option("--top", type=click.IntRange(min=1), help="Number of fastest variants to find; default: all.")
@click.option("--workers", type=click.IntRange(min=1), default=1, help="Number of processes that analyze variants.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), help="Time limit for each variant, in seconds."
)
def rank_command(variants: str, workers: int, form: Form, **options: Any) -> None:
    """Rank variants of a Loopy kernel by predicted run time, fastest first.

    VARIANTS in FILE.py maps names to kernels, or to functions that build them; or it is a function that returns such a
    mapping.
    """
    programs = load_variants(variants)
    executor = Processes(workers) if workers > 1 else None
    with counting_bar("ranking") as report:
        answer = rank(programs, **options, executor=executor, progress=report)
    print_answer(answer, form)
    if not answer.order:
        raise SystemExit(1)
