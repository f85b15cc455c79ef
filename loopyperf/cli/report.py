"""``loopyperf report``: a page about a kernel in a Python file."""

from importlib import import_module
from pathlib import Path

import click

from loopyperf.cli.kernel_source import load_program, words_on
from loopyperf.cli.settings import sizes_of


@click.command(epilog="\b\nExample: loopyperf report matmul.py:tiled --set n=4096 --device nvidia-v100 -o report.html")
@click.argument("kernel", metavar="FILE.py:FUNCTION")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A size of the kernel; repeat for more.")
@click.option("--device", "devices", multiple=True, help="Short name, or a description's path; repeat for more.")
@click.option("--model", help="Which model is shown first; by default that of the best fit, else pipeline.")
@click.option(
    "--only", "models", multiple=True, metavar="MODEL", help="A model that is asked; repeat for more. Else all."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("report.html"), show_default=True, help="The page."
)
def report(
    kernel: str,
    settings: tuple[str, ...],
    devices: tuple[str, ...],
    model: str | None,
    models: tuple[str, ...],
    output: Path,
) -> None:
    """Write a page about the Loopy kernel that FUNCTION in FILE.py builds: its time, what of, and what would help.

    The page is one file that needs no network. What FUNCTION says of itself, its docstring, is on it.
    """
    # Where Jinja2 or matplotlib is missing, nobody should have to hear of it after the analysis.
    reports = import_module("loopyperf.reports")
    program = load_program(kernel)
    made = reports.report(
        program,
        device=devices or None,
        model=model,
        models=models or None,
        about=words_on(kernel),
        parameters=sizes_of(settings),
    )
    click.echo(f"report: {made.save(output)}")
