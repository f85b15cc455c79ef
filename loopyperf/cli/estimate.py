"""``loopyperf estimate``: how long a kernel in a Python file takes."""

import json

import click
from rich.console import Console
from rich.table import Table

from loopyperf.cli.console import standard_output
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.settings import sizes_of
from loopyperf.counts.execution import COUNTINGS, Counting
from loopyperf.models.result import Estimate
from loopyperf.oracle.estimate import estimate as ask
from loopyperf.oracle.explanation.costs import property_costs
from loopyperf.units import duration


@click.command(epilog="\b\nExample: loopyperf estimate matmul.py:tiled --set n=4096 --device amd-r9-fury")
@click.argument("kernel", metavar="FILE.py:FUNCTION")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A size of the kernel; repeat for more.")
@click.option("--device", help="Short name (see `loopyperf devices`), or without a fit also a description's path.")
@click.option("--model", help="Which model answers; by default that of the best fit.")
@click.option("--fit", help="Path of a fit or of a learned model, instead of the one for the device.")
@click.option("--backend", help="What the fit was measured through, or `sampled` and `learned` run on: opencl or cuda.")
@click.option("--counting", type=click.Choice(COUNTINGS), help="How work is counted; by default as in the fit.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole estimate as JSON.")
def estimate(
    kernel: str,
    settings: tuple[str, ...],
    device: str | None,
    model: str | None,
    fit: str | None,
    backend: str | None,
    counting: Counting | None,
    as_json: bool,
) -> None:
    """Predict the run time of the Loopy kernel that FUNCTION in FILE.py builds, and say what it is made of."""
    answer = ask(
        load_program(kernel),
        device=device,
        model=model,
        fit=fit,
        backend=backend,
        counting=counting,
        parameters=sizes_of(settings),
    )
    if as_json:
        click.echo(json.dumps(answer.to_dict(), indent=2))
    else:
        show_estimate(answer, standard_output())


def show_estimate(answer: Estimate, console: Console) -> None:
    """Print *answer* with its costs by property."""
    console.print(str(answer))
    console.print(property_table(answer))


def property_table(answer: Estimate) -> Table:
    """Return the costs by property of *answer* as a table."""
    table = Table("property", "count", "each", "time")
    for column in table.columns[1:]:
        column.justify = "right"
    for cost in property_costs(answer):
        each = "differs" if cost.each is None else duration(cost.each)
        table.add_row(cost.property, f"{cost.count:,}", each, duration(cost.seconds))
    return table
