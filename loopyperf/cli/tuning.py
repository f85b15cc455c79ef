"""``loopyperf tune``: find the fastest point of a space with few measurements."""

from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_builder
from loopyperf.cli.options import Form
from loopyperf.cli.progress import counting_bar
from loopyperf.executors import Processes
from loopyperf.measurement.backends import open_backend
from loopyperf.search.exploration import PREDICTIONS
from loopyperf.search.tune import tune


@click.command(epilog="\b\nExample: loopyperf tune matmul.py:tiled --choose tile=8,16,32 --set n=4096 --backend opencl")
@settings.predicting("kernel", "sizes", "typical", "device", *settings.MODEL)
@click.option(
    "--choose",
    "space",
    multiple=True,
    required=True,
    type=settings.CHOICES,
    callback=settings.by_name,
    metavar="NAME=VALUE,VALUE,...",
    help="Values of an argument of the function; repeat for more arguments.",
)
@click.option(
    "--restrict",
    "restrictions",
    multiple=True,
    metavar="EXPRESSION",
    help="Python expression over the arguments that must be true, e.g. 'tile*unroll <= 64'; repeat for more.",
)
@click.option("--backend", type=settings.BACKEND, help="Backend to measure with; without it, nothing is measured.")
@click.option("--on", "on_device", help="Part of the name of the backend's device; default: its first one.")
@click.option("--budget", type=click.IntRange(min=1), help="Largest number of points to measure.")
@click.option("--max-seconds", type=click.FloatRange(min=0, min_open=True), help="Seconds after which to end.")
@click.option("--regret", type=click.FloatRange(min=0), default=0.02, help="Accepted distance from the least time.")
@click.option(
    "--probability",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    help="Probability with which the result is within --regret.",
)
@click.option("--predictions", type=click.IntRange(min=1), default=PREDICTIONS, help="Points to predict at most.")
@click.option("--state", type=settings.FILE, help="Archive of measurements and decisions; an existing one is resumed.")
@click.option("--workers", type=click.IntRange(min=1), default=1, help="Number of processes that predict points.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), help="Time limit for each prediction, in seconds."
)
def tune_command(
    kernel: str,
    space: dict[str, tuple[Any, ...]],
    backend: str | None,
    on_device: str | None,
    workers: int,
    state: Path | None,
    form: Form,
    **options: Any,
) -> None:
    """Find the fastest variant of a Loopy kernel with as few measurements as possible.

    FUNCTION in FILE.py builds the kernel; it gets one value of each --choose as a keyword argument.
    """
    if on_device is not None and backend is None:
        raise click.UsageError("--on names a device of a backend; give --backend too")
    machine = None if backend is None else open_backend(backend, **({"device": on_device} if on_device else {}))
    executor = Processes(workers) if workers > 1 else None
    with counting_bar("measuring") as report:
        answer = tune(
            load_builder(kernel), space, backend=machine, state=state, executor=executor, progress=report, **options
        )
    print_answer(answer, form)
