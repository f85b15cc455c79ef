"""``loopyperf compare``: what every model says of a kernel in a Python file."""

import json

import click

from loopyperf.cli.console import standard_output
from loopyperf.cli.kernel_source import load_program
from loopyperf.cli.settings import sizes_of
from loopyperf.oracle.comparison import compare as ask
from loopyperf.oracle.comparison import compare_occupancies as ask_over_occupancy


@click.command(epilog="\b\nExample: loopyperf compare matmul.py:tiled --set n=4096 --device nvidia-v100")
@click.argument("kernel", metavar="FILE.py:FUNCTION")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A size of the kernel; repeat for more.")
@click.option("--device", help="Short name (see `loopyperf devices`), or a description's path.")
@click.option("--model", "models", multiple=True, help="One of the models that are asked; repeat for more. Else all.")
@click.option("--occupancy", is_flag=True, help="Over how many groups reside on a core at once.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def compare(
    kernel: str,
    settings: tuple[str, ...],
    device: str | None,
    models: tuple[str, ...],
    occupancy: bool,
    as_json: bool,
) -> None:
    """Ask all models for the run time of the Loopy kernel that FUNCTION in FILE.py builds, and print them together."""
    question = ask_over_occupancy if occupancy else ask
    answer = question(load_program(kernel), device=device, models=models or None, parameters=sizes_of(settings))
    if as_json:
        click.echo(json.dumps(answer.to_dict(), indent=2))
    else:
        standard_output().print(str(answer), markup=False, highlight=False)
