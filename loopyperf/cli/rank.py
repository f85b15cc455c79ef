"""``loopyperf rank``: which of the variants in a Python file is fastest."""

import json

import click

from loopyperf.cli.console import standard_output
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.settings import sizes_of
from loopyperf.oracle.ranking.own_processes import Processes
from loopyperf.oracle.ranking.rank import rank as ask


@click.command(
    epilog="\b\nExample: loopyperf rank tiles.py:variants --set n=4096 --device nvidia-v100 --model pipeline",
    context_settings={"show_default": True},
)
@click.argument("variants", metavar="FILE.py:VARIANTS")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A size of the kernels; repeat for more.")
@click.option("--device", help="Short name (see `loopyperf devices`), or without a fit also a description's path.")
@click.option("--model", help="Which model answers; by default that of the best fit.")
@click.option("--fit", help="Path of a fit or of a learned model, instead of the one for the device.")
@click.option(
    "--bounds", multiple=True, metavar="MODEL", help="A model of bounds that is asked first; repeat for more."
)
@click.option("--top", type=click.IntRange(min=1), help="How many of the fastest are wanted; by default all.")
@click.option("--workers", type=click.IntRange(min=1), default=1, help="Processes that analyse variants.")
@click.option("--time-limit", type=float, help="Seconds for each variant at most.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def rank(
    variants: str,
    settings: tuple[str, ...],
    device: str | None,
    model: str | None,
    fit: str | None,
    bounds: tuple[str, ...],
    top: int | None,
    workers: int,
    time_limit: float | None,
    as_json: bool,
) -> None:
    """Order the kernels VARIANTS in FILE.py by their predicted run times, fastest first.

    VARIANTS maps names to kernels, or to functions that build them; or it is a function that returns such a mapping.
    """
    answer = ask(
        load_program(variants),
        device=device,
        model=model,
        fit=fit,
        bounds=bounds,
        top=top,
        executor=Processes(workers) if workers > 1 else None,
        time_limit=time_limit,
        parameters=sizes_of(settings),
    )
    if as_json:
        click.echo(json.dumps(answer.to_dict(), indent=2))
    else:
        standard_output().print(str(answer))
