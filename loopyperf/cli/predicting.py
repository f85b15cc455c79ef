"""Commands that predict run times: ``estimate``, ``compare``, ``counters`` and ``rank``."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

import loopyperf as lpp
from loopyperf.cli import settings
from loopyperf.cli.console import print_answer, print_in
from loopyperf.cli.kernel_source import load_program, load_variants
from loopyperf.cli.options import Form, Output
from loopyperf.cli.progress import counting_bar, working
from loopyperf.counts.execution import COUNTINGS
from loopyperf.display import ReportText, Table, called
from loopyperf.executors import Processes
from loopyperf.models.result import CLOCKS, Estimate
from loopyperf.search.task import BOUNDS


@click.command("estimate", epilog="\b\nExample: loopyperf estimate matmul.py:tiled --set n=4096 --device amd-r9-fury")
@settings.predicting("kernel", "several sizes", "typical", "devices", *settings.MODEL)
@click.option(
    "--backend",
    type=settings.BACKEND,
    help="Backend with which the fit was measured, or on which `sampled` and `learned` run: opencl or cuda.",
)
@click.option("--counting", type=click.Choice(COUNTINGS), help=f"{settings.HOW_TO_COUNT}; default: as in the fit.")
@click.option("--plot", type=Output(), help="Also plot the run times over the size with several values in this file.")
@click.option(
    "--wall", is_flag=True, help="Predict the wall-clock time of one run, with the launch and the wait on the host."
)
@click.option("--measure", is_flag=True, help="Also measure the kernel, on --backend or opencl, and print both times.")
def estimate_command(
    kernel: str,
    form: Form,
    parameters: Mapping[str, int | list[int]],
    device: Sequence[str],
    plot: Path | None,
    measure: bool,
    **options: Any,
) -> None:
    """Predict the run time of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. The table breaks the time down by property. With several sizes, another
    table has the time at each. With several devices, the table has a row for each.
    """
    swept = {name: values for name, values in parameters.items() if isinstance(values, list)}
    if plot is not None and (len(swept) != 1 or len(device) > 1):
        raise click.UsageError("--plot needs one size with several values, e.g. --set n=1k,2k,4k, and one device")
    if measure:
        if swept or len(device) > 1 or options.pop("counting") or options.pop("wall"):
            raise click.UsageError("--measure needs one size and at most one device; drop --counting and --wall")
        options["backend"] = options["backend"] or "opencl"
        with working("measuring"):
            measured = lpp.measure(
                load_program(kernel), parameters=parameters, device=device[0] if device else None, **options
            )
        print_answer(measured, form)
        return
    grid = np.meshgrid(*(np.array(values, object) for values in swept.values()), indexing="ij")
    combinations = {name: each.ravel() for name, each in zip(swept, grid, strict=True)}
    program = load_program(kernel)
    with working("estimating"):
        answers = [
            lpp.estimate(program, parameters={**parameters, **combinations}, device=choice, **options)
            for choice in device or [None]
        ]
    if len(answers) == 1:
        print_answer(answers[0], form)
    else:
        print_in(
            form,
            lambda: [answer.report_text() for answer in answers] if swept else [_on_devices(answers)],
            lambda: [{"device": answer.device, **row} for answer in answers for row in answer.records()],
            lambda: [answer.to_dict() for answer in answers],
        )
    if plot is not None:
        # Imported here, because matplotlib is optional.
        import_module("loopyperf.explain.plots").plot_sizes(answers[0], *swept).savefig(plot)


def _on_devices(answers: Sequence[Estimate]) -> ReportText:
    """Return the run times on several devices as a table."""
    first = answers[0]
    clocks = {words: [answer.device for answer in answers if answer.clock == clock] for clock, words in CLOCKS.items()}
    rows = [(answer.device, answer.model, answer.time_and_interval, answer.most_of_it) for answer in answers]
    return ReportText(
        called(first.kernel, first.sizes, first.typical),
        tables=[Table(("device", "model", "time", "cause"), rows, text=2, last=2)],
        remarks=[f"{', '.join(devices)}: {words}" for words, devices in clocks.items() if devices],
        notes=list(dict.fromkeys(note for answer in answers for note in answer.notes)),
        alone="\n".join(answer.alone for answer in answers),
    )


@click.command("compare", epilog="\b\nExample: loopyperf compare matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.predicting(*settings.OF_KERNEL, "models")
@click.option("--occupancy", is_flag=True, help="Show run times against the number of groups resident on a core.")
def compare_command(kernel: str, occupancy: bool, form: Form, **options: Any) -> None:
    """Compare the run times that all models predict for a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. The first row is the default model of `estimate`, or --model.
    """
    options["models"] = options["models"] or None
    if occupancy and [options.pop(name) for name in settings.MODEL] != [None, None, "model"]:
        raise click.UsageError("--occupancy compares models of the device; drop --fit, --model and --compiler")
    program = load_program(kernel)
    with working("running all models"):
        answer = (lpp.compare_occupancies if occupancy else lpp.compare)(program, **options)
    print_answer(answer, form)
    if not answer.seconds:
        raise SystemExit(1)


@click.command("counters", epilog="\b\nExample: loopyperf counters matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.predicting(*settings.OF_KERNEL)
@click.option(
    "--compare",
    "profile",
    type=settings.FILE,
    help="Compare with this profile: the output of `ncu --csv`.",
)
def counters_command(kernel: str, profile: Path | None, form: Form, **options: Any) -> None:
    """Predict the Nsight Compute metrics of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel. Metrics have their Nsight Compute names. With --compare, the metrics in a
    profile are printed beside the predicted ones, with relative errors.
    """
    program = load_program(kernel)
    with working("counting"):
        found = lpp.counters(program, **options)
        answer = found if profile is None else lpp.compare_counters(found, profile, device=options["device"])
    print_answer(answer, form)


@click.command("rank", epilog="\b\nExample: loopyperf rank tiles.py:variants --set n=4096 --device nvidia-v100")
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
        answer = lpp.rank(programs, **options, executor=executor, progress=report)
    print_answer(answer, form)
    if not answer.order:
        raise SystemExit(1)
