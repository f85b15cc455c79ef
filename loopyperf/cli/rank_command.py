"""``loopyperf rank``: rank the kernel variants in a Python file by predicted run time."""

from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_variants
from loopyperf.cli.progress import counting_bar
from loopyperf.cli.streams import Form
from loopyperf.executors import Processes
from loopyperf.predict.estimate import predictor
from loopyperf.search.rank import rank
from loopyperf.stages.compiled import Compiler


@click.command(epilog="\b\nExample: loopyperf rank tiles.py:variants --set n=4096 --device nvidia-v100")
@settings.variants
@settings.sizes
@settings.typical
@settings.device
@settings.model
@settings.fit
@settings.bounds
@click.option("--top", type=click.IntRange(min=1), help="Number of fastest variants to find; default: all.")
@click.option("--workers", type=click.IntRange(min=1), default=1, help="Number of processes that analyze variants.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), help="Time limit for each variant, in seconds."
)
@settings.compiler
@settings.form
def rank_command(
    variants: str,
    sizes: dict[str, int],
    typical: dict[str, float] | None,
    device: str | None,
    model: str | None,
    fit: str | None,
    bounds: tuple[str, ...],
    top: int | None,
    workers: int,
    time_limit: float | None,
    compiler: Compiler,
    form: Form,
) -> None:
    """Rank variants of a Loopy kernel by predicted run time, fastest first.

    VARIANTS in FILE.py maps names to kernels, or to functions that build them; or it is a function that returns such a
    mapping.
    """
    programs = load_variants(variants)
    options: dict[str, Any] = {"device": device, "model": model, "fit": fit}
    if compiler != "model":
        options = {"predictor": predictor(**options, compiler=compiler)}
    with counting_bar("ranking") as report:
        answer = rank(
            programs,
            **options,
            bounds=bounds,
            top=top,
            executor=Processes(workers) if workers > 1 else None,
            time_limit=time_limit,
            typical=typical,
            parameters=sizes,
            progress=report,
        )
    print_answer(answer, form)
    if not answer.order:
        raise SystemExit(1)
