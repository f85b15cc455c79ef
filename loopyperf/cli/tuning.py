"""Commands that find a fast variant, and that keep a kernel fast: ``tune``, ``measure`` and ``check``."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import click

import loopyperf as lpp
from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.kernel_source import load_builder, load_program
from loopyperf.cli.options import Form, Output
from loopyperf.cli.progress import counting_bar, working
from loopyperf.display import called
from loopyperf.errors import ParameterError
from loopyperf.executors import Processes
from loopyperf.files import read_document, write_file
from loopyperf.measurement.backends import open_backend
from loopyperf.models.result import Estimate
from loopyperf.search.exploration import PREDICTIONS
from loopyperf.units import duration, in_percent


@click.command(
    "tune",
    epilog="\b\nExample: loopyperf tune matmul.py:tiled --choose tile=8,16 --set n=512 \\\n  --backend opencl",
)
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
    with counting_bar("tuning") as report:
        answer = lpp.tune(
            load_builder(kernel), space, backend=machine, state=state, executor=executor, progress=report, **options
        )
    print_answer(answer, form)


@click.command("measure", epilog="\b\nExample: loopyperf measure matmul.py:tiled --set n=256")
@settings.predicting("kernel", "sizes", "typical", "device", *settings.MODEL)
@click.option("--backend", type=settings.BACKEND, default="opencl", help="Backend to measure with: opencl or cuda.")
@click.option("--on", "on_device", help="Part of the name of the backend's device; default: its first one.")
def measure_command(kernel: str, backend: str, on_device: str | None, form: Form, **options: Any) -> None:
    """Measure the run time of a Loopy kernel, and print it beside the predicted one.

    FUNCTION in FILE.py returns the kernel. Arguments are generated; results are not checked.
    """
    program = load_program(kernel)
    machine = open_backend(backend, **({"device": on_device} if on_device else {}))
    with working("measuring"):
        answer = lpp.measure(program, backend=machine, **options)
    print_answer(answer, form)


class Quantity(click.ParamType[float]):
    """A number with a unit, such as 50us or 5%."""

    def __init__(self, name: str, units: Mapping[str, float], examples: str) -> None:
        """Store the *name* of the quantity, the value of each unit, and *examples* for errors."""
        self.name, self.units, self.examples = name, units, examples

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number in base units; raises :class:`click.BadParameter` without a number and a unit."""
        found = re.fullmatch(rf"(\d+\.?\d*(?:e-?\d+)?) ?({'|'.join(self.units)})", str(value))
        if found is None:
            self.fail(f"a {self.name} must be a number and a unit, e.g. {self.examples}; got {value!r}", param, ctx)
        return float(found[1]) * self.units[found[2]]


DURATION = Quantity("time", {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}, "50us, 1.5ms or 2s")
SHARE = Quantity("share", {"%": 0.01}, "5%")


@click.command(
    "check",
    epilog="\b\nExample: loopyperf check matmul.py:tiled --set n=4096 \\\n  --device nvidia-v100 --max 60ms",
)
@settings.predicting(*settings.OF_KERNEL)
@click.option("--max", "most", type=DURATION, help="Largest accepted time, e.g. 50us.")
@click.option("--baseline", type=settings.FILE, help="Earlier output of `loopyperf estimate --format json`.")
@click.option(
    "--fail-if-slower", "slower", type=SHARE, default="5%", help="Accepted increase over --baseline, e.g. 5%."
)
@click.option("--junit", type=Output(), help="Also write the result to this file, in JUnit's XML format.")
def check_command(
    kernel: str,
    most: float | None,
    baseline: Path | None,
    slower: float,
    junit: Path | None,
    form: Form,
    **options: Any,
) -> None:
    """Fail if the predicted run time of a Loopy kernel is too long, for continuous integration.

    FUNCTION in FILE.py returns the kernel. Prints one line; the exit status is 1 if a limit is exceeded. In a GitHub
    workflow, the failure is also an annotation of FILE.py.
    """
    if most is None and baseline is None:
        raise click.UsageError("there is nothing to check; give --max or --baseline")
    program = load_program(kernel)
    with working("estimating"):
        found = lpp.estimate(program, **options)
    limits = [] if most is None else [(most, "--max")]
    if baseline is not None:
        limits.append(((1 + slower) * _baseline_of(baseline, found), f"{in_percent(slower)} above {baseline}"))
    limit, what = min(limits)
    time = float(found.seconds)
    name = called(found.kernel, found.sizes, found.typical)
    verdict = f"{name} on {found.device}, model {found.model}: {duration(time)}, limit {duration(limit)} ({what})"
    has_failed = time > limit
    if junit is not None:
        suite = ElementTree.Element("testsuite", name="loopyperf", tests="1", failures=str(int(has_failed)))
        case = ElementTree.SubElement(suite, "testcase", classname=kernel, name=name)
        if has_failed:
            ElementTree.SubElement(case, "failure", message=verdict)
        write_file("the JUnit file", junit, ElementTree.tostring(suite, encoding="unicode") + "\n")
    if form == "text":
        click.echo(f"{'too slow' if has_failed else 'ok'}: {verdict}")
    else:
        print_answer(found, form)
    if has_failed and os.environ.get("GITHUB_ACTIONS") == "true":
        click.echo(f"::error file={kernel.rpartition(':')[0]}::{verdict}", err=True)
    raise SystemExit(int(has_failed))


def _baseline_of(path: Path, found: Estimate) -> float:
    """Return the seconds of the estimate in *path*; raises :class:`ParameterError` if it is of another kernel."""
    document = read_document(path, "baseline", "make it with `loopyperf estimate --format json`")
    known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    now = found.to_dict()
    for name in ("kernel", "sizes", "device", "model"):
        if known.get(name) != now[name]:
            raise ParameterError(
                f"{path} is no baseline of this estimate: {name} is {known.get(name)!r}, not {now[name]!r}"
            )
    return float(known["seconds"])
