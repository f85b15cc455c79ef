"""``loopyperf calibrate``: make the fit of a device."""

import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from loopyperf.calibration.fit_files import fit_document
from loopyperf.calibration.fits import Fit
from loopyperf.cli import settings
from loopyperf.cli.classes import show_classes
from loopyperf.cli.console import print_json, show, standard_output, table_of
from loopyperf.cli.coverage import show_coverage, show_gaps
from loopyperf.cli.progress import campaign_bar
from loopyperf.counts.execution import Counting
from loopyperf.measurement.protocol import Caches, Protocol
from loopyperf.models.on_device.pipeline_shares import LAUNCHES
from loopyperf.oracle.calibrate import calibrate as run_calibration
from loopyperf.units import duration


@click.command(
    epilog="\b\nExample: POCL_MAX_PTHREAD_COUNT=1 loopyperf calibrate\n\n"
    "\b\nTo learn what the sampled model gets wrong as well:\n"
    "loopyperf calibrate --samples --archive gpu.jsonl\nloopyperf train gpu.jsonl",
)
@settings.measuring
@settings.archive
@settings.fitting
@click.option("--caches", type=click.Choice(("warm", "cold")), default="warm", help="What each run finds in them.")
@click.option("--samples", is_flag=True, help="Also run the first groups of each, for `loopyperf train`.")
@click.option("--coverage", "whole_coverage", is_flag=True, help="Print what exercises each property, not only gaps.")
@settings.as_json
def calibrate(
    backend: str,
    device: str | None,
    kernels: Path | None,
    archive: Path | None,
    output: Path | None,
    model: str | None,
    weights: str,
    caches: Caches,
    counting: Counting,
    samples: bool,
    whole_coverage: bool,
    as_json: bool,
) -> None:
    """Measure the measurement kernels on a device, and fit the model that predicts unseen classes of them best."""
    started = time.monotonic()
    protocol = Protocol(caches=caches)
    with campaign_bar("measuring") as report:
        fit = run_calibration(
            backend,
            device=device,
            kernels=kernels,
            archive=archive,
            save=output,
            protocol=protocol,
            counting=counting,
            model=model,
            non_negative=settings.WEIGHTS[weights],
            samples=samples,
            progress=report,
        )
    if as_json:
        print_json(fit_document(fit))
        return
    console = standard_output()
    _show_calibration(fit, protocol, whole_coverage, console)
    show(f"calibrated {fit.slug} in {time.monotonic() - started:.0f} s", console)


def _show_calibration(fit: Fit, protocol: Protocol, whole_coverage: bool, console: Console) -> None:
    """Print *fit*, what exercises its properties, and how well its times are known."""
    show_fit(fit, console)
    if whole_coverage:
        show_coverage(fit.coverage, console)
    show_gaps(fit.coverage, console)
    show(f"timed by the wall clock, {protocol}; {noise(fit)}", console)


def noise(fit: Fit) -> str:
    """Return the noise floor of the measurements of *fit* in words."""
    if fit.noise_floor is None:
        return "noise floor not known: the yardstick could not be timed"
    return f"noise floor {fit.noise_floor:.1%}: so much a kernel's time differs that was taken again and again"


def show_fit(fit: Fit, console: Console) -> None:
    """Print the weights of *fit*, how well the measurements determine them, and its errors by kernel class."""
    console.print(_pipelines(fit) if fit.basis == "pipelines" else _properties(fit))
    for group in fit.undetermined:
        show(f"not told apart by the kernels: {', '.join(group.properties)}", console)
    if fit.residual_summary is not None:
        show(
            f"{len(fit.residuals)} measurements, {_determined(fit)}, residuals: geometric "
            f"mean {fit.residual_summary.geometric_mean:.1%}, worst {fit.residual_summary.worst:.0%}",
            console,
        )
    if fit.cross_validation is not None:
        show_classes(fit.cross_validation, fit.candidate, console)


def _properties(fit: Fit) -> Table:
    table = _table(fit, "property", "weight", "at most counted")
    for name, weight in fit.weights.items():
        table.add_row(name, duration(weight), f"{fit.ranges[name][1]:.3g}" if name in fit.ranges else "")
    return table


def _pipelines(fit: Fit) -> Table:
    """Return the table of columns that are seconds, as far as they are no numbers of launches."""
    table = _table(fit, "pipeline", "takes", "at most busy")
    for name, weight in fit.weights.items():
        most = fit.ranges[name][1] if name in fit.ranges else None
        if name == LAUNCHES:
            table.add_row(name, f"{duration(weight)} each", "" if most is None else f"{most:.3g} launches")
        else:
            table.add_row(name, f"{weight:.3g} times", "" if most is None else duration(most))
    table.caption = "times: of what the device's description says; at most busy: by the description, in one measurement"
    return table


def _table(fit: Fit, *columns: str) -> Table:
    return table_of(*columns, title=f"{fit.model} model of {fit.device}")


def _determined(fit: Fit) -> str:
    if fit.basis == "pipelines":
        # The description stands for what the measurements leave open, so that every column has its weight.
        return f"{len(fit.weights)} weights, drawn to 1 as far as the measurements leave them open"
    rank = "rank not known" if fit.rank is None else f"rank {fit.rank}"
    return rank if fit.condition is None else f"{rank}, condition {fit.condition:.3g}"
